// SPDX-License-Identifier: Apache-2.0
// Runs A @ v of every build of the kernels that this CPU can on the cases of cases.h, against a plain loop in double: what
// `make sanitize` builds with the sanitizers.
#include <cstdio>
#include <string>
#include <thread>

#include "cases.h"

namespace {

// The largest difference of a row's output, lse and entropy from the plain loop. `rounding` says how much coarser than W the
// weights are that values are multiplied with.
template <class W>
double row_error(const Made& made, int64_t h, int64_t i, const W* out, W lse, W entropy, double rounding) {
    const Problem& p = made.problem;
    std::vector<double> score, sum(size_t(made.v.rows.width), 0.0);
    double peak = p.sinks ? p.sinks[h] : -INFINITY;
    for (int64_t j = 0; j < p.n_k; j++) score.push_back(made.score(h, i, j)), peak = std::fmax(peak, score.back());
    double total = p.sinks && peak > -INFINITY ? std::exp(p.sinks[h] - peak) : 0, surprise = 0, worst = 0;
    for (double x : score) total += peak > -INFINITY ? std::exp(x - peak) : 0;
    const double wanted = total > 0 ? peak + std::log(total) : -INFINITY;
    for (size_t j = 0; j < score.size(); j++) {
        if (score[j] == -INFINITY) continue;
        const double weight = std::exp(score[j] - wanted);
        surprise -= weight * (score[j] - wanted);
        for (size_t c = 0; c < sum.size(); c++) sum[c] += weight * made.v.values[(size_t(made.shared(h) * p.n_k) + j) * sum.size() + c];
    }
    for (size_t c = 0; c < sum.size(); c++) worst = std::fmax(worst, std::fabs(double(out[c]) - sum[c]) / rounding);
    if (wanted == -INFINITY) return lse == W(-INFINITY) && entropy == 0 ? worst : INFINITY;
    return std::fmax(worst, std::fmax(std::fabs(double(lse) - wanted), std::fabs(double(entropy) - surprise)));
}

template <class W>
double error_of(const Kernel& kernel, const Made& made, int threads) {
    const Problem& p = made.problem;
    const int64_t rows = p.n_heads * p.n_q;
    const int64_t width = made.v.rows.width;
    std::vector<W> out(size_t(rows * width) + 1, W(NAN)), lse(size_t(rows) + 1, W(NAN)), entropy(size_t(rows) + 1, W(NAN));
    kernel.apply(p, &made.v.rows, out.data(), {nullptr, nullptr, lse.data(), entropy.data(), nullptr, nullptr},
                 {threads, nullptr, nullptr});
    const bool rounds = p.q.dtype == DType::bf16 && std::string(kernel.name) == "v4_bf16";
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double error = row_error(made, r / p.n_q, r % p.n_q, out.data() + r * width, lse[size_t(r)], entropy[size_t(r)],
                                       rounds ? 512.0 : 1.0);
        worst = error <= worst ? worst : error;  // NaN is the worst of all
    }
    std::vector<W> alone(out.size(), W(NAN));
    kernel.apply(p, &made.v.rows, alone.data(), {}, {1, nullptr, nullptr});
    const bool same = std::memcmp(alone.data(), out.data(), sizeof(W) * size_t(rows * width)) == 0;
    return same && std::isnan(double(out.back())) && std::isnan(double(lse.back())) ? worst : INFINITY;
}

// Parts merged by the kernel against a plain sum.
int check_merge(const Kernel& kernel) {
    for (int n = 0; n < 40; n++) {
        const int64_t parts = 1 + below(5), rows = below(130), width = below(40);
        std::vector<std::vector<float>> outs, lses;
        std::vector<const void*> out_of, lse_of;
        for (int64_t part = 0; part < parts; part++) {
            outs.emplace_back(), lses.emplace_back();
            for (int64_t x = 0; x < rows * width; x++) outs.back().push_back(float(uniform()));
            for (int64_t x = 0; x < rows; x++) lses.back().push_back(below(4) ? float(9 * uniform()) : -INFINITY);
            out_of.push_back(outs.back().data()), lse_of.push_back(lses.back().data());
        }
        std::vector<float> out(size_t(rows * width)), lse(size_t(rows), 0.0f);
        kernel.merge({parts, rows, width, out_of.data(), lse_of.data(), DType::f32, false}, out.data(), lse.data(),
                     {3, nullptr, nullptr});
        for (size_t row = 0; row < size_t(rows); row++) {
            double total = 0, worst = 0;
            for (const auto& each : lses) total += std::exp(double(each[row]));
            for (size_t c = 0; c < size_t(width); c++) {
                double sum = 0;
                for (size_t part = 0; part < outs.size(); part++)
                    sum += total > 0 ? std::exp(double(lses[part][row])) / total * outs[part][row * size_t(width) + c] : 0;
                worst = std::fmax(worst, std::fabs(sum - out[row * size_t(width) + c]));
            }
            const bool same = total > 0 ? std::fabs(std::log(total) - lse[row]) < 1e-5 : lse[row] == -INFINITY;
            if (!(worst < 1e-5) || !same) return std::printf("%s: parts are merged wrong\n", kernel.name), 1;
        }
    }
    return 0;
}

int check_random(const Kernel& kernel, int cases) {
    double worst[2] = {0, 0};
    for (int n = 0; n < cases; n++) {
        const Case c = drawn();
        const Made made(c);
        const bool wide = c.dtype == DType::f64;
        const double error = wide ? error_of<double>(kernel, made, 4) : error_of<float>(kernel, made, 4);
        const double longer = c.n_k > 400 ? double(c.n_k) / 400 : 1;  // sums of so many terms round more
        if (!(error <= longer * (wide ? 1e-13 : 3e-5))) {
            std::printf("%s: error %g of heads %d n_q %d n_k %d d_k %d d_v %d dtype %d spans %d mask %d bias %d distance %d "
                        "sinks %d softcap %g group %d\n",
                        kernel.name, error, int(c.heads), int(c.n_q), int(c.n_k), int(c.d_k), int(c.d_v), int(c.dtype),
                        c.spans, c.mask, c.bias, c.distance, c.sinks, c.softcap, int(c.group));
            return 1;
        }
        worst[wide] = std::fmax(worst[wide], error);
    }
    std::printf("%s: %d cases, largest error %.2g in float, %.2g in double\n", kernel.name, cases, worst[0], worst[1]);
    return 0;
}

// Several callers at once on the pool of our own, each with its own problem.
int check_callers(const Kernel& kernel) {
    std::vector<Made> made;
    std::vector<double> errors(6, INFINITY);
    for (size_t n = 0; n < errors.size(); n++) made.emplace_back(Case{3, 100, 65, 8, 8, DType::f32, true, false, false, false, false, 0});
    for (Made& each : made) {
        each.problem.first = each.first.data();
        each.problem.last = each.last.data();
    }
    std::vector<std::thread> callers;
    for (size_t n = 0; n < errors.size(); n++)
        callers.emplace_back([&, n] {
            for (int again = 0; again < 5; again++) errors[n] = error_of<float>(kernel, made[n], 3);
        });
    for (std::thread& each : callers) each.join();
    for (double error : errors)
        if (!(error <= 3e-5)) return std::printf("%s: error %g among several callers\n", kernel.name, error), 1;
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const Kernel* all[kMaxKernels];
    const int n = kernels(all), cases = count > 1 ? std::stoi(words[1]) : 300;
    int failed = 0;
    for (int i = 0; i < n; i++) {
        if (!all[i]->runs_here()) {
            std::printf("%s: this CPU lacks some of %s\n", all[i]->name, all[i]->needs);
            continue;
        }
        failed += check_random(*all[i], cases) + check_merge(*all[i]) + check_callers(*all[i]);
    }
    return failed;
}
