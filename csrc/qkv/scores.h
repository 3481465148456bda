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

// Rows that are wanted soon.
struct Ahead {
    const char* at;  // null: none
    int64_t row, bytes;

    // Has rows from <= r < to brought near: to the first cache (3), or to the second (2).
    template <int kNear>
    __attribute__((always_inline)) void fetch(int from, int to) const {
        if (!at) return;
        for (int r = from; r < to; r++)
            for (int64_t x = 0; x < bytes; x += 64) __builtin_prefetch(at + r * row + x, 0, kNear);
    }
};

// A tile of keys: k[j][channel] of n keys from j0 on.
template <class A>
struct Keys {
    const Number<A>* k;
    int64_t row;
    int64_t j0;
    int n;
    Ahead values{}, next{};  // fetched while these keys are multiplied: their values; while those are: the next tile's keys

    // The rows of the next tile, of numbers of a width.
    Ahead behind(int tile, int64_t width) const {
        const int64_t size = sizeof(Number<A>);
        return {reinterpret_cast<const char*>(k + tile * row), row * size, width * size};
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

// The products alone, their largest, and the lanes that have NaN or an infinite one among them.
template <class A, int G>
QKV_INLINE void score_products(const Block<A>& block, int64_t width, const Part& part, const Keys<A>& keys,
                               ScoreSpace<A>& space, Vector<Work<A>>* largest, Mask<Work<A>>* odd) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    width = up_to(width, kTerms<A>);
    Vector<W> unused[G];
    for (int g = 0; g < G; g++) {
        largest[g] = unused[g] = all(W(-__builtin_inf()));
        odd[g] = Mask<W>{};
    }
    const Stretch* stretch = part.stretch;
    for (int j = part.a; j < part.b; j += kKeysAtOnce) {
        if (part.stretches && j == stretch->b) stretch++;
        const bool some = part.stretches && stretch->to - stretch->from < G;
        if (some && stretch->to == stretch->from) continue;
        const bool whole = j + kKeysAtOnce <= part.b;
        const Number<A>* from = keys.k + j * keys.row;
        int64_t row = keys.row;
        if (j + kKeysAtOnce > keys.n) {
            for (int r = 0; r < kKeysAtOnce; r++)
                for (int64_t c = 0; c < width; c++) space.tail[r * width + c] = j + r < keys.n ? from[r * row + c] : Number<A>(0);
            from = space.tail;
            row = width;
        }
        Mask<W> ignored[G] = {};
        keys.values.template fetch<3>(j, j + kKeysAtOnce < keys.n ? j + kKeysAtOnce : keys.n);
        if (some) {  // settle_scores finds the largest, for something is hidden here
            multiply_some_keys<A, G>(*stretch, from, row, block.q, width, block.factor, space.scores + j * lanes);
            continue;
        }
        multiply_keys<A, G>(from, row, block.q, width, block.factor, space.scores + j * lanes, whole ? largest : unused,
                            whole ? odd : ignored);
        if (whole) continue;
        for (int r = j; r < part.b; r++)
            for (int g = 0; g < G; g++) {
                const Vector<W> x = load(space.scores + (r * G + g) * VL);
                largest[g] = larger(largest[g], x);
                odd[g] |= (Mask<W>)(x - x);
            }
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
