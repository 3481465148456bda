// SPDX-License-Identifier: Apache-2.0
// What the passes are templates over: an arithmetic says of which types the numbers of a product are.
#pragma once

#include "problem.h"
#include "simd/vector.h"
#if defined(__AVX512BF16__)
#include "simd/bfloat16.h"
#endif

namespace qkv {
namespace QKV_ISA {
namespace {

// Numbers of keys and values as they are multiplied, an element of the tile of queries (and of weights, which stand in its
// place in the second product), and what sums, scores and weights are computed in. float and double are their own
// arithmetic, in all three.
template <class A>
struct Arithmetic {
    typedef A Number, Query, Work;
    static constexpr DType dtype = sizeof(A) == 4 ? DType::f32 : DType::f64;  // of rows that are read where they lie
    static constexpr int kTerms = 1;  // numbers of an element: channels of a query, keys of a weight
};

// bfloat16 that is multiplied as it is, for builds that can: two numbers are an element. Scores, sums and exp are float;
// weights are rounded before they meet values, which are taken two keys at a time.
struct Bfloat16 {};
template <>
struct Arithmetic<Bfloat16> {
    typedef uint16_t Number;
    typedef uint32_t Query;
    typedef float Work;
    static constexpr DType dtype = DType::bf16;
    static constexpr int kTerms = 2;
};

template <class A>
using Number = typename Arithmetic<A>::Number;
template <class A>
using Query = typename Arithmetic<A>::Query;
template <class A>
using Work = typename Arithmetic<A>::Work;
template <class A>
constexpr int kTerms = Arithmetic<A>::kTerms;

QKV_INLINE int64_t up_to(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

QKV_INLINE Vector<float> spread(const float* from) { return all(*from); }
QKV_INLINE Vector<double> spread(const double* from) { return all(*from); }

QKV_INLINE Vector<float> multiply_add(Vector<float> sum, Vector<float> a, Vector<float> b) { return sum + a * b; }
QKV_INLINE Vector<double> multiply_add(Vector<double> sum, Vector<double> a, Vector<double> b) { return sum + a * b; }

QKV_INLINE bool is_odd(float x) { return x - x != 0; }
QKV_INLINE bool is_odd(double x) { return x - x != 0; }

QKV_INLINE float wide(float x) { return x; }
QKV_INLINE double wide(double x) { return x; }
QKV_INLINE float wide(uint16_t x) {
    const uint32_t bits = uint32_t(x) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// Runs a pass in the arithmetic of a problem: run(As<A>{}). All passes choose here, so that a score is the same in all.
template <class A>
struct As {
    typedef A type;
};
template <class Run>
void in_arithmetic(const Problem& problem, const Run& run) {
#if defined(__AVX512BF16__)
    // the instruction takes products below the smallest normal number for 0: no factor may make them large again
    const bool small = problem.factor < 0x1p60 && problem.factor > -0x1p60;
    // and under a softcap, an infinite score is a finite one: products are taken as float has them
    if (problem.q.dtype == DType::bf16 && small && !(problem.softcap > 0)) return run(As<Bfloat16>{});
#endif
    if (problem.q.dtype == DType::f64)
        run(As<double>{});
    else
        run(As<float>{});
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
