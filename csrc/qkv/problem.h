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

struct Problem {
    int64_t n_heads, n_q, n_k;  // heads: all axes before n_q, flattened
    Rows q, k, v;
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
};

// What a call may write, each in the work dtype (float64 for float64, float32 for all others); null where unwanted.
struct Results {
    void* out;        // (n_heads, n_q, width of v), C order
    void* lse;        // (n_heads, n_q) nats
    void* entropy;    // (n_heads, n_q) nats
};

}  // namespace qkv
