// SPDX-License-Identifier: Apache-2.0
// Numbers of any dtype as the work dtype. Byte by byte safe: a caller's array may start at an odd address.
#pragma once

#include "../problem.h"
#include "vector.h"

namespace qkv {
namespace QKV_ISA {
namespace {

template <class T>
QKV_INLINE T read(const char* from) {
    T x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
}

QKV_INLINE float from_bits(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

// float16 by bits: the exponent is rebased by a product, which is exact and takes subnormal numbers along.
QKV_INLINE float widen_f16(uint16_t half) {
    const uint32_t sign = uint32_t(half & 0x8000) << 16, rest = uint32_t(half & 0x7fff) << 13;
    const float magnitude = from_bits(rest) * from_bits(0x77800000);  // 2^112
    const bool special = (half & 0x7c00) == 0x7c00;                   // inf and NaN keep their largest exponent
    uint32_t bits;
    __builtin_memcpy(&bits, &magnitude, sizeof bits);
    return from_bits(sign | (special ? (rest | 0x7f800000) : bits));
}

template <class W>
QKV_INLINE W widen(const char* from, DType dtype) {
    switch (dtype) {
        case DType::f16: return W(widen_f16(read<uint16_t>(from)));
        case DType::bf16: return W(from_bits(uint32_t(read<uint16_t>(from)) << 16));
        case DType::f32: return W(read<float>(from));
        default: return W(read<double>(from));
    }
}

// Numbers of 16 bits in the caller's memory.
struct StoredF16 {
    uint16_t bits;
};
struct StoredBf16 {
    uint16_t bits;
};

// Numbers side by side, at any address, as `count` vectors of the work dtype; channel(slot) is where among them the number
// in that slot of the vectors lies. A vector of bfloat16 holds the even ones in its first vector and the odd ones in the
// second, for that takes one instruction for each; `line` is the least that is read at once.
template <class W, class From>
struct Widened;
template <class W>
struct Widened<W, W> {
    static constexpr int count = 1, line = Lanes<W>::n;
    static constexpr int channel(int slot) { return slot; }
    static __attribute__((always_inline)) void load(const char* from, Vector<W>* to) { __builtin_memcpy(to, from, kVectorBytes); }
};
template <>
struct Widened<float, StoredBf16> {
    static constexpr int count = 2, line = 2 * Lanes<float>::n;
    static constexpr int channel(int slot) { return slot % Lanes<float>::n * 2 + slot / Lanes<float>::n; }
    static __attribute__((always_inline)) void load(const char* from, Vector<float>* to) {
        typedef uint32_t Pairs __attribute__((vector_size(kVectorBytes)));
        Pairs pairs;
        __builtin_memcpy(&pairs, from, kVectorBytes);
        to[0] = (Vector<float>)(pairs << 16);
        to[1] = (Vector<float>)(pairs & 0xffff0000);
    }
};
template <>
struct Widened<float, StoredF16> {
    static constexpr int count = 1, line = Lanes<float>::n;
    static constexpr int channel(int slot) { return slot; }
    static __attribute__((always_inline)) void load(const char* from, Vector<float>* to) {
#if defined(__AVX512F__)
        *to = (Vector<float>)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
        *to = (Vector<float>)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
        typedef uint32_t Bits __attribute__((vector_size(kVectorBytes)));
        typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
        Halves halves;
        __builtin_memcpy(&halves, from, sizeof halves);
        const Bits bits = __builtin_convertvector(halves, Bits), rest = (bits & 0x7fff) << 13;  // as widen_f16
        const Bits magnitude = (Bits)((Vector<float>)rest * all(5.192296858534828e33f));        // 2^112
        *to = (Vector<float>)((bits & 0x8000) << 16 | ((bits & 0x7c00) == 0x7c00 ? rest | 0x7f800000 : magnitude));
#endif
    }
};

// n rows of `width` channels into a C-ordered scratch of row length `length`, zeros behind the channels. bfloat16 that is
// multiplied as it is is not widened.
template <class W>
void gather(const Rows& rows, int64_t head, int64_t start, int64_t n, int64_t length, W* __restrict to) {
    const char* from = rows.data + rows.at[head] + start * rows.row;
    for (int64_t i = 0; i < n; i++, from += rows.row, to += length) {
        if constexpr (sizeof(W) == 2) {
            if (rows.column == 2)
                __builtin_memcpy(to, from, 2 * uint64_t(rows.width));
            else
                for (int64_t c = 0; c < rows.width; c++) to[c] = read<W>(from + c * rows.column);
        } else switch (rows.dtype) {  // outside the loop over channels, so that each of them is a plain loop
            case DType::f16:
                for (int64_t c = 0; c < rows.width; c++) to[c] = widen<W>(from + c * rows.column, DType::f16);
                break;
            case DType::bf16:
                for (int64_t c = 0; c < rows.width; c++) to[c] = widen<W>(from + c * rows.column, DType::bf16);
                break;
            case DType::f32:
                for (int64_t c = 0; c < rows.width; c++) to[c] = widen<W>(from + c * rows.column, DType::f32);
                break;
            default:
                for (int64_t c = 0; c < rows.width; c++) to[c] = widen<W>(from + c * rows.column, DType::f64);
        }
        for (int64_t c = rows.width; c < length; c++) to[c] = 0;
    }
}

// The same as they are, `size` bytes a number, zeros behind the channels.
QKV_INLINE void copy_rows(const Rows& rows, int64_t head, int64_t start, int64_t n, int64_t length, int64_t size, char* to) {
    const char* from = rows.data + rows.at[head] + start * rows.row;
    for (int64_t i = 0; i < n; i++, from += rows.row, to += length * size) {
        if (rows.column == size)
            __builtin_memcpy(to, from, uint64_t(rows.width * size));
        else
            for (int64_t c = 0; c < rows.width; c++) __builtin_memcpy(to + c * size, from + c * rows.column, uint64_t(size));
        __builtin_memset(to + rows.width * size, 0, uint64_t((length - rows.width) * size));
    }
}

QKV_INLINE int64_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : dtype == DType::f32 ? 4 : 2; }

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
