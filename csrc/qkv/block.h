// SPDX-License-Identifier: Apache-2.0
// A block of queries on its way over the keys, a lane for each query: which rows it holds, and what they see.
#pragma once

#include "arithmetic.h"
#include "problem.h"
#include "simd/widen.h"
#include "tile.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kMaxLanes = kGroups * kVectorBytes / 4;

// How the queries of a head are cut into blocks. Vectors of queries are shared out evenly: 196 queries are blocks of 3, 3,
// 3, 2 and 2 vectors, not 3, 3, 3, 3 and 1.
struct Grid {
    Span rows;
    int64_t lanes, blocks, base, more;

    template <class W>
    static Grid of(Span rows) {
        constexpr int64_t VL = Lanes<W>::n;
        const int64_t vectors = (rows.size() + VL - 1) / VL, blocks = (vectors + kGroups - 1) / kGroups;
        return {rows, VL, blocks, blocks ? vectors / blocks : 0, blocks ? vectors % blocks : 0};
    }
    int groups(int64_t index) const { return int(base + (index < more)); }
    int64_t begin(int64_t index) const { return rows.begin + (index * base + (index < more ? index : more)) * lanes; }
};

template <class A>
struct Block {
    int64_t row0;      // the first query
    int rows, groups;  // queries, and vectors of them
    Query<A>* q;       // [elements of a row][groups · lanes], times factor where that rounds it no more than the product
    Work<A> factor;
    int64_t first[kMaxLanes], last[kMaxLanes];                // the keys that each lane sees
    int64_t first_min, first_max, last_min, last_max;         // over the lanes
    Span seen[kGroups];                                       // keys that some lane of a vector sees are among these
};

// Whether a head's rows can be read where they lie: of the dtype that is multiplied, channels side by side in whole elements,
// each number at a multiple of its size.
template <class A>
bool lies_ready(const Rows& rows, int64_t head) {
    const int64_t size = sizeof(Number<A>);
    const bool aligned = rows.row % size == 0 && (reinterpret_cast<uintptr_t>(rows.data) + uint64_t(rows.at[head])) % size == 0;
    return rows.dtype == Arithmetic<A>::dtype && rows.column == size && rows.width % kTerms<A> == 0 && aligned;
}

// Rows that are wanted soon.
struct Ahead {
    const char* at;
    int64_t row, bytes;
    int n;  // 0: none

    // Has rows from <= r < to, as far as there are so many, brought near: to the first cache (3), or to the second (2).
    template <int kNear>
    __attribute__((always_inline)) void fetch(int from, int to) const {
        if (n == 0) return;
        for (int r = from; r < to && r < n; r++)
            for (int64_t x = 0; x < bytes; x += 64) __builtin_prefetch(at + r * row + x, 0, kNear);
    }
    __attribute__((always_inline)) void fetch() const { fetch<3>(0, n); }
};

// The queries of a block, where they are read in place: one by one each row would be waited for.
template <class A>
Ahead queries_of(const Problem& p, int64_t head, const Block<A>& block) {
    if (!lies_ready<A>(p.q, head)) return {};
    return {p.q.data + p.q.at[head] + block.row0 * p.q.row, p.q.row, p.q.width * int64_t(sizeof(Number<A>)), block.rows};
}

// The rows of q that a block holds, as [element][lanes]. Lanes behind the last query do as the first.
template <class A>
void take_queries(const Problem& p, int64_t head, int64_t width, Number<A>* rows, Block<A>& block) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const int lanes = block.groups * VL;
    const bool direct = lies_ready<A>(p.q, head) && p.q.width == width;
    if (!direct) gather(p.q, head, block.row0, block.rows, width, rows);
    const char* begin = direct ? p.q.data + p.q.at[head] + block.row0 * p.q.row : reinterpret_cast<const char*>(rows);
    const int64_t row = direct ? p.q.row : width * int64_t(sizeof(Number<A>));
    block.factor = W(p.factor);
    for (int g = 0; g < block.groups; g++) {
        const char* from[VL];
        for (int i = 0; i < VL; i++) from[i] = begin + (g * VL + i < block.rows ? g * VL + i : 0) * row;
        for (int64_t c = 0; c < width; c += VL * kTerms<A>) {
            Vector<Query<A>> part[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) {
                part[i] = load(reinterpret_cast<const Query<A>*>(from[i] + c * int64_t(sizeof(Number<A>))));
                if constexpr (kTerms<A> == 1) part[i] *= all(block.factor);
            }
            transpose<Query<A>>(part);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) store(block.q + (c / kTerms<A> + i) * lanes + g * VL, part[i]);
        }
    }
}

template <class A>
void take_spans(const Problem& p, int64_t head, Block<A>& block) {
    for (int lane = 0; lane < block.groups * Lanes<Work<A>>::n; lane++) {
        const int64_t at = p.first ? p.span_at[head] + block.row0 + (lane < block.rows ? lane : 0) : 0;
        const int64_t first = p.first ? p.first[at] : 0, last = p.first ? p.last[at] : p.n_k;
        block.first[lane] = first;
        block.last[lane] = last;
        block.first_min = lane == 0 || first < block.first_min ? first : block.first_min;
        block.first_max = lane == 0 || first > block.first_max ? first : block.first_max;
        block.last_min = lane == 0 || last < block.last_min ? last : block.last_min;
        block.last_max = lane == 0 || last > block.last_max ? last : block.last_max;
        Span& seen = block.seen[lane / Lanes<Work<A>>::n];
        const bool fresh = lane % Lanes<Work<A>>::n == 0;
        seen = {fresh || first < seen.begin ? first : seen.begin, fresh || last > seen.end ? last : seen.end};
    }
}

// Where block `index` of the grid lies, and what its lanes see.
template <class A>
void place_block(const Problem& p, const Grid& grid, int64_t head, int64_t index, Block<A>& block) {
    block.groups = grid.groups(index);
    block.row0 = grid.begin(index);
    const int64_t left = grid.rows.end - block.row0, lanes = block.groups * grid.lanes;
    block.rows = int(left < lanes ? left : lanes);
    take_spans(p, head, block);
}

// The same with its queries in q, [width][lanes]; `rows` is room for them in their natural order.
template <class A>
void begin_block(const Problem& p, const Grid& grid, int64_t head, int64_t index, int64_t width, Query<A>* q,
                 Number<A>* rows, Block<A>& block) {
    place_block(p, grid, head, index, block);
    block.q = q;
    queries_of(p, head, block).fetch();
    take_queries(p, head, width, rows, block);
}

// Keys a <= j < b of a tile, and the vectors of queries from <= g < to that see some of them; no other does.
struct Stretch {
    int a, b, from, to;
};

constexpr int kMostKeys = kTile<float>;  // of a tile, in any arithmetic and in a scan

// The part of a tile that the block sees: keys a <= j < b of those from j0 on, and how.
struct Part {
    int64_t j0;
    int a, b;
    bool hides;         // some lane does not see some of these keys
    int stretches;      // 0: every vector sees all of it
    Stretch stretch[kMostKeys / kKeysAtOnce];
};

// All n keys of a tile, of which every lane sees every key.
QKV_INLINE Part whole_part(int64_t j0, int n) { return {j0, 0, n, false, 0, {}}; }

// Cuts a part, kKeysAtOnce keys at a time, where other vectors begin to see or cease to.
template <class A>
void cut(const Block<A>& block, Part& part) {
    for (int j = part.a; j < part.b; j += kKeysAtOnce) {
        const int end = j + kKeysAtOnce < part.b ? j + kKeysAtOnce : part.b;
        Stretch now{j, end, 0, 0};
        for (int g = 0; g < block.groups; g++) {
            if (block.seen[g].begin >= part.j0 + end || block.seen[g].end <= part.j0 + j) continue;
            if (now.to == 0) now.from = g;
            now.to = g + 1;
        }
        Stretch& last = part.stretch[part.stretches ? part.stretches - 1 : 0];
        if (part.stretches && last.from == now.from && last.to == now.to)
            last.b = end;
        else
            part.stretch[part.stretches++] = now;
    }
}

template <class A>
QKV_INLINE Part part_of(const Block<A>& block, int64_t j0, int n) {
    const int64_t a = block.first_min > j0 ? block.first_min - j0 : 0;
    const int64_t b = block.last_max - j0 < n ? block.last_max - j0 : n;
    const bool hides = block.first_max > j0 + a || block.last_min < j0 + b;
    Part part;  // its stretches are not cleared: that would take longer than all the rest
    part.j0 = j0;
    part.a = int(a < n ? a : n);
    part.b = int(b > 0 ? b : 0);
    part.hides = hides;
    part.stretches = 0;
    if (kTerms<A> == 1 && hides) cut(block, part);
    return part;
}

// Memory cut into arrays: counted first, with no base, and then taken from one piece.
struct Arena {
    char* base;
    int64_t used = 0;

    template <class T>
    T* take(int64_t n) {
        T* here = base ? reinterpret_cast<T*>(base + used) : nullptr;
        used += (n * int64_t(sizeof(T)) + 63) / 64 * 64;
        return here;
    }
};

// Rows of k, v or x a tile at a time: where they lie, if they can be read there, else widened into memory of our own.
template <class A>
struct Reader {
    const Rows* rows;
    int64_t width;  // channels, up to what whole vectors or elements take
    bool direct;
    Number<A>* memory;  // (tile, width)

    const Number<A>* read(int64_t head, int64_t start, int64_t n, int64_t* row) const {
        if (direct) {
            *row = rows->row / int64_t(sizeof(Number<A>));
            return reinterpret_cast<const Number<A>*>(rows->data + rows->at[head] + start * rows->row);
        }
        gather(*rows, head, start, n, width, memory);
        *row = width;
        return memory;
    }
};

// A tile of values: rows of elements, and whether some number is odd, if that was looked at when they were read.
template <class A>
struct Values {
    const Number<A>* v;
    int64_t row;
    bool odd;
};

template <class A>
bool reads_directly(const Rows& rows, int64_t n_heads) {
    bool ready = true;
    for (int64_t head = 0; head < n_heads; head++) ready &= lies_ready<A>(rows, head);
    return ready;
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
