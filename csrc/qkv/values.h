// SPDX-License-Identifier: Apache-2.0
// The second product: weights of a tile times its values, onto the outputs of a block.
#pragma once

#include "way.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// Whether a value of these keys is NaN or infinite.
template <class W>
bool has_odd_values(const Values<W>& values, const Part& part, int64_t width) {
    Mask<W> odd{};
    bool rest = false;
    for (int j = part.a; j < part.b; j++) {
        const W* from = values.v + j * values.row;
        int64_t c = 0;
        for (; c + Lanes<W>::n <= width; c += Lanes<W>::n) odd |= (Mask<W>)(load(from + c) - load(from + c));
        for (; c < width; c++) rest |= is_odd(from[c]);
    }
    return rest || any(odd);
}

// Odd values: their product is taken with zeros in their place, and they are added by hand for the lanes that see them.
template <class A>
void clean_values(const Values<A>& values, int from, int to, int64_t width, Number<A>* clean) {
    for (int e = from; e < to; e++)
        for (int64_t c = 0; c < width * kTerms<A>; c++) {
            const Number<A> x = values.v[e * values.row + c];
            clean[e * width * kTerms<A> + c] = is_odd(x) ? Number<A>(0) : x;
        }
}

template <class A, int G>
void add_odd_values(const Values<A>& values, const Part& part, int64_t width, const Work<A>* scores,
                    const ApplySpace<A>& space, Work<A>* out) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n, terms = kTerms<A>;
    const Number<A>* weights = reinterpret_cast<const Number<A>*>(space.weights);
    for (int j = part.a; j < part.b; j++)
        for (int64_t c = 0; c < width; c++) {
            const Number<A> x = values.v[j / terms * values.row + c * terms + j % terms];
            if (!is_odd(x)) continue;
            for (int lane = 0; lane < lanes; lane++)
                if (scores[j * lanes + lane] > W(-__builtin_inf()))
                    out[c * lanes + lane] += wide(x) * wide(weights[(j / terms * lanes + lane) * terms + j % terms]);
        }
}

// Products with values for all channels, onto the block's outputs.
template <class A, int G, class How>
__attribute__((noinline)) void multiply_all(const Number<A>* v, int64_t row, int n, int64_t width, const Query<A>* weights,
                                            How older, const Ahead& next, Work<A>* out) {
    constexpr int lanes = G * Lanes<Work<A>>::n;
    for (int64_t c = 0; c < width; c += kKeysAtOnce) {
        next.template fetch<2>(int(c * kTile<A> / width), int((c + kKeysAtOnce) * kTile<A> / width));
        Vector<Work<A>> sum[kKeysAtOnce][G] = {};
        sum_values<A, G, 0, G>(v + c * kTerms<A>, row, n, weights, sum);
        add_to<Work<A>, G>(sum, older, out + c * lanes);
    }
}

// multiply_all for a part of which not every vector sees all.
template <class A, int G, class How>
__attribute__((noinline)) void multiply_seen(const Number<A>* v, int64_t row, const Part& part, int64_t width,
                                             const Query<A>* weights, How older, Work<A>* out) {
    constexpr int lanes = G * Lanes<Work<A>>::n;
    for (int64_t c = 0; c < width; c += kKeysAtOnce) {
        Vector<Work<A>> sum[kKeysAtOnce][G] = {};
        for (const Stretch* s = part.stretch; s < part.stretch + part.stretches; s++)
            with_vectors<G>(s->from, s->to, [&](auto some) __attribute__((always_inline)) {
                sum_values<A, G, some.from, some.to>(v + s->a * row + c, row, s->b - s->a, weights + s->a * lanes, sum);
            });
        add_to<Work<A>, G>(sum, older, out + c * lanes);
    }
}

// The block's outputs, times keep, which where null is 1, and the weights of the part times the values; `scores` are those
// of the weights.
template <class A, int G>
QKV_INLINE void add_values(const Apply<A>& call, const Values<A>& values, const Part& part, bool hides,
                           const Work<A>* scores, const ApplySpace<A>& space, const Vector<Work<A>>* keep, Way<A>& way,
                           const Ahead& next) {
    constexpr int lanes = G * Lanes<Work<A>>::n;
    const int from = part.a / kTerms<A>, to = int(up_to(part.b, kTerms<A>) / kTerms<A>);
    bool apart = values.odd;
    if constexpr (kTerms<A> == 1) apart = hides && has_odd_values(values, part, call.v_width);
    if (apart) clean_values(values, from, to, call.v_width, space.clean);
    const Number<A>* v = apart ? space.clean : values.v;
    const int64_t row = apart ? call.v_width * kTerms<A> : values.row;
    const auto multiply = [&](auto older) {
        if (part.stretches)
            multiply_seen<A, G>(v, row, part, call.v_width, space.weights, older, way.out);
        else
            multiply_all<A, G>(v + from * row, row, to - from, call.v_width, space.weights + from * lanes, older, next,
                               way.out);
    };
    if (way.fresh)
        multiply(NoOlder{});
    else if (keep)
        multiply(Older<Work<A>>{keep});
    else
        multiply(SameOlder{});
    way.fresh = false;
    if (apart) add_odd_values<A, G>(values, part, call.v_width, scores, space, way.out);
}

// Values as they are multiplied: where an element is two numbers, those of a pair of keys side by side.
template <class A>
Values<A> read_values(const Apply<A>& call, int64_t head, int64_t j0, int n, ApplySpace<A>& space) {
    Values<A> values{};
    Number<A>* elements = space.elements[j0 / kTile<A> % 2];
    if constexpr (kTerms<A> == 1) space.values.memory = elements;
    values.v = space.values.read(head, j0, n, &values.row);
    if constexpr (kTerms<A> == 2) {
        const int64_t width = call.v_width;
        for (int j = 0; j < n; j += 2) {
            const uint16_t *first = values.v + j * values.row, *second = first + values.row;
            for (int64_t c = 0; c < width; c += 32) {  // cache lines of the next tile, where rows are read in place
                __builtin_prefetch(first + kTile<A> * values.row + c, 0, 2);
                __builtin_prefetch(second + kTile<A> * values.row + c, 0, 2);
            }
            if (j + 1 == n) {
                for (int64_t c = 0; c < width; c++) space.clean[c] = 0;
                second = space.clean;
            }
            values.odd |= interleave(first, second, width, elements + j * width);
        }
        values.v = elements;
        values.row = 2 * width;
    }
    return values;
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
