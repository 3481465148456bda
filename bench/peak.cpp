// SPDX-License-Identifier: Apache-2.0
// What one core can do at most: multiply-adds on registers, as wide as the build says, nothing read from memory.
#define QKV_ISA native
#include "../csrc/qkv/simd/vector.h"

using qkv::native::Lanes;
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
