// SPDX-License-Identifier: Apache-2.0
// bfloat16: the products of one tile, and among them the exponentials of the tile before. An exponential waits mostly for
// units that add and look up, which products leave idle; but a CPU looks no more than some 60 instructions ahead for work,
// so the two have to stand side by side in the program, a few instructions of each in turn.
#pragma once

#include "softmax.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// A step of A @ v is in apply.inl.
template <class A>
struct Apply;
template <class A>
struct Way;
template <class A>
struct ApplySpace;
template <class A, int G>
QKV_INLINE void add_values(const Apply<A>&, const Values<A>&, const Part&, bool, const Work<A>*, const ApplySpace<A>&,
                           bool, const Vector<Work<A>>*, Work<A>*, const Ahead&);
template <class A, bool kMoments>
void step_any(const Apply<A>&, int64_t, Way<A>&, const Keys<A>&, const Values<A>&, ApplySpace<A>&);

// A block whose scores of a tile, all of it, are not weights yet: that is done among the products of the next.
template <class A>
struct Before {
    Way<A>* way;  // null: there is none
    Values<A> values;
    Work<A>* scores;
    Vector<Work<A>> keep[kGroups], shift[kGroups];
};

#if defined(__AVX512BF16__)
// The tile before: its scores, as they become weights.
template <class A>
struct Fading {
    const Work<A>* scores;
    Query<A>* weights;
    const Vector<Work<A>>* shift;
    Sums<A> sums;
};

constexpr int kKeysOverlapped = 4;  // × 3 vectors of queries are 12 sums, which leaves registers to the exponentials
constexpr int kSteps = 5;           // of an exponential

// Step n of the weights of keys j and j + 1 for group g.
template <class A, int G, int n>
QKV_INLINE void fade(Fading<A>& old, int j, int g, ExpByTable (&e)[2]) {
    constexpr int VL = Lanes<float>::n, lanes = G * VL;
    const float* at = old.scores + j * lanes + g * VL;
    if constexpr (n == 0) {
        e[0].begin(load(at) - old.shift[g]);
        e[1].begin(load(at + lanes) - old.shift[g]);
    } else if constexpr (n == 1) {
        e[0].split(), e[1].split();
    } else if constexpr (n == 2) {
        e[0].look_up(), e[1].look_up();
    } else if constexpr (n == 3) {
        e[0].raise(), e[1].raise();
    } else {
        const Vector<float> first = e[0].value(), second = e[1].value();
        old.sums.total[g] += first;
        old.sums.total[g] += second;
        take_pair(old.sums, g, first, second, old.weights + j / 2 * lanes + g * VL);
    }
}

// Products of kSome elements, then step n; and so on with the next.
template <class A, int G, int kSome, int n, class Multiply>
QKV_INLINE void advance(const Multiply& multiply, int64_t at, Fading<A>& old, int j, ExpByTable (&e)[2]) {
#pragma GCC unroll 4
    for (int i = 0; i < kSome; i++) multiply(at + n * kSome + i);
    if constexpr (n < G * kSteps) {
        fade<A, G, n % kSteps>(old, j, n / kSteps, e);
        advance<A, G, kSome, n + 1>(multiply, at, old, j, e);
    }
}

// As multiply_keys, for kKeysOverlapped keys of a row of 64 · kSome numbers; keys j to j + 3 of the tile before fade.
template <class A, int G, int kSome>
QKV_INLINE void multiply_keys_over(const Number<A>* __restrict k, int64_t k_row, const Query<A>* __restrict q, float factor,
                                   float* __restrict scores, Vector<float>* largest, Mask<float>* odd, Fading<A>& old, int j) {
    constexpr int VL = Lanes<float>::n;
    Vector<float> sum[kKeysOverlapped][G] = {};
    const auto multiply = [&](int64_t element) __attribute__((always_inline)) {
        Vector<Query<A>> query[G];
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) query[g] = load(q + (element * G + g) * VL);
#pragma GCC unroll 4
        for (int r = 0; r < kKeysOverlapped; r++) {
            const Vector<Query<A>> key = spread(k + r * k_row + element * kTerms<A>);
#pragma GCC unroll 3
            for (int g = 0; g < G; g++) sum[r][g] = multiply_add(sum[r][g], key, query[g]);
        }
    };
    for (int i = 0; i < kKeysOverlapped; i += 2) {
        ExpByTable e[2];
        advance<A, G, kSome, 0>(multiply, i / 2 * (G * kSteps + 1) * kSome, old, j + i, e);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kKeysOverlapped; r++) {
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) take_score(sum[r][g] * all(factor), scores + (r * G + g) * VL, largest[g], odd[g]);
    }
}

// All keys of a tile. Not inlined: what surrounds the loop would cost it registers.
template <class A, int G, int kSome>
__attribute__((noinline)) void multiply_tile_over(const Keys<A>& keys, const Block<A>& block, float* scores,
                                                  Vector<float>* into_largest, Mask<float>* into_odd, Fading<A>& into) {
    Vector<float> largest[G];
    Mask<float> odd[G] = {};
    for (int g = 0; g < G; g++) largest[g] = all(-__builtin_inff());
    Fading<A> old = into;
    for (int j = 0; j < kTile<A>; j += kKeysOverlapped)
        multiply_keys_over<A, G, kSome>(keys.k + j * keys.row, keys.row, block.q, block.factor,
                                        scores + j * G * Lanes<float>::n, largest, odd, old, j);
    into.sums = old.sums;
    for (int g = 0; g < G; g++) into_largest[g] = largest[g], into_odd[g] = odd[g];
}

template <class A>
void finish_before(const Apply<A>& call, Before<A>& before, ApplySpace<A>& space) {
    if (!before.way) return;
    Sums<A> sums;
    weigh_all<A, kGroups, false>(whole_part(0, kTile<A>), before.shift, before.scores, space.weights, sums);
    add_sums<A, kGroups, false>(before.way->softmax, sums);
    add_values<A, kGroups>(call, before.values, whole_part(0, kTile<A>), true, before.scores, space, true, before.keep, before.way->out,
                         {});
    before.way = nullptr;
}

// One block over one tile of keys, of which it sees both ends; its weights are left to the next step.
template <class A, int kSome>
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
        Fading<A> old{before.scores, space.weights, before.shift, {}};
        multiply_tile_over<A, G, kSome>(keys, way.block, scores, largest, odd, old);
        add_sums<A, G, false>(before.way->softmax, old.sums);
        add_values<A, G>(call, before.values, whole_part(0, kTile<A>), true, before.scores, space, true, before.keep, before.way->out,
                         {});
    } else {
        score_products<A, G>(way.block, call.problem.k.width, part, keys, space.score, largest, odd);
    }
    settle_scores<A, G>(call.problem, head, way.block, part, space.score, largest, odd);
    for (int g = 0; g < G; g++) way.softmax.odd[g] |= odd[g];
    raise_peak<A, G, false>(way.softmax, largest, before.keep, before.shift);
    before.way = &way;
    before.values = values;
    before.scores = scores;
}

// A step of either kind. The widths are those that most models have; others take turns.
template <class A>
void step_on(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys, const Values<A>& values,
             ApplySpace<A>& space, Before<A>& before) {
    const Part part = part_of(way.block, keys.j0, keys.n);
    const int64_t width = call.problem.k.width;
    const bool over = way.block.groups == kGroups && part.a == 0 && part.b == kTile<A> && (width == 64 || width == 128) && values.v;
    if (over && width == 64) return step_over<A, 1>(call, head, way, part, keys, values, space, before);
    if (over) return step_over<A, 2>(call, head, way, part, keys, values, space, before);
    finish_before(call, before, space);
    step_any<A, false>(call, head, way, keys, values, space);
}
#endif

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
