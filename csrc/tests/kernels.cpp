// SPDX-License-Identifier: Apache-2.0
// Runs every build of the kernels that this CPU can on many shapes, dtypes, strides and masks, against a plain loop in
// double: what `make sanitize` builds with the sanitizers. Arrays are as long as what may be read, on the heap.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../qkv/dispatch.h"

namespace {

using namespace qkv;

uint64_t state = 1;
double uniform() {  // in [-1, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(int64_t(state >> 11)) / double(int64_t{1} << 52) - 1;
}
int64_t below(int64_t n) { return int64_t((uniform() + 1) / 2 * double(n)) % n; }

int64_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : dtype == DType::f32 ? 4 : 2; }

// Small whole numbers over 16: the same value in every dtype.
double put(char* to, DType dtype) {
    const double x = double(below(81) - 40) / 16;
    const float narrow = float(x);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    uint16_t half = uint16_t(bits >> 16);
    if (dtype == DType::f16) {
        const int exponent = int(bits >> 23 & 255) - 112;
        half = x == 0 ? 0 : uint16_t((bits >> 16 & 0x8000) | uint32_t(exponent) << 10 | (bits >> 13 & 0x3ff));
    }
    if (dtype == DType::f64) std::memcpy(to, &x, 8);
    if (dtype == DType::f32) std::memcpy(to, &narrow, 4);
    if (dtype == DType::f16 || dtype == DType::bf16) std::memcpy(to, &half, 2);
    return x;
}

// An array (heads, n, width) at some strides, in memory that ends with its last number, and its values in double.
struct Array {
    std::vector<char> memory;
    std::vector<int64_t> at;
    std::vector<double> values;
    Rows rows{};

    Array(int64_t heads, int64_t n, int64_t width, DType dtype) {
        const int64_t size = size_of(dtype), kind = below(5);
        const int64_t odd = kind == 1, column = kind == 2 ? 2 * size : size;
        const int64_t row = kind == 3 ? size * (width + 3) : column * width;
        const int64_t head = row * n + (kind == 4 ? 1 : 0);  // kind 4: a field of packed records
        const int64_t last = odd + head * (heads - 1) + row * (n - 1) + column * (width - 1) + size;
        memory.resize(size_t(n && width ? last : 1));
        for (int64_t h = 0; h < heads; h++) {
            at.push_back(head * h);
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = 0; c < width; c++)
                    values.push_back(put(memory.data() + odd + head * h + row * i + column * c, dtype));
        }
        rows = {memory.data() + odd, at.data(), row, column, width, dtype};
    }
};

struct Case {
    int64_t heads, n_q, n_k, d_k, d_v;
    DType dtype;
    bool spans, mask, bias, distance, sinks;
    double softcap;
};

// A case as a Problem, with everything that it points to.
struct Made {
    Array q, k, v;
    std::vector<int64_t> first, last, span_at, cell_at, bias_at, distance_at;
    std::vector<char> mask;
    std::vector<float> bias;
    std::vector<double> distance, sinks;
    Problem problem{};

    explicit Made(const Case& c)
        : q(c.heads, c.n_q, c.d_k, c.dtype), k(c.heads, c.n_k, c.d_k, c.dtype), v(c.heads, c.n_k, c.d_v, c.dtype) {
        problem.n_heads = c.heads;
        problem.n_q = c.n_q;
        problem.n_k = c.n_k;
        problem.q = q.rows;
        problem.k = k.rows;
        problem.rows = {0, c.n_q};
        problem.factor = 0.3;
        problem.softcap = c.softcap;
        for (int64_t h = 0; h < c.heads; h++) {
            span_at.push_back(0);
            cell_at.push_back(0);
            bias_at.push_back(4 * c.n_q * c.n_k * h);
            distance_at.push_back((c.n_q + c.n_k - 1) * h);
            sinks.push_back(h % 2 ? uniform() : -INFINITY);
        }
        for (int64_t i = 0; i < c.n_q; i++) {
            first.push_back(below(c.n_k + 1));
            last.push_back(i % 5 == 0 ? first.back() : first.back() + below(c.n_k - first.back() + 1));
        }
        for (int64_t n = 0; n < c.n_q * c.n_k; n++) mask.push_back(below(3) != 0);
        for (int64_t n = 0; n < c.heads * c.n_q * c.n_k; n++) bias.push_back(below(9) ? float(uniform()) : -INFINITY);
        for (int64_t n = 0; n < c.heads * (c.n_q + c.n_k - 1); n++) distance.push_back(uniform());
        if (c.spans) {
            problem.first = first.data();
            problem.last = last.data();
            problem.span_at = span_at.data();
        }
        if (c.mask) problem.mask = {mask.data(), cell_at.data(), c.n_k, 1, DType::f32};
        if (c.bias)
            problem.bias = {reinterpret_cast<char*>(bias.data()), bias_at.data(), 4 * c.n_k, 4, DType::f32};
        if (c.distance) {
            problem.by_distance = distance.data();
            problem.distance_at = distance_at.data();
        }
        if (c.sinks) problem.sinks = sinks.data();
    }

    double score(int64_t h, int64_t i, int64_t j) const {
        if (problem.first && (j < first[size_t(i)] || j >= last[size_t(i)])) return -INFINITY;
        if (problem.mask.data && !mask[size_t(i * problem.n_k + j)]) return -INFINITY;
        double x = 0;
        const int64_t width = problem.q.width;
        for (int64_t c = 0; c < width; c++)
            x += q.values[size_t((h * problem.n_q + i) * width + c)] * k.values[size_t((h * problem.n_k + j) * width + c)];
        x *= problem.factor;
        if (problem.softcap > 0) x = problem.softcap * std::tanh(x / problem.softcap);
        if (problem.bias.data) x += double(bias[size_t((h * problem.n_q + i) * problem.n_k + j)]);
        if (problem.by_distance)
            x += distance[size_t((problem.n_q + problem.n_k - 1) * h + j - i + problem.n_q - 1)];
        return x;
    }
};

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
        for (size_t c = 0; c < sum.size(); c++) sum[c] += weight * made.v.values[(size_t(h * p.n_k) + j) * sum.size() + c];
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

Case drawn() {
    const int64_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 47, 49, 63, 64, 65, 100, 130, 400};
    const int64_t widths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64};
    const bool plain = below(3) == 0;
    auto some = [&] { return !plain && below(3) == 0; };
    return {1 + below(3), sizes[below(15)], sizes[below(14)], widths[below(15)], widths[below(15)], DType(below(4)),
            some(), some(), some(), some(), below(2) == 0, some() ? 2.0 : 0.0};
}

int check_random(const Kernel& kernel, int cases) {
    double worst[2] = {0, 0};
    for (int n = 0; n < cases; n++) {
        const Case c = drawn();
        const Made made(c);
        const bool wide = c.dtype == DType::f64;
        const double error = wide ? error_of<double>(kernel, made, 4) : error_of<float>(kernel, made, 4);
        if (!(error <= (wide ? 1e-13 : 3e-5))) {
            std::printf("%s: error %g of heads %d n_q %d n_k %d d_k %d d_v %d dtype %d spans %d mask %d bias %d distance %d "
                        "sinks %d softcap %g\n",
                        kernel.name, error, int(c.heads), int(c.n_q), int(c.n_k), int(c.d_k), int(c.d_v), int(c.dtype),
                        c.spans, c.mask, c.bias, c.distance, c.sinks, c.softcap);
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
        failed += check_random(*all[i], cases) + check_callers(*all[i]);
    }
    return failed;
}
