// SPDX-License-Identifier: Apache-2.0
// The two products of attention for few queries. Lanes are channels here, so that keys and values are read once, as they
// lie, whatever their dtype: with so few queries memory is what takes the time.
//
// What a row gets is the same whether it is computed alone or with others, and whether its keys are read where they lie or
// from a copy: each number is a sum of its own, and vectors begin at the same channels.
#pragma once

#include "simd/widen.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int64_t kBlockBytes = 1 << 13;  // keys of a block: 16 at least, kFewKeys at most
constexpr int kLeastKeys = 16, kFewKeys = 64;
constexpr int kFetchBytes = 64;  // a line of the cache
constexpr int64_t kFetchAhead = 17 << 10;  // whole pages of 4 KB are slower by as much as a fifth

// Where there is little to compute between two lines, the processor sees far ahead: then what lies in order comes fastest if
// it is read in order, line after line, and nothing is asked for. Measured on Zen 4: prefetch instructions cost a fifth of the
// bandwidth or more, and so does reading several keys side by side. With more to compute, longer rows or gaps between them it
// is asking that helps; then keys may be read in any order, and share what is loaded of the queries.
constexpr int64_t kInOrderProducts = 2;  // of vectors, a line
constexpr int64_t kInOrderBytes = 512;   // of a row

// Rows of queries at once: 16 sums in 32 registers, 8 in 16.
template <class W>
constexpr int kTogether = Lanes<W>::n < 4 ? Lanes<W>::n : 4;

// The channels of a row as loads of whole vectors. The last load ends with the last channel, beside which nothing may be
// read: some of its channels may be those of the load before.
struct Channels {
    int64_t width, length, loads;  // length: the width, but at least a load, for which rows are copied
    int line;                      // channels of a load

    static Channels of(int64_t width, int line) {
        const int64_t length = width < line ? line : width;
        return {width, length, (length + line - 1) / line, line};
    }
    int64_t at(int64_t load) const { return load + 1 < loads ? load * line : length - line; }
    int64_t size() const { return loads * line; }
};

// n keys or values in the order of their channels, `row` bytes apart.
struct Lines {
    const char* data;
    int64_t row;
    int n;
    int64_t ahead;  // how far on to fetch, in bytes; 0: nothing is fetched, and lines are read in order
};

// A line of the cache into the second level. They are asked for one by one between the products: a burst of them waits for
// memory with nothing to compute.
QKV_INLINE void fetch(const char* from) { __builtin_prefetch(from, 0, 2); }

// What reads lines begins at a line of the cache itself: how fast they come was seen to move by a sixth with where the
// instructions of its loops lie.
#define QKV_LINES __attribute__((noinline, aligned(64)))

// Loads of a line of the cache.
template <class W, class From>
constexpr int kLoads = kFetchBytes / int(Widened<W, From>::line * sizeof(From));

// Lane r · N + i is the score of row r and key j + i, of R rows and N keys. q: [R][loads][channels of a load], those that
// come twice are 0 once.
template <class W, class From, int R, int N, bool kFetch>
QKV_INLINE Vector<W> multiply_few_keys(const Lines& k, int j, const Channels& channels, const W* q) {
    using Wide = Widened<W, From>;
    constexpr int VL = Lanes<W>::n, H = Wide::count, K = kFetch ? N : 1;  // keys side by side
    Vector<W> sum[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) sum[i] = Vector<W>{};
    const char* key = k.data + j * k.row;
#pragma GCC unroll 16
    for (int first = 0; first < N; first += K, key += K * k.row)
#pragma GCC unroll 1
        for (int64_t c = 0; c < channels.loads; c++) {
            const char* from = key + channels.at(c) * int64_t(sizeof(From));
            if (kFetch && c % kLoads<W, From> == 0) {
#pragma GCC unroll 16
                for (int i = 0; i < K; i++) fetch(from + i * k.row + k.ahead);
            }
            Vector<W> query[R][H];
#pragma GCC unroll 8
            for (int r = 0; r < R * H; r++) query[r / H][r % H] = load(q + r / H * channels.size() + (c * H + r % H) * VL);
#pragma GCC unroll 16
            for (int i = 0; i < K; i++) {
                Vector<W> x[H];
                Wide::load(from + i * k.row, x);
#pragma GCC unroll 8
                for (int r = 0; r < R * H; r++) sum[r / H * N + first + i] += x[r % H] * query[r / H][r % H];
            }
        }
    return sum_lanes<W>(sum);
}

template <class W, class From, int R, bool kFetch>
QKV_INLINE void score_lines(const Lines& k, const Channels& channels, const W* q, W* scores) {
    constexpr int VL = Lanes<W>::n, N = VL / R;
    int j = 0;
    for (; j + VL <= k.n; j += VL) {
        Vector<W> found[R];
#pragma GCC unroll 1
        for (int r = 0; r < R; r++) found[r] = multiply_few_keys<W, From, R, N, kFetch>(k, j + r * N, channels, q);
        regroup<W, R>(found);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) store(scores + r * kFewKeys + j, found[r]);
    }
    for (; j < k.n; j++) {
        const Vector<W> found = multiply_few_keys<W, From, R, 1, kFetch>(k, j, channels, q);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) scores[r * kFewKeys + j] = found[r];
    }
}

// scores[r][j] = sum over channels of q[r][c] · k[j][c], for R rows and all lines.
template <class W, class From, int R>
QKV_LINES void score_few(const Lines& k, const Channels& channels, const W* q, W* scores) {
    if (k.ahead)
        score_lines<W, From, R, true>(k, channels, q, scores);
    else
        score_lines<W, From, R, false>(k, channels, q, scores);
}

// C loads of sums[r], from c on, and the sum over lines of weight[r][j] · v[j] on top. A weight below 0 says that the row
// does not see the value, which may be anything: with kHides it is passed over.
template <class W, class From, int R, int C, bool kHides, bool kFetch>
QKV_INLINE void multiply_few_values(const Lines& v, int64_t c, const Channels& channels, const W* weight, W* sums) {
    using Wide = Widened<W, From>;
    constexpr int H = Wide::count;
    Vector<W> sum[R][C * H];
    int64_t at[C];
#pragma GCC unroll 16
    for (int i = 0; i < C; i++) at[i] = channels.at(c + i) * int64_t(sizeof(From));
#pragma GCC unroll 16
    for (int i = 0; i < R * C * H; i++) sum[i / (C * H)][i % (C * H)] = Vector<W>{};
    for (int j = 0; j < v.n; j++) {
        if (kHides && weight[j] < 0) continue;
        const char* line = v.data + j * v.row;
#pragma GCC unroll 16
        for (int i = 0; i < C; i++) {
            if (kFetch && i % kLoads<W, From> == 0) fetch(line + at[i] + v.ahead);
            Vector<W> x[H];
            Wide::load(line + at[i], x);
#pragma GCC unroll 8
            for (int r = 0; r < R * H; r++) sum[r / H][i * H + r % H] += x[r % H] * all(weight[r / H * kFewKeys + j]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R * C * H; i++) {
        W* to = sums + i / (C * H) * channels.size() + (c * H + i % (C * H)) * Lanes<W>::n;
        store(to, sum[i / (C * H)][i % (C * H)] + load(to));
    }
}

// The loads from c on: C at a time, then half as many, … one.
template <class W, class From, int R, int C, bool kHides, bool kFetch>
QKV_INLINE void add_lines(const Lines& v, int64_t c, const Channels& channels, const W* weight, W* sums) {
    for (; c + C <= channels.loads; c += C) multiply_few_values<W, From, R, C, kHides, kFetch>(v, c, channels, weight, sums);
    if constexpr (C > 1) add_lines<W, From, R, C / 2, kHides, kFetch>(v, c, channels, weight, sums);
}

template <class W, class From, int R, bool kHides>
QKV_LINES void add_few_values(const Lines& v, const Channels& channels, const W* weight, W* sums) {
    constexpr int C = kFewSums / R / Widened<W, From>::count;
    if (v.ahead)
        add_lines<W, From, R, C, kHides, true>(v, 0, channels, weight, sums);
    else
        add_lines<W, From, R, C, kHides, false>(v, 0, channels, weight, sums);
}

// How keys or values are read and multiplied, by their dtype: for 1, 2 or 4 rows at once.
template <class W>
struct FewReader {
    const Rows* rows;
    Channels channels;
    int64_t size;  // bytes of a number
    bool direct;   // read where they lie; else copied, a block at a time
    int (*channel)(int slot);
    void (*widen)(const char*, W*);
    void (*score[3])(const Lines&, const Channels&, const W*, W*);
    void (*add[3])(const Lines&, const Channels&, const W*, W*);
    void (*add_seen)(const Lines&, const Channels&, const W*, W*);

    template <class From>
    static FewReader as(const Rows& rows) {
        using Wide = Widened<W, From>;
        constexpr int R = kTogether<W>, H = R < 4 ? 1 : 2;
        const int64_t size = sizeof(From);
        return {&rows,
                Channels::of(rows.width, Wide::line),
                size,
                rows.width >= Wide::line && rows.column == size,
                Wide::channel,
                [](const char* from, W* to) {
                    Vector<W> x[Wide::count];
                    Wide::load(from, x);
                    __builtin_memcpy(to, x, sizeof x);
                },
                {score_few<W, From, 1>, score_few<W, From, H>, score_few<W, From, R>},
                {add_few_values<W, From, 1, false>, add_few_values<W, From, H, false>, add_few_values<W, From, R, false>},
                add_few_values<W, From, 1, true>};
    }
    static FewReader of(const Rows& rows) {
        if constexpr (sizeof(W) == 4) {
            if (rows.dtype == DType::f16) return as<StoredF16>(rows);
            if (rows.dtype == DType::bf16) return as<StoredBf16>(rows);
        }
        return as<W>(rows);
    }
    // n lines for so many rows of queries; copied ones lie in `memory`.
    Lines read(int64_t head, int64_t start, int n, int n_rows, char* memory) const {
        if (!direct) {
            copy_rows(*rows, head, start, n, channels.length, size, memory);
            return {memory, channels.length * size, n, 0};
        }
        constexpr int VL = Lanes<W>::n;
        const int64_t width = rows->width * size, products = n_rows * kFetchBytes / size / VL;
        const bool at_once = n_rows * channels.size() / VL <= kFewSums;  // the sums of all channels
        const bool in_order = rows->row == width && width <= kInOrderBytes && products <= kInOrderProducts && at_once;
        const int64_t ahead = (kFetchAhead + width - 1) / width * rows->row;
        return {rows->data + rows->at[head] + start * rows->row, rows->row, n, in_order ? 0 : ahead};
    }
};

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
