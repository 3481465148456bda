// SPDX-License-Identifier: Apache-2.0
// Drawn cases: an attention of some shape, dtypes, strides and masks as the kernels take it, and its cells by
// plain loops in double. Arrays are as long as what may be read, on the heap.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "../qkv/dispatch.h"

namespace {

using namespace qkv;

uint64_t state = 1;
double uniform() {  // in [-1, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(int64_t(state >> 11)) / double(int64_t{1} << 52) - 1;
}
int64_t below(int64_t n) { return int64_t((uniform() + 1) / 2 * double(n)) % n; }

int64_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : dtype == DType::f32 ? 4 : 2; }

// Small whole numbers over 16: the same value in every dtype.
double put(char* to, DType dtype) {
    const double x = double(below(81) - 40) / 16;
    const float narrow = float(x);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    uint16_t half = uint16_t(bits >> 16);
    if (dtype == DType::f16) {
        const int exponent = int(bits >> 23 & 255) - 112;
        half = x == 0 ? 0 : uint16_t((bits >> 16 & 0x8000) | uint32_t(exponent) << 10 | (bits >> 13 & 0x3ff));
    }
    if (dtype == DType::f64) std::memcpy(to, &x, 8);
    if (dtype == DType::f32) std::memcpy(to, &narrow, 4);
    if (dtype == DType::f16 || dtype == DType::bf16) std::memcpy(to, &half, 2);
    return x;
}

// An array (heads, n, width) at some strides, in memory that ends with its last number, and its values in double.
struct Array {
    std::vector<char> memory;
    std::vector<int64_t> at;
    std::vector<double> values;
    Rows rows{};

    Array(int64_t heads, int64_t n, int64_t width, DType dtype) {
        const int64_t size = size_of(dtype), kind = below(5);
        const int64_t odd = kind == 1, column = kind == 2 ? 2 * size : size;
        const int64_t row = kind == 3 ? size * (width + 3) : column * width;
        const int64_t head = row * n + (kind == 4 ? 1 : 0);  // kind 4: a field of packed records
        const int64_t last = odd + head * (heads - 1) + row * (n - 1) + column * (width - 1) + size;
        memory.resize(size_t(n && width ? last : 1));
        for (int64_t h = 0; h < heads; h++) {
            at.push_back(head * h);
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = 0; c < width; c++)
                    values.push_back(put(memory.data() + odd + head * h + row * i + column * c, dtype));
        }
        at.shrink_to_fit();
        rows = {memory.data() + odd, at.data(), row, column, width, dtype};
    }
};

struct Case {
    int64_t heads, n_q, n_k, d_k, d_v;
    DType dtype;
    bool spans, mask, bias, distance, sinks;
    double softcap;
    int64_t group = 1;  // heads that share keys and values
};

// A case as a Problem, with everything that it points to.
struct Made {
    int64_t group;
    Array q, k, v;
    std::vector<int64_t> first, last, span_at, cell_at, bias_at, distance_at;
    std::vector<char> mask;
    std::vector<float> bias;
    std::vector<double> distance, sinks;
    Problem problem{};

    explicit Made(const Case& c)
        : group(c.group), q(c.heads, c.n_q, c.d_k, c.dtype), k(c.heads, c.n_k, c.d_k, c.dtype), v(c.heads, c.n_k, c.d_v, c.dtype) {
        problem.n_heads = c.heads;
        problem.n_q = c.n_q;
        problem.n_k = c.n_k;
        problem.q = q.rows;
        problem.k = k.rows;
        problem.rows = {0, c.n_q};
        problem.factor = 0.3;
        problem.softcap = c.softcap;
        for (int64_t h = 0; h < c.heads; h++) {
            k.at[size_t(h)] = k.at[size_t(shared(h))];
            v.at[size_t(h)] = v.at[size_t(shared(h))];
            span_at.push_back(0);
            cell_at.push_back(0);
            bias_at.push_back(4 * c.n_q * c.n_k * h);
            distance_at.push_back((c.n_q + c.n_k - 1) * h);
            sinks.push_back(h % 2 ? uniform() : -INFINITY);
        }
        for (int64_t i = 0; i < c.n_q; i++) {
            first.push_back(below(c.n_k + 1));
            last.push_back(i % 5 == 0 ? first.back() : first.back() + below(c.n_k - first.back() + 1));
        }
        for (int64_t n = 0; n < c.n_q * c.n_k; n++) mask.push_back(below(3) != 0);
        for (int64_t n = 0; n < c.heads * c.n_q * c.n_k; n++) bias.push_back(below(9) ? float(uniform()) : -INFINITY);
        for (int64_t n = 0; n < c.heads * (c.n_q + c.n_k - 1); n++) distance.push_back(uniform());
        // a vector that grew has room behind its last number, where a read would go unnoticed
        for (auto* each : {&first, &last, &span_at, &cell_at, &bias_at, &distance_at}) each->shrink_to_fit();
        for (auto* each : {&distance, &sinks}) each->shrink_to_fit();
        mask.shrink_to_fit();
        bias.shrink_to_fit();
        if (c.spans) {
            problem.first = first.data();
            problem.last = last.data();
            problem.span_at = span_at.data();
        }
        if (c.mask) problem.mask = {mask.data(), cell_at.data(), c.n_k, 1, DType::f32};
        if (c.bias)
            problem.bias = {reinterpret_cast<char*>(bias.data()), bias_at.data(), 4 * c.n_k, 4, DType::f32};
        if (c.distance) {
            problem.by_distance = distance.data();
            problem.distance_at = distance_at.data();
        }
        if (c.sinks) problem.sinks = sinks.data();
    }

    int64_t shared(int64_t h) const { return h - h % group; }  // the head whose keys and values are those of h

    // As the product comes, after the softcap, and as the softmax sees it: -inf where hidden.
    double raw(int64_t h, int64_t i, int64_t j) const {
        const int64_t width = problem.q.width;
        const double* key = k.values.data() + (shared(h) * problem.n_k + j) * width;
        const double* query = q.values.data() + (h * problem.n_q + i) * width;
        double x = 0;
        for (int64_t c = 0; c < width; c++) x += query[c] * key[c];
        return x * problem.factor;
    }
    double capped(double x) const { return problem.softcap > 0 ? problem.softcap * std::tanh(x / problem.softcap) : x; }
    bool hides(int64_t i, int64_t j) const {
        if (problem.first && (j < first[size_t(i)] || j >= last[size_t(i)])) return true;
        return problem.mask.data && !mask[size_t(i * problem.n_k + j)];
    }
    bool sees(int64_t h, int64_t i, int64_t j) const {
        return !hides(i, j) && !(problem.bias.data && bias[size_t((h * problem.n_q + i) * problem.n_k + j)] == -INFINITY);
    }
    double score(int64_t h, int64_t i, int64_t j) const {
        if (hides(i, j)) return -INFINITY;
        double x = capped(raw(h, i, j));
        if (problem.bias.data) x += double(bias[size_t((h * problem.n_q + i) * problem.n_k + j)]);
        if (problem.by_distance)
            x += distance[size_t((problem.n_q + problem.n_k - 1) * h + j - i + problem.n_q - 1)];
        return x;
    }
};

// The rows of a call, (n_heads, rows), and their cells, (n_heads, rows, n_k), by plain loops.
struct Truth {
    int64_t begin, rows, n_k;
    std::vector<double> raw, score, weight, lse, peak;

    explicit Truth(const Made& made)
        : begin(made.problem.rows.begin), rows(made.problem.rows.size()), n_k(made.problem.n_k) {
        for (int64_t h = 0; h < made.problem.n_heads; h++)
            for (int64_t i = begin; i < begin + rows; i++) add(made, h, i);
    }
    void add(const Made& made, int64_t h, int64_t i) {
        const double sink = made.problem.sinks ? made.problem.sinks[h] : -INFINITY;
        double most = sink, among_keys = sink - 80, total = 0;
        for (int64_t j = 0; j < n_k; j++) {
            raw.push_back(made.raw(h, i, j));
            score.push_back(made.score(h, i, j));
            most = std::fmax(most, score.back());
            among_keys = std::fmax(among_keys, score.back());
        }
        const double* own = score.data() + score.size() - size_t(n_k);
        if (sink > -INFINITY) total = std::exp(sink - most);
        for (int64_t j = 0; j < n_k; j++) total += own[j] == -INFINITY ? 0 : std::exp(own[j] - most);
        peak.push_back(among_keys);
        lse.push_back(total > 0 ? most + std::log(total) : -INFINITY);
        for (int64_t j = 0; j < n_k; j++) weight.push_back(own[j] == -INFINITY ? 0 : std::exp(own[j] - lse.back()));
    }
};

Case drawn() {
    const int64_t sizes[] = {1, 2, 3, 7, 15, 16, 17, 47, 49, 63, 64, 65, 100, 130, 400};
    const int64_t widths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64};
    const bool plain = below(3) == 0;
    auto some = [&] { return !plain && below(3) == 0; };
    if (below(3) == 0) {  // few queries, over keys that are cut into splits
        const int64_t many[] = {1, 31, 33, 64, 129, 1000, 1025, 2100, 3300}, wide[] = {1, 15, 16, 31, 32, 33, 64, 80, 130};
        return {1 + below(6), 1 + below(9), many[below(9)], wide[below(9)], wide[below(9)], DType(below(4)),
                some(), some(), some(), some(), below(2) == 0, some() ? 2.0 : 0.0, 1 + below(4)};
    }
    if (below(4) == 0) {  // widths of models, over several tiles: the exponentials of one are taken among the products of the next
        const int64_t keys[] = {95, 96, 97, 191, 192, 193, 200, 300, 400}, wide[] = {8, 64, 65, 128};
        return {1 + below(2), sizes[8 + below(7)], keys[below(9)], 64 * (1 + below(2)), wide[below(4)], DType(below(4)),
                some(), some(), some(), some(), below(2) == 0, some() ? 2.0 : 0.0};
    }
    return {1 + below(3), sizes[below(15)], sizes[below(14)], widths[below(15)], widths[below(15)], DType(below(4)),
            some(), some(), some(), some(), below(2) == 0, some() ? 2.0 : 0.0};
}

}  // namespace
