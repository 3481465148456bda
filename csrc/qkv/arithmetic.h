// SPDX-License-Identifier: Apache-2.0
// What the passes are templates over: an arithmetic says of which types the numbers of a product are.
#pragma once

#include "problem.h"
#include "simd/vector.h"

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
};
template <class A>
using Number = typename Arithmetic<A>::Number;
template <class A>
using Query = typename Arithmetic<A>::Query;
template <class A>
using Work = typename Arithmetic<A>::Work;

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
