// SPDX-License-Identifier: Apache-2.0
// The scores of a block of queries over a tile of keys: the one place from which every pass has them, so that a score has
// the same bits in all of them. They are sums over channels in order, so they do not depend on where a tile begins.
#pragma once

#include "cells.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// Room for the scores of a tile.
template <class A>
struct ScoreSpace {
    typedef Work<A> W;
    W* scores;  // [kTile<A> + kKeysAtOnce][lanes]: the last keys are computed as so many
    W* extra;   // the same: what is added
    W* raw;     // the same, or null: the scores before softcap and biases, where those come in
    W* seen;    // the same, or null: 1 where a lane sees a key, else 0, where not everybody sees everything
    Number<A>* tail;  // [kKeysAtOnce][width]: the last keys of all, for nothing may be read behind them

    void take(Arena& arena, int64_t width, bool keeps_raw, bool keeps_seen = false) {
        constexpr int64_t tile = (kTile<A> + kKeysAtOnce) * kGroups * Lanes<W>::n;
        scores = arena.take<W>(tile);
        extra = arena.take<W>(tile);
        raw = keeps_raw ? arena.take<W>(tile) : nullptr;
        seen = keeps_seen ? arena.take<W>(tile) : nullptr;
        tail = arena.take<Number<A>>(kKeysAtOnce * up_to(width, kTerms<A>));
    }
};

// A tile of keys: k[j][channel] of n keys from j0 on.
template <class A>
struct Keys {
    const Number<A>* k;
    int64_t row;
    int64_t j0;
    int n;
    // Fetched while these keys are multiplied, their values as a rule; and while those are, the next tile's keys.
    Ahead soon{}, next{};

    // The rows of the next tile, of numbers of a width.
    Ahead behind(int tile, int64_t width) const {
        const int64_t size = sizeof(Number<A>);
        return {reinterpret_cast<const char*>(k + tile * row), row * size, width * size, tile};
    }
};

// multiply_keys for some of the vectors.
template <class A, int G>
__attribute__((noinline)) void multiply_some_keys(const Stretch& some, const Number<A>* k, int64_t k_row, const Query<A>* q,
                                                  int64_t width, Work<A> factor, Work<A>* scores) {
    Vector<Work<A>> unused[G] = {};
    Mask<Work<A>> ignored[G] = {};
    with_vectors<G>(some.from, some.to, [&](auto vectors) __attribute__((always_inline)) {
        multiply_keys<A, G, vectors.from, vectors.to>(k, k_row, q, width, factor, scores, unused, ignored);
    });
}

// multiply_keys for the last n keys of a part, fewer than kKeysAtOnce: those behind them are computed, but not looked at.
template <class A, int G>
__attribute__((noinline)) void multiply_last_keys(int n, const Number<A>* k, int64_t k_row, const Query<A>* q, int64_t width,
                                                  Work<A> factor, Work<A>* scores, Vector<Work<A>>* largest,
                                                  Mask<Work<A>>* odd) {
    constexpr int VL = Lanes<Work<A>>::n, kHalf = kKeysAtOnce / 2;
    Vector<Work<A>> unused[G] = {};
    Mask<Work<A>> ignored[G] = {};
    if (n <= kHalf)
        multiply_keys<A, G, 0, G, kHalf>(k, k_row, q, width, factor, scores, unused, ignored);
    else
        multiply_keys<A, G>(k, k_row, q, width, factor, scores, unused, ignored);
    for (int r = 0; r < n; r++)
        for (int g = 0; g < G; g++) {
            const Vector<Work<A>> x = load(scores + (r * G + g) * VL);
            largest[g] = larger(largest[g], x);
            odd[g] |= (Mask<Work<A>>)(x - x);
        }
}

// The products alone, their largest, and the lanes that have NaN or an infinite one among them.
template <class A, int G>
QKV_INLINE void score_products(const Block<A>& block, int64_t width, const Part& part, const Keys<A>& keys,
                               ScoreSpace<A>& space, Vector<Work<A>>* largest, Mask<Work<A>>* odd) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    width = up_to(width, kTerms<A>);
    for (int g = 0; g < G; g++) {
        largest[g] = all(W(-__builtin_inf()));
        odd[g] = Mask<W>{};
    }
    const Stretch* stretch = part.stretch;
    for (int j = part.a; j < part.b; j += kKeysAtOnce) {
        if (part.stretches && j == stretch->b) stretch++;
        const bool some = part.stretches && stretch->to - stretch->from < G;
        if (some && stretch->to == stretch->from) continue;
        const Number<A>* from = keys.k + j * keys.row;
        int64_t row = keys.row;
        if (j + kKeysAtOnce > keys.n) {
            for (int r = 0; r < kKeysAtOnce; r++)
                for (int64_t c = 0; c < width; c++) space.tail[r * width + c] = j + r < keys.n ? from[r * row + c] : Number<A>(0);
            from = space.tail;
            row = width;
        }
        keys.soon.template fetch<3>(j, j + kKeysAtOnce);
        W* scores = space.scores + j * lanes;
        if (some)  // settle_scores finds the largest, for something is hidden here
            multiply_some_keys<A, G>(*stretch, from, row, block.q, width, block.factor, scores);
        else if (j + kKeysAtOnce <= part.b)
            multiply_keys<A, G>(from, row, block.q, width, block.factor, scores, largest, odd);
        else
            multiply_last_keys<A, G>(part.b - j, from, row, block.q, width, block.factor, scores, largest, odd);
    }
    for (int g = 0; g < G; g++) odd[g] = odd[g] != 0;
}

// Whether scores are more than hidden.
QKV_INLINE bool changes_scores(const Problem& p) { return p.softcap > 0 || p.bias.data || p.by_distance; }

// What becomes of the products of a part, with their largest and the odd anew. Returns whether softcap, biases or masks came
// in: else every lane sees every key of the part.
template <class A, int G>
QKV_INLINE bool settle_scores(const Problem& p, int64_t head, const Block<A>& block, const Part& part,
                              ScoreSpace<A>& space, Vector<Work<A>>* largest, Mask<Work<A>>* odd) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    const bool cells = p.mask.data || p.bias.data || p.by_distance;
    if (!(part.hides || cells || p.softcap > 0)) return false;
    if (space.raw && changes_scores(p))
        __builtin_memcpy(space.raw + part.a * lanes, space.scores + part.a * lanes,
                         sizeof(W) * lanes * uint64_t(part.b - part.a));
    if (p.softcap > 0) cap<A, G>(part, p.softcap, space.scores);
    if (cells) gather_cells(p, head, block, part, space.extra);
    finish_scores<A, G>(block, part, cells ? space.extra : nullptr, space.seen, space.scores, largest, odd);
    return true;
}

// The scores as the softmax sees them, -inf where hidden; their largest; the lanes that see NaN or an infinite one.
template <class A, int G>
QKV_INLINE bool score(const Problem& p, int64_t head, const Block<A>& block, const Part& part, const Keys<A>& keys,
                      ScoreSpace<A>& space, Vector<Work<A>>* largest, Mask<Work<A>>* odd) {
    score_products<A, G>(block, p.k.width, part, keys, space, largest, odd);
    return settle_scores<A, G>(p, head, block, part, space, largest, odd);
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
