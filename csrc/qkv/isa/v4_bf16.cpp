// SPDX-License-Identifier: Apache-2.0
// x86-64-v4 with AVX512-BF16: AVX-512, and the product of pairs of bfloat16 numbers.
#define QKV_ISA v4_bf16
#include "../apply.inl"
#include "../scan.inl"
#include "../transposed.inl"
#include "../window.inl"

namespace qkv {
namespace {
bool runs_here() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16");
}
}  // namespace
const Kernel kV4Bf16{"v4_bf16", runs_here, "AVX-512 (F, BW, VL, DQ, BF16)", v4_bf16::apply,
                     v4_bf16::scan, v4_bf16::window, v4_bf16::apply_transposed, v4_bf16::merge};
}  // namespace qkv
