// SPDX-License-Identifier: Apache-2.0
// What a task of A @ v takes with it over the keys: its blocks of queries, their outputs, and its scratch.
#pragma once

#include "kernel.h"
#include "softmax.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kBlocks = 8;             // blocks of queries of a task: 384 queries in float32
constexpr int64_t kScratch = 4 << 20;  // bytes that a thread may take, unless one block of very wide rows needs more

template <class A>
struct Apply {
    const Problem& problem;
    const Rows* v;  // null: the rows alone
    void* out;
    bool* finite;  // whether all of out is, so far
    const RowResults& rows;
    Grid grid;
    bool k_direct, v_direct;
    int64_t q_width, v_width;  // up to a multiple of the lanes, for whole vectors are transposed, and of kKeysAtOnce
    int together;              // blocks of queries in a task
    int64_t tasks;             // a head
};

// A block under way: its queries, their softmax, and their outputs, [v_width][groups · lanes], not yet divided by total.
template <class A>
struct Way {
    typedef Work<A> W;
    Block<A> block;
    Softmax<A> softmax;
    W* out;
    bool fresh;  // nothing is in out yet
};

#if defined(__AVX512F__)
constexpr bool kOverlaps = true;
#else
constexpr bool kOverlaps = false;  // with 16 registers there is no room for it
#endif

// Whether the exponentials of a tile are taken among the products of the next: see overlap.h. The widths are those that most
// models have.
template <class A>
bool overlaps(const Problem& p) {
    return kOverlaps && sizeof(Work<A>) == 4 && (p.k.width == 64 || p.k.width == 128);
}

// The scratch of a task.
template <class A>
struct ApplySpace {
    typedef Work<A> W;
    ScoreSpace<A> score;
    W* side;                 // the scores of a tile that its weights overwrite
    W* other;                // room for the scores of one more tile, where two overlap
    Query<A>* weights;       // of a tile: in the place of its scores where they are of their size
    Number<A> *rows, *clean;
    Reader<A> keys, values;
    Number<A>* elements[2];  // of a tile of values and of the one before, which may not be multiplied yet
    Query<A>* queries;       // [together][elements of q_width · lanes]
    W* outs;                 // [together][v_width · lanes]

    int64_t take(Arena arena, const Apply<A>& call) {
        constexpr int64_t lanes = kGroups * Lanes<W>::n;
        const int64_t width = up_to(call.problem.k.width, kTerms<A>);
        score.take(arena, width, call.rows.asks_moments());
        if constexpr (kTerms<A> == 1)
            side = arena.take<W>((kTile<A> + kKeysAtOnce) * lanes);
        else
            weights = arena.take<Query<A>>(kTile<A> / kTerms<A> * lanes);
        const bool copies = kTerms<A> > 1 || !call.v_direct, two = call.v && overlaps<A>(call.problem);
        elements[0] = arena.take<Number<A>>(copies ? kTile<A> * call.v_width : 0);
        elements[1] = two ? arena.take<Number<A>>(copies ? kTile<A> * call.v_width : 0) : elements[0];
        if (two) other = arena.take<W>((kTile<A> + kKeysAtOnce) * lanes);
        rows = arena.take<Number<A>>(lanes * call.q_width);
        clean = arena.take<Number<A>>(kTile<A> * call.v_width);
        keys = {&call.problem.k, width, call.k_direct, arena.take<Number<A>>(kTile<A> * width)};
        Number<A>* natural = kTerms<A> == 1 ? nullptr : arena.take<Number<A>>(kTile<A> * call.v_width);
        values = {call.v, call.v_width, call.v_direct, natural};
        queries = arena.take<Query<A>>(call.together * call.q_width / kTerms<A> * lanes);
        outs = arena.take<W>(call.together * call.v_width * lanes);
        return arena.used;
    }
};

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
