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

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
