// SPDX-License-Identifier: Apache-2.0
// The products of one tile, and among them the exponentials of the tile before. An exponential waits mostly for units that
// add and look up, which products leave idle; but a CPU looks no more than some 60 instructions ahead for work, so the two
// have to stand side by side in the program, a few instructions of each in turn.
#pragma once

#include "values.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// In apply.inl.
template <class A, int G, bool kMoments>
QKV_INLINE bool settle(const Apply<A>&, int64_t, Way<A>&, const Part&, ApplySpace<A>&, Vector<Work<A>>*, Mask<Work<A>>*);
template <class A, bool kMoments>
void step_any(const Apply<A>&, int64_t, Way<A>&, const Keys<A>&, const Values<A>&, ApplySpace<A>&);

// A block whose scores of a tile, all of it, are not weights yet: that is done among the products of the next.
template <class A>
struct Before {
    Way<A>* way;  // null: there is none
    Values<A> values;
    Work<A>* scores;
    Vector<Work<A>> keep[kGroups], shift[kGroups];
    bool rises;  // older outputs are worth keep, else as much as they were
};

#if defined(__AVX512F__)
// Keys at once: × 3 vectors of queries they are 18 or 12 sums, which leaves registers to the exponentials.
template <class A>
constexpr int kKeysOverlapped = kTerms<A> == 1 ? 6 : 4;
constexpr int kSteps = 5;  // of an exponential

// The tile before: its scores, as they become weights.
template <class A>
struct Fading {
    const Work<A>* scores;
    Query<A>* weights;
    const Vector<Work<A>>* shift;
    Sums<A> sums, odds;  // as weigh_all has them
};

// Step n of the weights of an element, which are those of key j, or of j and j + 1, for group g.
template <class A, int G, bool kMoments, int n>
QKV_INLINE void fade(Fading<A>& old, int j, bool odd, int g, ExpByTable (&e)[kTerms<A>]) {
    constexpr int VL = Lanes<float>::n, lanes = G * VL, terms = kTerms<A>;
    const float* at = old.scores + j * lanes + g * VL;
    Vector<float> weight[terms];
#pragma GCC unroll 2
    for (int i = 0; i < terms; i++) {
        if constexpr (n == 0) e[i].begin(load(at + i * lanes) - old.shift[g]);
        if constexpr (n == 1) e[i].split();
        if constexpr (n == 2) e[i].look_up();
        if constexpr (n == 3) e[i].raise();
        if constexpr (n < kSteps - 1) continue;
        weight[i] = e[i].value();
        Sums<A>& sums = odd ? old.odds : old.sums;
        if (kMoments) sums.moment[g] += weight[i] * e[i].y;
        sums.total[g] += weight[i];
    }
    if constexpr (n == kSteps - 1) {
        Query<A>* to = old.weights + j / terms * lanes + g * VL;
        if constexpr (terms == 1)
            store(to, weight[0]);
        else
            take_pair(old.sums, g, weight[0], weight[1], to);
    }
}

// Products of some of kElements elements, then step n of the weights of keys j and j + 1; and so on to the last of both.
template <class A, int G, bool kMoments, int kElements, int n, class Multiply>
QKV_INLINE void advance(const Multiply& multiply, Fading<A>& old, int j, ExpByTable (&e)[kTerms<A>]) {
    constexpr int steps = 2 / kTerms<A> * G * kSteps, from = n * kElements / (steps + 1), key = n / kSteps / G;
#pragma GCC unroll 8
    for (int i = from; i < (n + 1) * kElements / (steps + 1); i++) multiply(i);
    if constexpr (n < steps) {
        fade<A, G, kMoments, n % kSteps>(old, j + key, key == 1, n / kSteps % G, e);
        advance<A, G, kMoments, kElements, n + 1>(multiply, old, j, e);
    }
}

// As multiply_keys, for kKeysOverlapped keys of a row of kElements elements; as many of the tile before fade, from j on.
template <class A, int G, bool kMoments, int kElements>
QKV_INLINE void multiply_keys_over(const Number<A>* __restrict k, int64_t k_row, const Query<A>* __restrict q, float factor,
                                   float* __restrict scores, Vector<float>* largest, Mask<float>* odd, Fading<A>& old, int j) {
    constexpr int VL = Lanes<float>::n;
    Vector<float> sum[kKeysOverlapped<A>][G] = {};
    const auto multiply = [&](int element) __attribute__((always_inline)) {
        Vector<Query<A>> query[G];
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) query[g] = load(q + (element * G + g) * VL);
#pragma GCC unroll 6
        for (int r = 0; r < kKeysOverlapped<A>; r++) {
            const Vector<Query<A>> key = spread(k + r * k_row + element * kTerms<A>);
#pragma GCC unroll 3
            for (int g = 0; g < G; g++) sum[r][g] = multiply_add(sum[r][g], key, query[g]);
        }
    };
    constexpr int rounds = kKeysOverlapped<A> / 2, some = kElements / rounds;
#pragma GCC unroll 1
    for (int i = 0; i < rounds; i++) {
        ExpByTable e[kTerms<A>];
        const auto part = [&](int element) __attribute__((always_inline)) { multiply(i * some + element); };
        advance<A, G, kMoments, some, 0>(part, old, j + 2 * i, e);
    }
#pragma GCC unroll 2
    for (int element = rounds * some; element < kElements; element++) multiply(element);
#pragma GCC unroll 6
    for (int r = 0; r < kKeysOverlapped<A>; r++) {
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            if (kTerms<A> > 1) sum[r][g] *= all(factor);
            take_score(sum[r][g], scores + (r * G + g) * VL, largest[g], odd[g]);
        }
    }
}

// All keys of a tile. Not inlined: what surrounds the loop would cost it registers.
template <class A, int G, bool kMoments, int kElements>
__attribute__((noinline)) void multiply_tile_over(const Keys<A>& keys, const Block<A>& block, float* scores,
                                                  Vector<float>* into_largest, Mask<float>* into_odd, Fading<A>& into) {
    Vector<float> largest[G];
    Mask<float> odd[G] = {};
    for (int g = 0; g < G; g++) largest[g] = all(-__builtin_inff());
    Fading<A> old = into;
    for (int j = 0; j < kTile<A>; j += kKeysOverlapped<A>) {
        keys.soon.template fetch<3>(j, j + kKeysOverlapped<A>);
        multiply_keys_over<A, G, kMoments, kElements>(keys.k + j * keys.row, keys.row, block.q, block.factor,
                                                      scores + j * G * Lanes<float>::n, largest, odd, old, j);
    }
    into.sums = old.sums;
    into.odds = old.odds;
    for (int g = 0; g < G; g++) into_largest[g] = largest[g], into_odd[g] = odd[g] != 0;
}

// The block before, from its weights on.
template <class A, bool kMoments>
QKV_INLINE void end_before(const Apply<A>& call, Before<A>& before, const Sums<A>& sums, ApplySpace<A>& space,
                           const Ahead& next) {
    add_sums<A, kGroups, kMoments>(before.way->softmax, sums);
    add_values<A, kGroups>(call, before.values, whole_part(0, kTile<A>), kTerms<A> > 1, before.scores, space,
                           before.rises ? before.keep : nullptr, *before.way, next);
    before.way = nullptr;
}

template <class A, bool kMoments>
void finish_before(const Apply<A>& call, Before<A>& before, ApplySpace<A>& space) {
    if (!before.way) return;
    Sums<A> sums;
    if constexpr (kTerms<A> == 1) space.weights = before.scores;
    weigh_all<A, kGroups, kMoments>(whole_part(0, kTile<A>), before.shift, before.scores, space.weights, sums);
    end_before<A, kMoments>(call, before, sums, space, {});
}

// One block over one tile of keys, of which it sees both ends; its weights are left to the next step.
template <class A, bool kMoments, int kElements>
__attribute__((noinline)) void step_over(const Apply<A>& call, int64_t head, Way<A>& way, const Part& part,
                                         const Keys<A>& keys, const Values<A>& values, ApplySpace<A>& space,
                                         Before<A>& before) {
    constexpr int G = kGroups;
    float* scores = space.other;
    space.other = space.score.scores;
    space.score.scores = scores;
    Vector<float> largest[G];
    Mask<float> odd[G];
    if (before.way) {
        if constexpr (kTerms<A> == 1) space.weights = before.scores;
        Fading<A> old{before.scores, space.weights, before.shift, {}, {}};
        multiply_tile_over<A, G, kMoments, kElements>(keys, way.block, scores, largest, odd, old);
        if constexpr (kTerms<A> == 1) old.sums.add(old.odds);
        end_before<A, kMoments>(call, before, old.sums, space, keys.next);
    } else {
        score_products<A, G>(way.block, call.problem.k.width, part, keys, space.score, largest, odd);
    }
    settle<A, G, kMoments>(call, head, way, part, space, largest, odd);
    before.rises = raise_peak<A, G, kMoments>(way.softmax, largest, before.keep, before.shift);
    before.way = &way;
    before.values = values;
    before.scores = scores;
}

// A step of either kind.
template <class A, bool kMoments>
void step_on(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys, const Values<A>& values,
             ApplySpace<A>& space, Before<A>& before) {
    if constexpr (sizeof(Work<A>) == 4) {
        const Part part = part_of(way.block, keys.j0, keys.n);
        const Problem& p = call.problem;
        const bool hides = part.hides || p.mask.data || p.bias.data || p.by_distance;
        // what a row does not see is told from its scores: those of bfloat16 are still there beside the weights
        const bool over = overlaps<A>(p) && values.v && way.block.groups == kGroups && part.a == 0 && part.b == kTile<A> &&
                          (kTerms<A> > 1 || !hides);
        constexpr int kElements = 64 / kTerms<A>;
        if (over && p.k.width == 64)
            return step_over<A, kMoments, kElements>(call, head, way, part, keys, values, space, before);
        if (over) return step_over<A, kMoments, 2 * kElements>(call, head, way, part, keys, values, space, before);
        finish_before<A, kMoments>(call, before, space);
    }
    step_any<A, kMoments>(call, head, way, keys, values, space);
}
#else
template <class A, bool kMoments>
void step_on(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys, const Values<A>& values,
             ApplySpace<A>& space, Before<A>&) {
    step_any<A, kMoments>(call, head, way, keys, values, space);
}
template <class A, bool kMoments>
void finish_before(const Apply<A>&, Before<A>&, ApplySpace<A>&) {}
#endif

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
