// SPDX-License-Identifier: Apache-2.0
// One vocabulary of vector operations over the compilers' vector extensions. How wide a vector is follows from the
// flags of the build. Everything is in a namespace named after the instruction set: the linker may merge inline
// functions of the same name, and must not put one build's code into another.
#pragma once

#include <cstdint>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#define QKV_INLINE static inline __attribute__((always_inline))

namespace qkv {
namespace QKV_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kKeysAtOnce = 8;  // 8 keys × 3 vectors of queries: 24 sums, 3 queries and 1 key in 32 registers
constexpr int kFewSums = 16;    // sums at once for few queries
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
constexpr int kKeysAtOnce = 4;  // 4 × 3: 12 sums, 3 queries and 1 key in 16 registers
constexpr int kFewSums = 8;
#else
constexpr int kVectorBytes = 16;
constexpr int kKeysAtOnce = 4;
constexpr int kFewSums = 8;
#endif
constexpr int kGroups = 3;  // vectors of queries at once

template <class T>
struct Lanes;
template <>
struct Lanes<float> {
    typedef float Vector __attribute__((vector_size(kVectorBytes)));
    typedef float Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
    typedef int32_t Mask __attribute__((vector_size(kVectorBytes)));
    typedef int32_t Whole;  // as wide as a lane
    static constexpr int n = kVectorBytes / 4;
};
template <>
struct Lanes<double> {
    typedef double Vector __attribute__((vector_size(kVectorBytes)));
    typedef double Unaligned __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
    typedef int64_t Mask __attribute__((vector_size(kVectorBytes)));
    typedef int64_t Whole;
    static constexpr int n = kVectorBytes / 8;
};
template <>
struct Lanes<uint32_t> {
    typedef uint32_t Vector __attribute__((vector_size(kVectorBytes)));
    // pairs of bfloat16 numbers are read so too, from any of them on
    typedef uint32_t Unaligned __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));
    static constexpr int n = kVectorBytes / 4;
};
template <class T>
using Vector = typename Lanes<T>::Vector;
template <class T>
using Mask = typename Lanes<T>::Mask;
template <class T>
using Whole = typename Lanes<T>::Whole;

// 0, 1, … n − 1 as template arguments; the C++ library has it too, but its inline functions may be merged (see above).
template <int... I>
struct Index {};
template <int n, int... I>
struct Indices : Indices<n - 1, n - 1, I...> {};
template <int... I>
struct Indices<0, I...> {
    typedef Index<I...> type;
};

template <class T>
QKV_INLINE Vector<T> load(const T* from) {
    return *reinterpret_cast<const typename Lanes<T>::Unaligned*>(from);
}
template <class T>
QKV_INLINE void store(T* to, Vector<T> x) {
    *reinterpret_cast<typename Lanes<T>::Unaligned*>(to) = x;
}
// Whole numbers beside the lanes of T, in aligned memory.
template <class T>
QKV_INLINE Mask<T> load_whole(const Whole<T>* from) {
    Mask<T> x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
}
template <class T>
QKV_INLINE void store_whole(Whole<T>* to, Mask<T> x) {
    __builtin_memcpy(to, &x, sizeof x);
}
template <class T>
QKV_INLINE Vector<T> all(T x) {
    return x - Vector<T>{};
}
template <class T>
QKV_INLINE Vector<T> select(Mask<T> where, Vector<T> yes, Vector<T> no) {
    return where ? yes : no;
}

// The larger of two; b where one of them is NaN. GCC makes a compare and a blend of `a > b ? a : b`.
QKV_INLINE Vector<float> larger(Vector<float> a, Vector<float> b) {
#if defined(__AVX512F__)
    return (Vector<float>)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (Vector<float>)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}
QKV_INLINE Vector<double> larger(Vector<double> a, Vector<double> b) {
#if defined(__AVX512F__)
    return (Vector<double>)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX__)
    return (Vector<double>)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    return a > b ? a : b;
#endif
}

// In-register transpose of as many vectors as a vector has lanes: halves are exchanged at distance S, S/2, … 1.
template <class T, int S, int... I>
QKV_INLINE void exchange(Vector<T>& x, Vector<T>& y, Index<I...>) {
    constexpr int n = Lanes<T>::n;
    const Vector<T> a = x, b = y;
    x = __builtin_shufflevector(a, b, ((I & S) ? n + (I ^ S) : I)...);
    y = __builtin_shufflevector(a, b, ((I & S) ? n + I : (I ^ S))...);
}
template <class T, int S>
QKV_INLINE void transpose_from(Vector<T>* rows) {
    if constexpr (S > 0) {
#pragma GCC unroll 16
        for (int i = 0; i < Lanes<T>::n; i++)
            if (!(i & S)) exchange<T, S>(rows[i], rows[i + S], typename Indices<Lanes<T>::n>::type{});
        transpose_from<T, S / 2>(rows);
    }
}
template <class T>
QKV_INLINE void transpose(Vector<T>* rows) {
    transpose_from<T, Lanes<T>::n / 2>(rows);
}

// Of as many vectors as a vector has lanes: lane i is the sum of the lanes of vector i. Halves are exchanged as in a
// transpose, and added at once.
template <class T, int S>
QKV_INLINE void sum_from(Vector<T>* rows) {
    if constexpr (S > 0) {
#pragma GCC unroll 8
        for (int i = 0; i < S; i++) {
            exchange<T, S>(rows[i], rows[i + S], typename Indices<Lanes<T>::n>::type{});
            rows[i] += rows[i + S];
        }
        sum_from<T, S / 2>(rows);
    }
}
template <class T>
QKV_INLINE Vector<T> sum_lanes(Vector<T>* rows) {
    sum_from<T, Lanes<T>::n / 2>(rows);
    return rows[0];
}

// The sum, and the largest, of the lanes of one vector: halves are laid onto each other.
template <class T, int S, int... I>
QKV_INLINE Vector<T> turned(Vector<T> x, Index<I...>) {
    return __builtin_shufflevector(x, x, (I ^ S)...);
}
template <class T, int S>
QKV_INLINE Vector<T> sum_halves(Vector<T> x) {
    if constexpr (S > 0) x = sum_halves<T, S / 2>(x + turned<T, S>(x, typename Indices<Lanes<T>::n>::type{}));
    return x;
}
template <class T>
QKV_INLINE T sum_of_lanes(Vector<T> x) {
    return sum_halves<T, Lanes<T>::n / 2>(x)[0];
}
template <class T, int S>
QKV_INLINE Vector<T> largest_of_halves(Vector<T> x) {
    if constexpr (S > 0) x = largest_of_halves<T, S / 2>(larger(x, turned<T, S>(x, typename Indices<Lanes<T>::n>::type{})));
    return x;
}
template <class T>
QKV_INLINE T largest_lane(Vector<T> x) {
    return largest_of_halves<T, Lanes<T>::n / 2>(x)[0];
}

// R vectors of R runs of lanes each: run r of vector i becomes run i of vector r.
template <class T, int R, int S>
QKV_INLINE void regroup_from(Vector<T>* rows) {
    constexpr int n = Lanes<T>::n;
    if constexpr (S >= n / R) {
#pragma GCC unroll 4
        for (int i = 0; i < R; i++)
            if (!(i & (S * R / n))) exchange<T, S>(rows[i], rows[i + S * R / n], typename Indices<n>::type{});
        regroup_from<T, R, S / 2>(rows);
    }
}
template <class T, int R>
QKV_INLINE void regroup(Vector<T>* rows) {
    if constexpr (R > 1) regroup_from<T, R, Lanes<T>::n / 2>(rows);
}

template <class M>
QKV_INLINE bool any(M mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    for (unsigned i = 0; i < sizeof(M) / sizeof(mask[0]); i++)
        if (mask[i]) return true;
    return false;
#endif
}

// A bit for each lane whose mask is set, lane 0 lowest; and for each lane in which a > b, which AVX-512 has in a step.
QKV_INLINE uint32_t lane_bits(Mask<float> mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask);
#elif defined(__AVX__)
    return uint32_t(_mm256_movemask_ps((__m256)mask));
#else
    uint32_t bits = 0;
    for (int i = 0; i < Lanes<float>::n; i++) bits |= uint32_t(mask[i] != 0) << i;
    return bits;
#endif
}
QKV_INLINE uint32_t lane_bits(Mask<double> mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask);
#elif defined(__AVX__)
    return uint32_t(_mm256_movemask_pd((__m256d)mask));
#else
    uint32_t bits = 0;
    for (int i = 0; i < Lanes<double>::n; i++) bits |= uint32_t(mask[i] != 0) << i;
    return bits;
#endif
}
QKV_INLINE uint32_t bits_above(Vector<float> a, Vector<float> b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#else
    return lane_bits(a > b);
#endif
}
QKV_INLINE uint32_t bits_above(Vector<double> a, Vector<double> b) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
#else
    return lane_bits(a > b);
#endif
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
