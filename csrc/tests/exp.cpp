// SPDX-License-Identifier: Apache-2.0
// The error of the kernels' exp over its whole range, in units in the last place of its result: every float that is not
// tiny, and four million doubles. Compiled once for each instruction set.
#define QKV_ISA measured
#include "../qkv/simd/exp.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace {

using qkv::measured::Lanes;
using qkv::measured::Vector;

constexpr float kLowest = -87.3f, kHighest = 80.0f;  // weights reach e^5; above that nothing is asked for
#if defined(__FMA__)
constexpr double kFloatUlps = 1.1, kDoubleUlps = 0.95;  // 1.059 and 0.876 were measured
#else
constexpr double kFloatUlps = 1.4, kDoubleUlps = 1.25;  // 1.362 and 1.158
#endif

template <class W, class Wide>
double ulps(W got, Wide exact) {
    int exponent;
    std::frexp(double(exact), &exponent);
    return std::fabs(double((Wide(got) - exact) / std::ldexp(Wide(1), exponent - (sizeof(W) == 4 ? 24 : 53))));
}

enum class Kind { exact, near };

// Of the coarser kind, ulps that are allowed: x / ln 2 is rounded, so that weights far below the peak are so much coarser.
constexpr double allowed(Kind kind, double x) { return kind == Kind::near ? 2 + 1.25 * x : 1; }

template <class W, class Wide, Kind kind = Kind::exact>
double worst_of(W x[], double worst, W& where) {
    constexpr int n = Lanes<W>::n;
    Vector<W> all;
    std::memcpy(&all, x, sizeof all);
    Vector<W> got[1] = {all};
    if constexpr (kind == Kind::exact) got[0] = qkv::measured::exp(all);
    if constexpr (kind == Kind::near) qkv::measured::exp_near(got);
    for (int i = 0; i < n; i++) {
        const double error = ulps<W, Wide>(got[0][i], std::exp(Wide(x[i]))) / allowed(kind, std::fabs(double(x[i])));
        if (!(error <= worst)) worst = error, where = x[i];
    }
    return worst;
}

float float_at(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

// Every `stride`-th float of [kLowest, kHighest] from 2^-26 on, each 1009th of the smaller ones: exp rounds to 1 there.
template <Kind kind = Kind::exact>
double floats(uint32_t stride, float& where) {
    constexpr uint32_t small = 101u << 23;  // 2^-26
    double worst = 0;
    float x[Lanes<float>::n];
    int filled = 0;
    for (uint32_t sign : {0x80000000u, 0u})
        for (uint32_t bits = 0; std::fabs(float_at(bits)) <= (sign ? -kLowest : kHighest); bits += bits < small ? 1009 : stride) {
            x[filled++] = float_at(sign | bits);
            if (filled < Lanes<float>::n) continue;
            worst = worst_of<float, double, kind>(x, worst, where);
            filled = 0;
        }
    return worst;
}

double doubles(double& where) {
    double worst = 0, x[Lanes<double>::n];
    for (int64_t n = 0; n < 4'000'000; n++) {
        x[n % Lanes<double>::n] = -708.0 + double(n) * (788.0 / 4e6) + double(n % 97) * 1e-9;
        if (n % Lanes<double>::n == Lanes<double>::n - 1) worst = worst_of<double, long double>(x, worst, where);
    }
    return worst;
}

template <class W>
bool ends_are_exact() {
    const W inf = W(INFINITY);
    const Vector<W> zero = qkv::measured::exp(qkv::measured::all(W(-inf))), one = qkv::measured::exp(Vector<W>{});
    const Vector<W> low = qkv::measured::exp(qkv::measured::all(W(-1e30)));
    return zero[0] == 0 && one[0] == 1 && low[0] == 0;
}

}  // namespace

int main(int count, char**) {
#if defined(__AVX512F__)
    if (!__builtin_cpu_supports("avx512f")) return std::puts("exp: this CPU lacks AVX-512"), 0;
#elif defined(__AVX2__)
    if (!__builtin_cpu_supports("avx2")) return std::puts("exp: this CPU lacks AVX2"), 0;
#endif
    float at = 0;
    double at_wide = 0;
    const double narrow = floats(count > 1 ? 101 : 1, at), wide = doubles(at_wide);  // with a word behind it: a sample
    std::printf("exp, %d bytes: float %.3f ulp at %.9g, double %.3f ulp at %.17g\n", qkv::measured::kVectorBytes, narrow,
                double(at), wide, at_wide);
    const double near = floats<Kind::near>(count > 1 ? 101 : 1, at);
    std::printf("exp_near: %.3f of 2 + 1.25 |x| ulp at %.9g\n", near, double(at));
    Vector<float> ends[1] = {Vector<float>{0, -INFINITY, -1e30f}};
    qkv::measured::exp_near(ends);
    if (!(near < 1 && ends[0][0] == 1 && ends[0][1] == 0 && ends[0][2] == 0)) return 1;
    return !(narrow < kFloatUlps && wide < kDoubleUlps && ends_are_exact<float>() && ends_are_exact<double>());
}
