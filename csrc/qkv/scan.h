// SPDX-License-Identifier: Apache-2.0
// What one walk over the weights can find, any of it at once. Pointers are null and counts 0 where something is not wanted.
// Numbers of rows are in the work dtype, (n_heads, rows). What a head has as a whole is given for stripes of its rows, for
// the caller to add in order: so it does not depend on the number of threads.
#pragma once

#include "problem.h"

namespace qkv {

constexpr int kScanTile = 48;  // keys that are weighed, and summed, at once; _scan.py has the same number

// Weight by label: share (n_heads, rows, n), zeros before. label: (n_k) each key's, 0 <= label < n, or −1 for none. order: the
// keys of each tile of kScanTile, counted from its first, in the order of their labels: each label is summed at once. The last
// key of each label has kLastOfLabel in it.
constexpr uint8_t kLastOfLabel = 128;
struct Labels {
    const int32_t* label;
    const uint8_t* order;
    int64_t n;
    void* share;
};

// Weight by pixel: sums, or maxima, (n_heads, height, width), zeros before; a row i falls into pixel row ⌊i · height / n_q⌋.
// What a stripe has of a pixel row that began in a stripe before it is kept apart, (n_heads, stripes, width), zeros before.
// edge: the first key of each pixel, those j with ⌊j · width / n_k⌋ = pixel, and n_k: (width + 1).
struct Picture {
    const int64_t* edge;
    int64_t height, width;
    bool largest;
    double* value;
    double* carried;
};

// Weight on the keys at(i) + low <= j <= at(i) + high, at(i) = offset[head] + i.
struct Band {
    const int64_t* offset;
    int64_t low, high;
    void* mass;
};

// Weight on the keys j < at(i) + reach whose token is the row's: key[key_at[head] + j] == row[row_at[head] + i].
// A row whose token is negative has none.
struct Pairs {
    const int32_t* key;
    const int64_t* key_at;
    const int32_t* row;
    const int64_t* row_at;
    const int64_t* offset;
    int64_t reach;
    void* mass;
};

// Mean and variance of at(i) − j, or of its absolute, under the weights, (n_heads, rows); and the weight by how large it is:
// histogram (n_heads, stripes, ahead + 1 + back), the bins of −(2^ahead), …, −2 to −3, −1, 0, 1, 2 to 3, ….
struct Distances {
    const int64_t* offset;
    bool absolute;
    double* mean;
    double* variance;
    double* histogram;
    int64_t ahead, back;
};

// The n largest weights and their keys, largest first, the lower key of equal ones: (n_heads, rows, n), −1 before.
struct Top {
    int64_t n;
    void* weight;
    int64_t* key;
};

struct Scan {
    int64_t stripe;  // rows of one; a multiple of 48

    void* mass;      // sum of the weights
    void* squares;   // sum of their squares
    void* slope;     // sum of weight · (1 − weight)
    void* largest;   // the largest weight
    void* received;  // (n_heads, stripes, n_k): the weight that a key receives from the rows of a stripe

    const Labels* labels;
    const Picture* pictures;
    const Band* bands;
    const Pairs* pairs;
    const Distances* distances;
    const Top* tops;
    int n_labels, n_pictures, n_bands, n_pairs, n_distances, n_tops;
};

}  // namespace qkv
