// SPDX-License-Identifier: Apache-2.0
// The other passes of every build of the kernels, on the cases of cases.h, against plain loops in double: the rows alone,
// windows at each stage, A.T @ x, and a scan of everything at once; then again with NaN and infinities in some keys. Results
// are as long as what may be written, on the heap, and have the same bits on one thread and on four.
#include <cstdio>
#include <string>

#include "scans.h"

namespace {

template <class W>
struct RowsFound {
    Twice<W> peak, total, lse, entropy, max_score;
    Twice<int64_t> max_key;
    explicit RowsFound(int64_t n) : peak(n), total(n), lse(n), entropy(n), max_score(n), max_key(n, -7) {}
    RowResults at(int t) {
        return {peak.at(t), total.at(t), lse.at(t), entropy.at(t), max_score.at(t), max_key.at(t)};
    }
    bool same() const {
        return peak.same() && total.same() && lse.same() && entropy.same() && max_score.same() && max_key.same();
    }
};

template <class W>
RowsFound<W> check_rows(const Kernel& kernel, const Made& made, const Truth& truth, Worst& worst) {
    const int64_t rows = made.problem.n_heads * truth.rows;
    RowsFound<W> found(rows);
    for (int t : kThreads) worst.hold(kernel.apply(made.problem, nullptr, nullptr, found.at(t), on(t)), "finite rows");
    worst.hold(found.same(), "bits of rows");
    for (int64_t r = 0; r < rows; r++) {
        const double *score = truth.score.data() + r * truth.n_k, *raw = truth.raw.data() + r * truth.n_k;
        double entropy = 0, most = -INFINITY;
        for (int64_t j = 0; j < truth.n_k; j++) {
            if (score[j] == -INFINITY) continue;
            entropy -= truth.weight[size_t(r * truth.n_k + j)] * (score[j] - truth.lse[size_t(r)]);
            most = std::fmax(most, raw[j]);
        }
        const size_t at = size_t(r);
        const bool empty = truth.lse[at] == -INFINITY;
        const int64_t key = found.max_key.one[at];
        worst.take(found.lse.one[at], truth.lse[at], std::fabs(truth.lse[at]), "lse");
        worst.take(found.peak.one[at], empty ? 0 : truth.peak[at], empty ? 0 : std::fabs(truth.peak[at]), "peak");
        const double total = empty ? 0 : std::exp(truth.lse[at] - truth.peak[at]);
        worst.take(found.total.one[at], total, std::fmax(total, double(truth.n_k)), "total");
        worst.take(found.entropy.one[at], entropy, entropy, "entropy");
        worst.take(found.max_score.one[at], most, std::fabs(most), "max_score");
        worst.hold(most == -INFINITY ? key == -1 : key >= 0 && key < truth.n_k && score[key] > -INFINITY, "max_key");
        if (key >= 0 && key < truth.n_k) worst.take(raw[key], most, std::fabs(most), "score of max_key");
    }
    return found;
}

template <class W>
void check_window(const Kernel& kernel, const Made& made, const Truth& truth, const RowSums& sums, Worst& worst) {
    const int64_t begin = below(truth.n_k + 1), width = begin == truth.n_k ? 0 : 1 + below(truth.n_k - begin);
    const int64_t rows = made.problem.n_heads * truth.rows;
    for (Stage stage : {Stage::weight, Stage::biased, Stage::capped, Stage::raw}) {
        Twice<W> cells(rows * width);
        const RowSums none{nullptr, nullptr};
        for (int t : kThreads)
            kernel.window(made.problem, stage == Stage::weight ? sums : none, stage, {begin, begin + width}, cells.at(t),
                          on(t));
        worst.hold(cells.same(), "bits of a window");
        for (int64_t n = 0; n < rows * width; n++) {
            const size_t at = size_t(n / width * truth.n_k + begin + n % width);
            const double raw = truth.raw[at];
            const double wanted = stage == Stage::weight   ? truth.weight[at]
                                  : stage == Stage::biased ? truth.score[at]
                                  : stage == Stage::capped ? made.capped(raw)
                                                           : raw;
            worst.take(cells.one[size_t(n)], wanted, wanted == -INFINITY ? 0 : std::fabs(wanted), "a cell");
        }
    }
}

template <class W>
void check_transposed(const Kernel& kernel, const Made& made, const Truth& truth, const RowSums& sums, Worst& worst) {
    const int64_t heads = made.problem.n_heads, width = made.v.rows.width;
    const Array x(heads, truth.rows, width, made.problem.q.dtype);
    Twice<W> out(heads * truth.n_k * width);
    for (int t : kThreads) kernel.apply_transposed(made.problem, sums, x.rows, out.at(t), on(t));
    worst.hold(out.same(), "bits of A.T @ x");
    for (int64_t n = 0; n < heads * truth.n_k * width; n++) {
        const int64_t h = n / width / truth.n_k, j = n / width % truth.n_k, c = n % width;
        double sum = 0, size = 0;
        for (int64_t i = h * truth.rows; i < (h + 1) * truth.rows; i++) {
            const double term = truth.weight[size_t(i * truth.n_k + j)] * x.values[size_t(i * width + c)];
            sum += term;
            size += std::fabs(term);
        }
        worst.take(out.one[size_t(n)], sum, size, "A.T @ x");
    }
}

// A number of an array becomes NaN, or ±inf.
void spoil(Array& array, int64_t head, int64_t i, int64_t channel, bool nan) {
    const Rows& rows = array.rows;
    char* to = const_cast<char*>(rows.data) + array.at[size_t(head)] + rows.row * i + rows.column * channel;
    const double wide = nan ? NAN : below(2) ? INFINITY : -INFINITY;
    const float single = float(wide);
    const int sign = wide < 0 ? 0x8000 : 0, exponent = rows.dtype == DType::f16 ? 0x7c00 : 0x7f80;
    const uint16_t half = uint16_t(sign | exponent | (nan ? 0x7f : 0));
    const void* from = &half;
    if (rows.dtype == DType::f64) from = &wide;
    if (rows.dtype == DType::f32) from = &single;
    std::memcpy(to, from, size_t(size_of(rows.dtype)));
}

// Keys with NaN or an infinity: the rows that see one say so, and the others keep their bits in every pass.
template <class W>
void check_spoiled(const Kernel& kernel, Made& made, const RowsFound<W>& before, const Everything<W>& scanned, Everything<W> again,
                   Worst& worst) {
    const Problem& p = made.problem;
    const int64_t rows = p.rows.size(), all = p.n_heads * rows;
    std::vector<bool> odd(size_t(all), false);
    for (int n = 0; n < 2; n++) {
        const int64_t head = made.shared(below(p.n_heads)), j = below(p.n_k);
        spoil(made.k, head, j, below(p.k.width), p.softcap > 0 || below(2));  // a softcap makes an infinite score finite
        for (int64_t r = 0; r < all; r++)
            if (made.shared(r / rows) == head && made.sees(r / rows, p.rows.begin + r % rows, j)) odd[size_t(r)] = true;
    }
    RowsFound<W> found(all);
    for (int t : kThreads) kernel.apply(p, nullptr, nullptr, found.at(t), on(t));
    worst.hold(found.same(), "bits of rows beside NaN");
    const RowSums sums{found.peak.one.data(), found.total.one.data()};
    Twice<W> cells(all * p.n_k);
    for (int t : kThreads) {
        kernel.window(p, sums, Stage::weight, {0, p.n_k}, cells.at(t), on(t));
        again.run(kernel, sums, t);
    }
    worst.hold(cells.same(), "bits of a window beside NaN");
    again.check_bits();
    const auto keeps = [](const Twice<W>& one, const Twice<W>& other, size_t r) {
        return std::memcmp(&one.one[r], &other.one[r], sizeof(W)) == 0;
    };
    for (int64_t n = 0; n < all; n++) {
        const size_t r = size_t(n);
        if (!odd[r]) {
            worst.hold(keeps(found.lse, before.lse, r) && keeps(found.entropy, before.entropy, r), "a row beside NaN");
            worst.hold(keeps(again.mass, scanned.mass, r) && keeps(again.slope, scanned.slope, r), "a scan beside NaN");
            continue;
        }
        worst.hold(std::isnan(found.total.one[r]) && std::isnan(again.mass.one[r]), "a row that sees NaN");
        for (int64_t j = 0; j < p.n_k; j++) {
            const W cell = cells.one[size_t(n * p.n_k + j)];
            worst.hold(made.sees(n / rows, p.rows.begin + n % rows, j) ? std::isnan(cell) : cell == 0, "a cell beside NaN");
        }
    }
}

template <class W>
Worst worst_of(const Kernel& kernel, Made& made) {
    Worst worst;
    const Truth truth(made);
    const RowsFound<W> found = check_rows<W>(kernel, made, truth, worst);
    const RowSums sums{found.peak.one.data(), found.total.one.data()};
    check_window<W>(kernel, made, truth, sums, worst);
    check_transposed<W>(kernel, made, truth, sums, worst);
    Everything<W> everything(made, truth, worst);
    const Everything<W> untouched(everything);
    for (int t : kThreads) everything.run(kernel, sums, t);
    everything.check();
    if (truth.n_k && made.problem.k.width) check_spoiled(kernel, made, found, everything, untouched, worst);
    return worst;
}

// A drawn case; now and then one of many keys, so that there are several tasks and chunks of them.
Case drawn_long() {
    Case c = drawn();
    if (below(12)) return c;
    c.n_q = std::min<int64_t>(c.n_q, 20);
    c.n_k = 500 + below(5000);
    c.d_k = std::min<int64_t>(c.d_k, 8);
    return c;
}

int check(const Kernel& kernel, int cases) {
    double worst[2] = {0, 0};
    for (int n = 0; n < cases; n++) {
        const Case c = drawn_long();
        Made made(c);
        if (below(2)) {
            made.problem.rows.begin = below(c.n_q);
            made.problem.rows.end = made.problem.rows.begin + 1 + below(c.n_q - made.problem.rows.begin);
        }
        const bool wide = c.dtype == DType::f64;
        const Worst found = wide ? worst_of<double>(kernel, made) : worst_of<float>(kernel, made);
        if (!(found.error <= (wide ? 1e-13 : 3e-5))) {
            std::printf("%s: error %g in %s of case %d: heads %d n_q %d rows %d to %d n_k %d d_k %d d_v %d dtype %d "
                        "spans %d mask %d bias %d distance %d sinks %d softcap %g\n",
                        kernel.name, found.error, found.of, n, int(c.heads), int(c.n_q), int(made.problem.rows.begin),
                        int(made.problem.rows.end), int(c.n_k), int(c.d_k), int(c.d_v), int(c.dtype), c.spans, c.mask,
                        c.bias, c.distance, c.sinks, c.softcap);
            return 1;
        }
        worst[wide] = std::fmax(worst[wide], found.error);
    }
    std::printf("%s: %d cases, largest error %.2g in float, %.2g in double\n", kernel.name, cases, worst[0], worst[1]);
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const Kernel* all[kMaxKernels];
    const int n = kernels(all), cases = count > 1 ? std::stoi(words[1]) : 100;
    int failed = 0;
    for (int i = 0; i < n; i++)
        if (all[i]->runs_here()) failed += check(*all[i], cases);
    return failed;
}
