// SPDX-License-Identifier: Apache-2.0
// A block of queries on its way over the keys: the online softmax, a lane for each query.
//
// q is multiplied by factor = scale / temperature once, so scores are in nats. Whether a lane is rescaled is decided for that
// lane alone, so a row's bits depend on nothing but that row.
#pragma once

#include "problem.h"
#include "simd/exp.h"
#include "tile.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kMaxLanes = kGroups * kVectorBytes / 4;

template <class W>
struct Block {
    int64_t row0;
    int rows, groups;    // queries, and vectors of them
    W* q;                // [width of q][groups · lanes], times factor
    W* out;              // [width of v, up to a multiple of kKeysAtOnce][groups · lanes], not yet divided by total
    int64_t first[kMaxLanes], last[kMaxLanes];                // the keys that each lane sees
    int64_t first_min, first_max, last_min, last_max;         // over the lanes
    Vector<W> peak[kGroups];    // what scores are taken relative to: within kLazy of the largest score so far
    Vector<W> total[kGroups];   // sum of exp(score − peak)
    Vector<W> moment[kGroups];  // sum of exp(score − peak) · (score − peak), for the entropy
    Mask<W> odd[kGroups];       // lanes that saw NaN or an infinite score: the caller computes those rows again
};

// The part of a tile that the block sees: keys a <= j < b of those from j0 on, and how.
struct Part {
    int64_t j0;
    int a, b;
    bool hides;  // some lane does not see some of these keys
};

template <class W>
QKV_INLINE Part part_of(const Block<W>& block, int64_t j0, int n) {
    const int64_t a = block.first_min > j0 ? block.first_min - j0 : 0;
    const int64_t b = block.last_max - j0 < n ? block.last_max - j0 : n;
    const bool hides = block.first_max > j0 + a || block.last_min < j0 + b;
    return {j0, int(a < n ? a : n), int(b > 0 ? b : 0), hides};
}

constexpr int kLazy = 5;  // nats; a peak is left behind by up to this much: weights reach e^5, which costs no precision

// Takes a tile's scores (a <= j < b) in: they become weights exp(score − peak); keep says what older sums are worth.
template <class W, int G, bool kMoment>
QKV_INLINE void soften(Block<W>& block, const Part& part, const Vector<W>* largest, W* scores, Vector<W>* keep) {
    constexpr int VL = Lanes<W>::n;
    const Vector<W> lowest = all(W(-__builtin_inf()));
    Vector<W> shift[G], sum[G], moment[G];
    for (int g = 0; g < G; g++) {
        const Vector<W> old = block.peak[g];
        const Mask<W> rises = largest[g] > old + all(W(kLazy));
        const Vector<W> now = select<W>(rises, largest[g], old);
        const Mask<W> fresh = old == lowest;
        // −inf − −inf is not asked for: a lane that has seen nothing keeps nothing
        const Vector<W> change = select<W>(fresh, Vector<W>{}, old - now);
        keep[g] = select<W>(rises, select<W>(fresh, Vector<W>{}, exp(change)), all(W(1)));
        if (kMoment) block.moment[g] = keep[g] * (block.moment[g] + change * block.total[g]);
        block.total[g] *= keep[g];
        block.peak[g] = now;
        shift[g] = select<W>(now == lowest, Vector<W>{}, now);
        sum[g] = moment[g] = Vector<W>{};
    }
    for (int j = part.a; j < part.b; j++) {
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            W* at = scores + (j * G + g) * VL;
            const Vector<W> x = load(at) - shift[g];
            const Vector<W> weight = exp(x);
            sum[g] += weight;
            if (kMoment) moment[g] += weight * larger(all(W(-2000)), x);  // 0 · −inf is not asked for
            store(at, weight);
        }
    }
    for (int g = 0; g < G; g++) {
        block.total[g] += sum[g];
        if (kMoment) block.moment[g] += moment[g];
    }
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
