// SPDX-License-Identifier: Apache-2.0
// exp of a vector of scores less their peak. x = n · ln 2 + r with n whole and |r| <= ln 2 / 2: a polynomial gives exp(r), and
// n is added to its exponent. ln 2 is subtracted in two parts, so that r is right to its last bits also where x is large.
// exp(0) is 1 and exp(-inf) is 0, exactly; below the smallest normal number it is 0.
#pragma once

#include "vector.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// Without signs, which may overflow: of numbers so far below 0 that exp is 0 what is added makes no sense.
QKV_INLINE Vector<uint32_t> as_bits(Vector<float> x) { return (Vector<uint32_t>)x; }
typedef uint64_t Bits64 __attribute__((vector_size(kVectorBytes)));
QKV_INLINE Bits64 as_bits(Vector<double> x) { return (Bits64)x; }

// float: degree 6, least maximum error on [-ln2/2, ln2/2] with the constant 1 held. Within 1.1 ulp, 1.4 without FMA;
// csrc/tests/exp.cpp measures it over every float.
QKV_INLINE Vector<float> exp(Vector<float> x) {
    const Vector<float> magic = all(12582912.0f);  // 1.5 · 2^23: adding it leaves the nearest whole number in the low bits
    const Vector<float> t = x * all(1.44269504f) + magic;
    const Vector<float> n = t - magic;
    const Vector<float> r = (x - n * all(0.693359375f)) - n * all(-2.12194440e-4f);
    Vector<float> p = all(0.0013843607f);
    p = p * r + all(0.008374196f);
    p = p * r + all(0.041668005f);
    p = p * r + all(0.1666643f);
    p = p * r + all(0.49999994f);
    p = p * r + all(1.0f);
    p = p * r + all(1.0f);
    const Vector<float> scaled = (Vector<float>)((as_bits(t) << 23) + as_bits(p));
    return select<float>(x < all(-87.3f), Vector<float>{}, scaled);
}

#if defined(__AVX512F__)
// The same with fewer multiplications, within 2 + 1.25 |x| ulp: x / ln 2 = n + i / 32 + r, and 2^(i / 32) is looked up. What
// adds, shifts and looks up does not take the units that multiply, which the kernels have too few of. In steps, so that
// other work can be put between them. NaN gives 0.
alignas(64) constexpr uint32_t kPowers[32] = {  // 2^(i / 32), its bits less i where `t` will add it
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};
struct ExpByTable {
    Vector<float> y, r, t, power;  // y: x in units of ln 2, but no less than what gives 0

    __attribute__((always_inline)) void begin(Vector<float> x) { y = larger(x * all(1.44269504f), all(-127.0f)); }
    __attribute__((always_inline)) void split() {
        const Vector<float> magic = all(393216.0f);  // 1.5 · 2^18: what is added to it leaves a multiple of 1/32
        t = y + magic;
        r = y - (t - magic);
    }
    __attribute__((always_inline)) void look_up() {
        const __m512i low = _mm512_load_si512(kPowers), high = _mm512_load_si512(kPowers + 16);
        power = (Vector<float>)((Vector<uint32_t>)_mm512_permutex2var_epi32(low, (__m512i)t, high) + (as_bits(t) << 18));
    }
    __attribute__((always_inline)) void raise() { r *= all(0.24022649f) * r + all(0.6931573f); }
    __attribute__((always_inline)) Vector<float> value() const { return power * r + power; }
};
#endif

// exp of scores less their peak, n vectors of them: step by step side by side, for each step waits for the one before. Where
// x is large it loses up to 7e-8 · |x|, as much as x has lost as a difference of rounded scores; near 0, which is where weights
// are large, it is within 2 ulp. Exact at 0 and -inf. What becomes of x is what a weight is multiplied with for the moment:
// finite, and in units of kNearUnit.
template <int n>
QKV_INLINE void exp_near(Vector<float> (&x)[n], Vector<float> (&weight)[n]) {
#if defined(__AVX512F__)
    ExpByTable e[n];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) e[i].begin(x[i]);
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) e[i].split();
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) e[i].look_up();
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) e[i].raise();
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) x[i] = e[i].y, weight[i] = e[i].value();
#elif defined(__FMA__)
    const Vector<float> magic = all(12582912.0f), unit = all(1.44269504f);
    for (int i = 0; i < n; i++) {
        const Vector<float> t = x[i] * unit + magic, r = x[i] * unit - (t - magic);
        Vector<float> p = all(0.00015353362f);  // 2^r, of degree 6
        p = p * r + all(0.0013398875f);
        p = p * r + all(0.009618437f);
        p = p * r + all(0.055503324f);
        p = p * r + all(0.24022648f);
        p = p * r + all(0.69314718f);
        p = p * r + all(1.0f);
        const Vector<float> value = (Vector<float>)((as_bits(t) << 23) + as_bits(p));
        weight[i] = select<float>(x[i] < all(-87.3f), Vector<float>{}, value);
        x[i] = larger(all(-2000.0f), x[i]);
    }
#else
    for (int i = 0; i < n; i++) {  // a product that is rounded before it is taken away would lose too much
        weight[i] = exp(x[i]);
        x[i] = larger(all(-2000.0f), x[i]);
    }
#endif
}
#if defined(__AVX512F__)
template <class W>
constexpr double kNearUnit = sizeof(W) == 4 ? 0.6931471805599453 : 1;
#else
template <class W>
constexpr double kNearUnit = 1;
#endif
QKV_INLINE Vector<double> exp(Vector<double> x);
template <int n>
QKV_INLINE void exp_near(Vector<double> (&x)[n], Vector<double> (&weight)[n]) {
    for (int i = 0; i < n; i++) {
        weight[i] = exp(x[i]);
        x[i] = larger(all(-2000.0), x[i]);
    }
}
template <class V, int n>
QKV_INLINE void exp_near(V (&x)[n]) {
    V weight[n];
    exp_near(x, weight);
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) x[i] = weight[i];
}

// double: the series 1 / k! to degree 13, whose rest on [-ln2/2, ln2/2] is below 5e-18.
QKV_INLINE Vector<double> exp(Vector<double> x) {
    constexpr double c[14] = {1.0,         1.0,          1.0 / 2,       1.0 / 6,        1.0 / 24,
                              1.0 / 120,   1.0 / 720,    1.0 / 5040,    1.0 / 40320,    1.0 / 362880,
                              1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    const Vector<double> magic = all(6755399441055744.0);  // 1.5 · 2^52
    const Vector<double> t = x * all(1.4426950408889634) + magic;
    const Vector<double> n = t - magic;
    const Vector<double> r = (x - n * all(6.93147180369123816490e-01)) - n * all(1.90821492927058770002e-10);
    Vector<double> p = all(c[13]);
#pragma GCC unroll 13
    for (int k = 12; k >= 0; k--) p = p * r + all(c[k]);
    const Vector<double> scaled = (Vector<double>)((as_bits(t) << 52) + as_bits(p));
    return select<double>(x < all(-708.0), Vector<double>{}, scaled);
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
