// SPDX-License-Identifier: Apache-2.0
// The weights of a block of queries over a tile of keys, from the sums of an earlier pass: exp(score − peak) / total.
#pragma once

#include "scores.h"
#include "simd/exp.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// What the weights of a block are taken with. A lane behind the last query has the share 0.
template <class W>
struct Shares {
    Vector<W> peak[kGroups], share[kGroups];  // share: 1 / total, 0 for a row that sees nothing
    Mask<W> nan[kGroups];                     // rows without a softmax: NaN where they see, 0 elsewhere
    bool any_nan;

    template <class A>
    void take(const Problem& p, int64_t head, const Block<A>& block, const RowSums& sums) {
        constexpr int VL = Lanes<W>::n;
        const int64_t at = head * p.rows.size() + block.row0 - p.rows.begin;
        const W* peaks = static_cast<const W*>(sums.peak) + at;
        const W* totals = static_cast<const W*>(sums.total) + at;
        any_nan = false;
        for (int g = 0; g < block.groups; g++) {
            nan[g] = Mask<W>{};
            for (int lane = 0; lane < VL; lane++) {
                const int row = g * VL + lane;
                const bool own = row < block.rows, empty = own && totals[row] == 0, lost = own && totals[row] != totals[row];
                peak[g][lane] = lost ? W(0) : peaks[own ? row : 0];
                share[g][lane] = !own || empty || lost ? W(0) : 1 / totals[row];
                nan[g][lane] = lost ? -1 : 0;
                any_nan |= lost;
            }
        }
    }
};

template <class A, int G>
void weigh_nan(const Shares<Work<A>>& shares, const Part& part, bool hides, ScoreSpace<A>& space) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Vector<W> zero{}, nan = all(W(__builtin_nan("")));
    for (int j = part.a; j < part.b; j++)
        for (int g = 0; g < G; g++) {
            W* at = space.scores + (j * G + g) * VL;
            const Mask<W> seen = hides ? load(space.seen + (j * G + g) * VL) != zero : zero == zero;
            Vector<W> weight[1] = {load(at) - shares.peak[g]};
            exp_near(weight);
            const Mask<W> none = shares.share[g] == zero;  // where the score is NaN, so is the product
            store(at, select<W>(shares.nan[g], select<W>(seen, nan, zero), select<W>(none, zero, weight[0] * shares.share[g])));
        }
}

// The weights of the part, in space.scores. Returns what score() does. The space keeps what is seen, where a lane is NaN.
template <class A, int G>
QKV_INLINE bool weigh(const Problem& p, int64_t head, const Block<A>& block, const Shares<Work<A>>& shares, const Part& part,
                      const Keys<A>& keys, ScoreSpace<A>& space) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    Vector<W> largest[G];
    Mask<W> odd[G];
    const bool hides = score<A, G>(p, head, block, part, keys, space, largest, odd);
    if (shares.any_nan) {
        weigh_nan<A, G>(shares, part, hides, space);
        return hides;
    }
    Vector<W> peak[G], share[G];
    for (int g = 0; g < G; g++) {
        peak[g] = shares.peak[g];
        share[g] = shares.share[g];
    }
    W* at = space.scores + part.a * G * VL;
    for (int j = part.a; j < part.b; j++, at += G * VL) {
        Vector<W> x[G];
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) x[g] = load(at + g * VL) - peak[g];
        exp_near(x);
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) store(at + g * VL, x[g] * share[g]);
    }
    return hides;
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
