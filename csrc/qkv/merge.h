// SPDX-License-Identifier: Apache-2.0
// Attention over all keys from attention over disjoint parts of them, in the order of the parts.
#pragma once

#include "parallel.h"
#include "simd/widen.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// What a softmax divides by: total · exp(peak). Scores are nats.
template <class W>
struct Divisor {
    W peak, total;

    W share(W of) const { return W(__builtin_exp(double(of - (peak == W(-__builtin_inf()) ? W(0) : peak)))); }
};

// Of each part: a peak, the sum of exp(score − peak), and of the values with these weights, at sums(part), `size` numbers
// in whole vectors; (lse, 1, output) is such a part. The sums of the whole go to `into`, not yet divided by its total.
// `whole` is what counts without values: a sink, or nothing. A part that is NaN makes the whole NaN; one whose share is 0
// counts for nothing, whatever its values, if kSkips.
template <class W, bool kSkips, class Sums>
QKV_INLINE Divisor<W> merge_parts(int64_t n, const W* peak, const W* total, const Sums& sums, int64_t size, Divisor<W> whole,
                                  W* into) {
    const Divisor<W> start = whole;
    for (int64_t part = 0; part < n; part++)
        whole.peak = peak[part] > whole.peak || peak[part] != peak[part] ? peak[part] : whole.peak;
    whole.total = start.total > 0 ? start.total * whole.share(start.peak) : W(0);
    for (int64_t c = 0; c < size; c += Lanes<W>::n) store(into + c, Vector<W>{});
    for (int64_t part = 0; part < n; part++) {
        const W share = whole.share(peak[part]);
        if (kSkips && share == 0) continue;
        whole.total += share * (total ? total[part] : W(1));
        const W* sum = sums(part);
        for (int64_t c = 0; c < size; c += Lanes<W>::n) store(into + c, load(into + c) + load(sum + c) * all(share));
    }
    return whole;
}

// (n_parts, n_rows) of a call from outside; see Parts.
template <class W>
struct Merge {
    const Parts& parts;
    W *out, *lse;
    int64_t size;
};

constexpr int64_t kMergeRows = 64;  // rows of a task

template <class W>
void merge_task(void* context, int64_t task) {
    const Merge<W>& call = *static_cast<const Merge<W>*>(context);
    const Parts& parts = call.parts;
    W* memory = static_cast<W*>(scratch(int64_t(sizeof(W)) * (2 * call.size + parts.n)));
    if (!memory) return;
    W *into = memory, *one = memory + call.size, *peak = one + call.size;
    const int64_t end = (task + 1) * kMergeRows, item = parts.dtype == DType::f64 ? 8 : parts.dtype == DType::f32 ? 4 : 2;
    for (int64_t row = task * kMergeRows; row < (end < parts.rows ? end : parts.rows); row++) {
        for (int64_t part = 0; part < parts.n; part++) peak[part] = static_cast<const W*>(parts.lse[part])[row];
        const int64_t zero = 0;
        const auto sums = [&](int64_t part) {
            const char* data = static_cast<const char*>(parts.out[part]);
            gather(Rows{data, &zero, parts.width * item, item, parts.width, parts.dtype}, 0, row, 1, call.size, one);
            return one;
        };
        const W lowest = W(-__builtin_inf());
        const Divisor<W> whole = merge_parts<W, true>(parts.n, peak, static_cast<const W*>(nullptr), sums, call.size,
                                                      Divisor<W>{lowest, 0}, into);
        const W divisor = whole.total == 0 ? W(1) : whole.total;
        for (int64_t c = 0; c < parts.width; c++) call.out[row * parts.width + c] = into[c] / divisor;
        const bool settled = whole.peak - whole.peak != 0;  // an infinity or NaN, to which a sum adds nothing
        call.lse[row] = settled ? whole.peak : W(double(whole.peak) + __builtin_log(double(whole.total)));
    }
}

template <class W>
void merge_in(const Parts& parts, void* out, void* lse, const Parallel& parallel) {
    constexpr int64_t VL = Lanes<W>::n;
    Merge<W> call{parts, static_cast<W*>(out), static_cast<W*>(lse), (parts.width + VL - 1) / VL * VL};
    run_tasks(parallel, (parts.rows + kMergeRows - 1) / kMergeRows, merge_task<W>, &call);
}

void merge(const Parts& parts, void* out, void* lse, const Parallel& parallel) {
    if (parts.wide)
        merge_in<double>(parts, out, lse, parallel);
    else
        merge_in<float>(parts, out, lse, parallel);
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
