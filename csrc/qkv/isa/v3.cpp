// SPDX-License-Identifier: Apache-2.0
// x86-64-v3: AVX2 and FMA.
#define QKV_ISA v3
#include "../apply.inl"
#include "../scan.inl"
#include "../transposed.inl"
#include "../window.inl"

namespace qkv {
namespace {
bool runs_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
}  // namespace
const Kernel kV3{"v3", runs_here, "AVX2, FMA and F16C", v3::apply, v3::scan,
                 v3::window, v3::apply_transposed, v3::merge};
}  // namespace qkv
