// SPDX-License-Identifier: Apache-2.0
// Pairs of bfloat16 numbers, one in each 32 bits of a vector, and the instruction that multiplies them: vdpbf16ps adds two
// products to a float. It takes subnormal numbers for 0, and gives 0 for them.
#pragma once

#include "vector.h"

namespace qkv {
namespace QKV_ISA {
namespace {

QKV_INLINE Vector<float> multiply_add(Vector<float> sum, Vector<uint32_t> a, Vector<uint32_t> b) {
    return (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

// A number and the one behind it, in every lane.
QKV_INLINE Vector<uint32_t> spread(const uint16_t* from) {
    uint32_t pair;
    __builtin_memcpy(&pair, from, sizeof pair);
    return (Vector<uint32_t>)_mm512_set1_epi32(int(pair));
}

// Two floats a lane, rounded to nearest.
QKV_INLINE Vector<uint32_t> as_pairs(Vector<float> first, Vector<float> second) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                           20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    return (Vector<uint32_t>)_mm512_permutexvar_epi16(order, rounded);
}

// The sum of a pair.
QKV_INLINE Vector<float> add_pairs(Vector<float> sum, Vector<uint32_t> pairs) {
    return multiply_add(sum, pairs, Vector<uint32_t>{} + 0x3f803f80u);
}

constexpr uint16_t kInfinite = 0x7f80, kLeast = 27 << 7;  // 2^-100

// NaN, infinite, or so small that a product with a weight, or what is left of a sum of them, may be lost.
QKV_INLINE bool is_odd(uint16_t x) {
    const uint16_t magnitude = x & 0x7fff;
    return magnitude >= kInfinite || (magnitude != 0 && magnitude < kLeast);
}

// Two rows side by side, `width` numbers, a multiple of the lanes: of each column a pair. Returns whether any is odd.
QKV_INLINE bool interleave(const uint16_t* first, const uint16_t* second, int64_t width, uint16_t* __restrict to) {
    __m512i worst = _mm512_setzero_si512();
    for (int64_t c = 0; c < width; c += Lanes<uint32_t>::n) {
        const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + c)));
        const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(second + c)));
        const __m512i both = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
        const __m512i magnitude = _mm512_and_si512(both, _mm512_set1_epi16(0x7fff));
        // what is below kLeast wraps and is above as well
        const __m512i above = _mm512_maskz_sub_epi16(_mm512_test_epi16_mask(magnitude, magnitude), magnitude,
                                                     _mm512_set1_epi16(kLeast));
        worst = _mm512_max_epu16(worst, above);
        _mm512_storeu_si512(to + 2 * c, both);
    }
    return _mm512_cmpge_epu16_mask(worst, _mm512_set1_epi16(kInfinite - kLeast)) != 0;
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
