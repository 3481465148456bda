// SPDX-License-Identifier: Apache-2.0
// One attention as the kernels read it: plain numbers and pointers, checked before they arrive here.
#pragma once

#include <cstdint>

namespace qkv {

enum class DType : int { f16, bf16, f32, f64 };

// Rows of a caller's array, any strides, never copied as a whole. The rows of head h begin at data + at[h].
struct Rows {
    const char* data;
    const int64_t* at;  // bytes, one a head: batch strides, shared heads and broadcast axes are all in here
    int64_t row;        // bytes from one row to the next; may be 0 or negative
    int64_t column;     // bytes from one channel to the next
    int64_t width;      // channels
    DType dtype;
};

// A matrix of cells (n_q, n_k) beside the scores: a bool mask or a bias. data is null where there is none.
struct Cells {
    const char* data;
    const int64_t* at;  // bytes, one a head
    int64_t row, key;   // bytes; 0 where the axis is broadcast
    DType dtype;        // of a bias
};

// Which queries a call is about: begin <= i < end. Results of rows have end − begin of them.
struct Span {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
};

struct Problem {
    int64_t n_heads, n_q, n_k;  // heads: all axes before n_q, flattened
    Rows q, k;
    double factor;   // scale / temperature
    double softcap;  // 0 where there is none

    // Query i of head h sees the keys first[s] <= j < last[s], s = span_at[h] + i. Null: every key.
    const int64_t* first;
    const int64_t* last;
    const int64_t* span_at;

    Cells mask;  // bytes, nonzero = may attend
    Cells bias;  // nats; -inf hides

    // A bias by distance, nats: by_distance[distance_at[h] + (j - i) + n_q - 1]. Null where there is none.
    const double* by_distance;
    const int64_t* distance_at;

    const double* sinks;  // nats, one a head, or null

    Span rows;
};

// What one pass over the keys may say of each row, (n_heads, rows), in the work dtype (float64 for float64, float32 for
// all others); null where unwanted. A row that sees NaN or an infinite score has NaN everywhere.
struct RowResults {
    void* peak;        // nats: the largest score, or 80 below the sink where that is more; 0 where there is no score
    void* total;       // sum of exp(score − peak), at least 1; 0 where there is no score
    void* lse;         // nats
    void* entropy;     // nats, over the keys alone
    void* max_score;   // nats, before softcap and bias, over the keys that are seen; -inf where there is none
    int64_t* max_key;  // its key, the lowest of equal ones; -1 where there is none

    bool asks() const { return peak || total || lse || asks_moments(); }
    bool asks_moments() const { return entropy || max_score || max_key; }
};

// What the weights of a row are taken with: weight = exp(score − peak) / total. As RowResults gives them.
struct RowSums {
    const void* peak;
    const void* total;
};

// What a cell of the map is asked at: its weight, or its score as the softmax sees it (-inf where hidden), after the softcap,
// or as it comes from the product.
enum class Stage : int { weight, biased, capped, raw };

// Attention over parts of the keys, for merge: of each part out (rows, width) and lse (rows), in C order.
struct Parts {
    int64_t n, rows, width;
    const void* const* out;
    const void* const* lse;  // nats, in the work dtype
    DType dtype;             // of out
    bool wide;               // the work dtype: float64, else float32
};

}  // namespace qkv
