// SPDX-License-Identifier: Apache-2.0
// The two products of attention on a tile. Lanes are queries everywhere: a vector holds one channel, score or output of
// as many queries, so the maximum, the sum and the rescaling of a row are plain vector operations, and keys and values are
// read in their natural order, a number at a time.
#pragma once

#include "arithmetic.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// Keys of a tile. Its sums are added to older ones once, so more keys cost less; but a sum of more terms rounds more, and the
// scores of 96 keys × 48 queries take 18 KB of the first cache. A multiple of 8, and of 6: see overlap.h.
template <class A>
constexpr int kTile = 384 / int(sizeof(Work<A>));

// Keeps a vector of scores, and takes it into the largest and the odd: those are lanes with a bit that is not 0, for x − x is
// +0 or NaN.
template <class W>
QKV_INLINE void take_score(Vector<W> x, W* __restrict to, Vector<W>& largest, Mask<W>& odd) {
    store(to, x);
    largest = larger(largest, x);
    odd |= (Mask<W>)(x - x);
}

// Vectors of queries from <= g < to, as constants.
template <int a, int b>
struct Vectors {
    static constexpr int from = a, to = b;
};
template <int G, class Run>
QKV_INLINE void with_vectors(int from, int to, const Run& run) {
    if (from == 0 && to == G) return run(Vectors<0, G>{});
    if constexpr (G > 1) {
        if (from == 1 && to == G) return run(Vectors<1, G>{});
        if (from == 0 && to == G - 1) return run(Vectors<0, G - 1>{});
    }
    if constexpr (G > 2) {
        if (from == 2) return run(Vectors<2, G>{});
        if (to == 1) return run(Vectors<0, 1>{});
        run(Vectors<1, 2>{});
    }
}

// scores[j][queries] = sum over channels of k[j][c] · q[c][queries], for kKeys keys and vectors from <= g < to of G.
// Takes their largest into `largest`, and into `odd` whether any is NaN or infinite. q is multiplied by factor already, unless
// that would round it.
template <class A, int G, int from = 0, int to = G, int kKeys = kKeysAtOnce>
QKV_INLINE void multiply_keys(const Number<A>* __restrict k, int64_t k_row, const Query<A>* __restrict q, int64_t width,
                              Work<A> factor, Work<A>* __restrict scores, Vector<Work<A>>* largest,
                              Mask<Work<A>>* odd) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    Vector<W> sum[kKeys][G];
#pragma GCC unroll 8
    for (int r = 0; r < kKeys; r++) {
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) sum[r][g] = Vector<W>{};
    }
#pragma GCC unroll 2
    for (int64_t c = 0; c < width; c += kTerms<A>) {
        Vector<Query<A>> query[G];
#pragma GCC unroll 3
        for (int g = from; g < to; g++) query[g] = load(q + (c / kTerms<A> * G + g) * VL);
#pragma GCC unroll 8
        for (int r = 0; r < kKeys; r++) {
            const Vector<Query<A>> key = spread(k + r * k_row + c);
#pragma GCC unroll 3
            for (int g = from; g < to; g++) sum[r][g] = multiply_add(sum[r][g], key, query[g]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kKeys; r++) {
#pragma GCC unroll 3
        for (int g = from; g < to; g++) {
            if (kTerms<A> > 1) sum[r][g] *= all(factor);
            take_score<W>(sum[r][g], scores + (r * G + g) * VL, largest[g], odd[g]);
        }
    }
}

// sum[c][queries] += sum over n keys of v[j][c] · weight[j][queries], for kKeysAtOnce channels and vectors from <= g < to of G.
template <class A, int G, int from, int to>
QKV_INLINE void sum_values(const Number<A>* __restrict v, int64_t v_row, int n, const Query<A>* __restrict weight,
                           Vector<Work<A>> (&sum)[kKeysAtOnce][G]) {
    constexpr int VL = Lanes<Work<A>>::n;
#pragma GCC unroll 2
    for (int j = 0; j < n; j++) {
        Vector<Query<A>> w[G];
#pragma GCC unroll 3
        for (int g = from; g < to; g++) w[g] = load(weight + (j * G + g) * VL);
        const Number<A>* row = v + j * v_row;
#pragma GCC unroll 8
        for (int r = 0; r < kKeysAtOnce; r++) {
            const Vector<Query<A>> value = spread(row + r * kTerms<A>);
#pragma GCC unroll 3
            for (int g = from; g < to; g++) sum[r][g] = multiply_add(sum[r][g], value, w[g]);
        }
    }
}

// What becomes of the outputs that a block has already: there are none, they stay as they are, or each is worth what `keep` of
// its lane says. That they stay gives the bits of a keep of 1 for less work.
struct NoOlder {};
struct SameOlder {};
template <class W>
struct Older {
    const Vector<W>* keep;
};
template <class W>
QKV_INLINE Vector<W> onto(NoOlder, int, const W*, Vector<W> sum) { return sum; }
template <class W>
QKV_INLINE Vector<W> onto(SameOlder, int, const W* out, Vector<W> sum) { return sum + load(out); }
template <class W>
QKV_INLINE Vector<W> onto(Older<W> older, int g, const W* out, Vector<W> sum) { return sum + load(out) * older.keep[g]; }

// out[c][queries] = what older outputs are worth + sum. The sum of a tile starts from zero: adding it as one number loses less
// than adding its terms one by one.
template <class W, int G, class How>
QKV_INLINE void add_to(const Vector<W> (&sum)[kKeysAtOnce][G], How older, W* __restrict out) {
    constexpr int VL = Lanes<W>::n;
#pragma GCC unroll 8
    for (int r = 0; r < kKeysAtOnce; r++) {
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            W* at = out + (r * G + g) * VL;
            store(at, onto(older, g, at, sum[r][g]));
        }
    }
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
