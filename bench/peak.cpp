// SPDX-License-Identifier: Apache-2.0
// What one core can do at most: multiply-adds on registers, as wide as the build says, and reading, with nothing else.
#define QKV_ISA native
#include "../csrc/qkv/simd/vector.h"

using qkv::native::Lanes;
using qkv::native::Mask;
using qkv::native::Vector;

constexpr int kChains = 12;  // of sums that do not wait for each other; with two factors they fit 16 registers

extern "C" int flops_per_step() { return 2 * kChains * Lanes<float>::n; }

extern "C" float multiply_add(int64_t steps, float factor, float term) {
    const Vector<float> a = qkv::native::all(factor), b = qkv::native::all(term);
    Vector<float> sum[kChains];
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) sum[i] = qkv::native::all(float(i));
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; i++) sum[i] = sum[i] * a + b;
    }
    for (int i = 1; i < kChains; i++) sum[0] += sum[i];
    return sum[0][0];
}

// Products of pairs of bfloat16, added to float32: two multiply-adds a lane. 0 where the build has no such instruction.
#if defined(__AVX512BF16__)
extern "C" int flops_per_dot_step() { return 4 * kChains * Lanes<float>::n; }

extern "C" float dot_bfloat16(int64_t steps, int pair, int other) {
    const __m512bh a = (__m512bh)_mm512_set1_epi32(pair), b = (__m512bh)_mm512_set1_epi32(other);
    __m512 sum[kChains];
#pragma GCC unroll 12
    for (int i = 0; i < kChains; i++) sum[i] = _mm512_set1_ps(float(i));
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 12
        for (int i = 0; i < kChains; i++) sum[i] = _mm512_dpbf16_ps(sum[i], a, b);
    }
    for (int i = 1; i < kChains; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_cvtss_f32(sum[0]);
}
#else
extern "C" int flops_per_dot_step() { return 0; }
extern "C" float dot_bfloat16(int64_t, int, int) { return 0; }
#endif

// Every byte once, from several places at once; a tail shorter than a step is left. Integers: no number is slow to add.
template <int places>
static int read_from(const float* from, int64_t count) {
    constexpr int n = Lanes<float>::n, kTogether = 8 / places;
    const int64_t part = count / places;
    Mask<float> sum[8] = {};
    for (int64_t at = 0; at + n * kTogether <= part; at += n * kTogether)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            sum[i] ^= (Mask<float>)qkv::native::load(from + (i / kTogether) * part + at + (i % kTogether) * n);
    for (int i = 1; i < 8; i++) sum[0] ^= sum[i];
    int all = 0;
    for (int i = 0; i < n; i++) all ^= sum[0][i];
    return all;
}

extern "C" int read_in_order(const float* from, int64_t count) { return read_from<1>(from, count); }
extern "C" int read_four_places(const float* from, int64_t count) { return read_from<4>(from, count); }
