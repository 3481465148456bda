// SPDX-License-Identifier: Apache-2.0
// The online softmax of a block of queries: what is kept of each row on the way over the keys.
//
// q is multiplied by factor = scale / temperature once, so scores are in nats. Whether a lane is rescaled is decided for that
// lane alone, so a row's bits depend on nothing but that row.
#pragma once

#include "scores.h"
#include "simd/exp.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kLazy = 5;  // nats; a peak is left behind by up to this much: weights reach e^5, which costs no precision

constexpr int kSinkAbove = 80;    // nats that a sink is above the peak of what is said of a row, at most: e^80 is a float
constexpr int kFarBelow = -2000;  // nats: exp gives 0, and a product with 0 is not that of an infinite number

template <class A>
struct Softmax {
    typedef Work<A> W;
    Vector<W> peak[kGroups];     // what scores are taken relative to: within kLazy of the largest so far, or the sink in the end
    Vector<W> total[kGroups];    // sum of exp(score − peak)
    Vector<W> lost[kGroups];     // what total has lost to rounding, tile after tile, as Kahan 1965 keeps it
    // total of weights as they are multiplied, where that rounds them. Outputs are divided by it: what rounding does to a
    // weight is then taken out again where that weight is most of the row. With the exact sum the error was a sixth larger
    // for scores that spread over 4 nats, and hardly another one for those that spread over 1.
    Vector<W> rounded[kGroups];
    Vector<W> moment[kGroups];   // sum of exp(score − peak) · (score − peak), in units of kNearUnit, for the entropy
    Vector<W> highest[kGroups];  // the largest score over the keys
    Vector<W> raw[kGroups];      // the largest score over the keys, before softcap and bias
    int64_t key[kMaxLanes];      // its key
    Mask<W> odd[kGroups];        // lanes that saw NaN or an infinite score: the caller computes those rows again

    void begin() {
        for (int g = 0; g < kGroups; g++) {
            peak[g] = highest[g] = raw[g] = all(W(-__builtin_inf()));
            total[g] = rounded[g] = moment[g] = lost[g] = Vector<W>{};
            odd[g] = Mask<W>{};
        }
        for (int lane = 0; lane < kMaxLanes; lane++) key[lane] = -1;
    }
};

// Keeps the largest raw score and its key. `raw` may hold cells that `scores` hides. `largest`, where there is one, is that of
// the tile: few tiles have a larger score than all before, and there its key is looked for alone.
template <class A, int G>
QKV_INLINE void keep_largest(Softmax<A>& state, const Part& part, const Work<A>* raw, const Work<A>* scores,
                             const Vector<Work<A>>* largest) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    for (int g = 0; g < G; g++) {
        Vector<W> best = state.raw[g];
        Mask<W> at{}, found{};
        if (largest) {
            found = largest[g] > best;
            if (!any(found)) continue;
            best = select<W>(found, largest[g], best);
            for (int j = part.b - 1; j >= part.a; j--)  // the first of equal ones stays
                at = load(raw + (j * G + g) * VL) == best ? Mask<W>{} + j : at;
        } else {
            for (int j = part.a; j < part.b; j++) {
                const Vector<W> x = load(raw + (j * G + g) * VL), seen = load(scores + (j * G + g) * VL);
                const Mask<W> better = (x > best) & (seen != all(W(-__builtin_inf())));
                best = select<W>(better, x, best);
                at = better ? Mask<W>{} + j : at;
                found |= better;
            }
        }
        state.raw[g] = best;
        for (int lane = 0; lane < VL; lane++)
            if (found[lane]) state.key[g * VL + lane] = part.j0 + at[lane];
    }
}

// The sums of a tile.
template <class A>
struct Sums {
    Vector<Work<A>> total[kGroups], moment[kGroups], rounded[kGroups];

    __attribute__((always_inline)) Sums() {
#pragma GCC unroll 3
        for (int g = 0; g < kGroups; g++) total[g] = moment[g] = rounded[g] = Vector<Work<A>>{};
    }
    __attribute__((always_inline)) void add(const Sums& more) {
#pragma GCC unroll 3
        for (int g = 0; g < kGroups; g++) total[g] += more.total[g], moment[g] += more.moment[g], rounded[g] += more.rounded[g];
    }
};

// The weights exp(score − shift) of n vectors, of keys and groups from `first` on, which go into the sums of their groups.
template <class A, bool kMoments, int n>
QKV_INLINE void take_weights(Vector<Work<A>> (&x)[n], int first, Sums<A>& sums) {
    Vector<Work<A>> weight[n];
    exp_near(x, weight);
#pragma GCC unroll 3
    for (int i = 0; i < n; i++) {
        sums.total[first + i] += weight[i];
        if (kMoments) sums.moment[first + i] += weight[i] * x[i];
        x[i] = weight[i];
    }
}

// The weights of two keys, which are multiplied together.
template <class A>
QKV_INLINE void take_pair(Sums<A>& sums, int g, Vector<Work<A>> first, Vector<Work<A>> second, Query<A>* weights) {
    const Vector<Query<A>> pairs = as_pairs(first, second);
    sums.rounded[g] = add_pairs(sums.rounded[g], pairs);
    store(weights, pairs);
}

// The weights of keys a <= j < b for vectors from <= g < to; 0 for the others.
template <class A, int G, bool kMoments, int from, int to>
QKV_INLINE void weigh_some(int a, int b, const Vector<Work<A>>* shift, const Work<A>* scores, Work<A>* weights, Sums<A>& evens,
                           Sums<A>& odds) {
    constexpr int VL = Lanes<Work<A>>::n, lanes = G * VL;
    const auto weigh_key = [&](int j, Sums<A>& into) __attribute__((always_inline)) {
        Vector<Work<A>> x[to - from];
#pragma GCC unroll 3
        for (int g = from; g < to; g++) x[g - from] = load(scores + j * lanes + g * VL) - shift[g];
        take_weights<A, kMoments>(x, from, into);
#pragma GCC unroll 3
        for (int g = 0; g < G; g++)
            store(weights + j * lanes + g * VL, g < from || g >= to ? Vector<Work<A>>{} : x[g - from]);
    };
    int j = a;
    if (j % 2 && j < b) weigh_key(j++, odds);
    for (; j + 1 < b; j += 2) weigh_key(j, evens), weigh_key(j + 1, odds);
    if (j < b) weigh_key(j, evens);
}

template <class A, int G, bool kMoments>
QKV_INLINE void weigh_all(const Part& part, const Vector<Work<A>>* shift, Work<A>* scores, Query<A>* weights, Sums<A>& sums) {
    [[maybe_unused]] constexpr int VL = Lanes<Work<A>>::n, lanes = G * VL;
    if constexpr (kTerms<A> == 1) {
        Sums<A> odds;  // of every other key: shorter sums lose less
        if (!part.stretches) weigh_some<A, G, kMoments, 0, G>(part.a, part.b, shift, scores, weights, sums, odds);
        for (int s = 0; s < part.stretches; s++)
            with_vectors<G>(part.stretch[s].from, part.stretch[s].to, [&](auto some) __attribute__((always_inline)) {
                weigh_some<A, G, kMoments, some.from, some.to>(part.stretch[s].a, part.stretch[s].b, shift, scores, weights,
                                                               sums, odds);
            });
        sums.add(odds);
    } else {
        // where the part begins or ends within a pair of keys, the other one weighs nothing
        for (int lane = 0; lane < lanes; lane++) {
            if (part.a % 2) scores[(part.a - 1) * lanes + lane] = -__builtin_inff();
            if (part.b % 2) scores[part.b * lanes + lane] = -__builtin_inff();
        }
        for (int j = part.a / 2 * 2; j < part.b; j += 2) {
            Vector<Work<A>> first[G], second[G];
#pragma GCC unroll 3
            for (int g = 0; g < G; g++) {
                first[g] = load(scores + j * lanes + g * VL) - shift[g];
                second[g] = load(scores + (j + 1) * lanes + g * VL) - shift[g];
            }
            take_weights<A, kMoments>(first, 0, sums);
            take_weights<A, kMoments>(second, 0, sums);
#pragma GCC unroll 3
            for (int g = 0; g < G; g++) take_pair(sums, g, first[g], second[g], weights + j / 2 * lanes + g * VL);
        }
    }
}

// Lets the peak rise to a tile's largest scores where it is left behind: keep says what older sums are worth, and weights of
// the tile are exp(score − shift). Returns whether a peak rises: mostly none does, which is known long before the last score.
template <class A, int G, bool kMoments>
QKV_INLINE bool raise_peak(Softmax<A>& state, const Vector<Work<A>>* largest, Vector<Work<A>>* keep, Vector<Work<A>>* shift) {
    typedef Work<A> W;
    const Vector<W> lowest = all(W(-__builtin_inf()));
    Mask<W> some{};
    for (int g = 0; g < G; g++) {
        some |= largest[g] > state.peak[g] + all(W(kLazy));
        state.highest[g] = larger(state.highest[g], largest[g]);
        keep[g] = all(W(1));
        shift[g] = select<W>(state.peak[g] == lowest, Vector<W>{}, state.peak[g]);
    }
    if (!any(some)) return false;
    for (int g = 0; g < G; g++) {
        const Vector<W> old = state.peak[g];
        const Mask<W> rises = largest[g] > old + all(W(kLazy));
        const Vector<W> now = select<W>(rises, largest[g], old);
        const Mask<W> fresh = old == lowest;
        // −inf − −inf is not asked for: a lane that has seen nothing keeps nothing
        const Vector<W> change = select<W>(fresh, Vector<W>{}, larger(all(W(kFarBelow)), old - now));
        keep[g] = select<W>(rises, select<W>(fresh, Vector<W>{}, exp(change)), all(W(1)));
        if (kMoments) state.moment[g] = keep[g] * (state.moment[g] + change * all(W(1 / kNearUnit<W>)) * state.total[g]);
        state.total[g] *= keep[g];
        state.lost[g] *= keep[g];
        if (kTerms<A> > 1) state.rounded[g] *= keep[g];
        state.peak[g] = now;
        shift[g] = select<W>(now == lowest, Vector<W>{}, now);
    }
    return true;
}

template <class A, int G, bool kMoments>
QKV_INLINE void add_sums(Softmax<A>& state, const Sums<A>& sums) {
    for (int g = 0; g < G; g++) {
        // a tile that a row does not see leaves its bits alone: which ones a block meets depends on its other rows
        const Mask<Work<A>> none = sums.total[g] == Vector<Work<A>>{};
        const Vector<Work<A>> more = sums.total[g] - state.lost[g], total = state.total[g] + more;
        state.lost[g] = select<Work<A>>(none, state.lost[g], (total - state.total[g]) - more);
        state.total[g] = select<Work<A>>(none, state.total[g], total);
        if (kTerms<A> > 1) state.rounded[g] += sums.rounded[g];
        if (kMoments) state.moment[g] += sums.moment[g];
    }
}

// Takes the head's sink in, behind all keys: were it the peak of keys far below it, their weights would be coarser. Returns
// whether older sums are worth less by keep.
template <class A>
bool take_sink(const Problem& p, int64_t head, Softmax<A>& state, Vector<Work<A>>* keep) {
    typedef Work<A> W;
    const W lowest = W(-__builtin_inf()), sink = p.sinks ? W(p.sinks[head]) : lowest;
    if (sink == lowest) return false;
    for (int g = 0; g < kGroups; g++) {
        const Vector<W> now = larger(state.peak[g], all(sink)), below = larger(all(W(kFarBelow)), all(sink) - now);
        const Vector<W> fall = larger(all(W(kFarBelow)), state.peak[g] - now);
        const Vector<W> change = select<W>(state.peak[g] == all(lowest), Vector<W>{}, fall);
        const Vector<W> weight = exp(below);
        keep[g] = exp(change);
        state.moment[g] = keep[g] * (state.moment[g] + change * all(W(1 / kNearUnit<W>)) * state.total[g]) +
                          weight * below * all(W(1 / kNearUnit<W>));
        state.total[g] = state.total[g] * keep[g] + weight;
        state.rounded[g] = state.rounded[g] * keep[g] + weight;
        state.peak[g] = now;
    }
    return true;
}

// Takes a tile's scores (a <= j < b) in, as weights exp(score − peak). Returns whether older sums are worth less by keep.
template <class A, int G, bool kMoments>
QKV_INLINE bool soften(Softmax<A>& state, const Part& part, const Vector<Work<A>>* largest, Work<A>* scores,
                       Query<A>* weights, Vector<Work<A>>* keep) {
    Vector<Work<A>> shift[G];
    Sums<A> sums;
    const bool rises = raise_peak<A, G, kMoments>(state, largest, keep, shift);
    weigh_all<A, G, kMoments>(part, shift, scores, weights, sums);
    add_sums<A, G, kMoments>(state, sums);
    return rises;
}

// What is said of a row; `at` counts the rows of all heads.
template <class A>
void give_row(const Problem& p, int64_t head, const Softmax<A>& state, int lane, int64_t at, const RowResults& into) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const double nan = __builtin_nan(""), lowest = -__builtin_inf();
    const double peak = state.peak[lane / VL][lane % VL], total = state.total[lane / VL][lane % VL];
    const double highest = state.highest[lane / VL][lane % VL], moment = state.moment[lane / VL][lane % VL] * kNearUnit<W>;
    const bool odd = state.odd[lane / VL][lane % VL] != 0, empty = !(total > 0);
    const auto give = [&](void* to, double value) {
        if (to) static_cast<W*>(to)[at] = W(odd ? nan : value);
    };
    const double log_total = empty ? lowest : __builtin_log(total);
    const double sink_score = p.sinks ? p.sinks[head] : lowest;
    // relative to the largest score there is a term of 1, whatever else was rounded; to one of a sink far above all keys
    // their weights would be coarser
    const double from = highest > sink_score - kSinkAbove ? highest : sink_score - kSinkAbove;
    const double whole = total * __builtin_exp(peak - from);
    give(into.peak, empty ? 0 : from);
    give(into.total, empty ? 0 : whole < 1 ? 1 : whole);
    give(into.lse, empty ? lowest : peak + log_total);
    // over the keys alone: the sink's share, and its term of the moment, are taken out again
    const bool has_sink = !empty && sink_score > lowest;
    const double below = has_sink ? sink_score - peak : 0, sink = has_sink ? __builtin_exp(below) : 0;
    give(into.entropy, empty ? 0 : (1 - sink / total) * log_total - (moment - sink * below) / total);
    give(into.max_score, state.raw[lane / VL][lane % VL]);
    if (into.max_key) into.max_key[at] = odd ? -1 : state.key[lane];
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
