// SPDX-License-Identifier: Apache-2.0
// x86-64-v4: AVX-512.
#define QKV_ISA v4
#include "../apply.inl"
#include "../scan.inl"
#include "../transposed.inl"
#include "../window.inl"

namespace qkv {
namespace {
bool runs_here() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}
}  // namespace
const Kernel kV4{"v4", runs_here, "AVX-512 (F, BW, VL, DQ)", v4::apply, v4::scan,
                 v4::window, v4::apply_transposed, v4::merge};
}  // namespace qkv
