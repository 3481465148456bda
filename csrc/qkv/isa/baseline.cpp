// SPDX-License-Identifier: Apache-2.0
// The build that runs on any CPU of the architecture.
#define QKV_ISA baseline
#include "../apply.inl"
#include "../scan.inl"
#include "../transposed.inl"
#include "../window.inl"

namespace qkv {
namespace {
bool always() { return true; }
}  // namespace
const Kernel kBaseline{"baseline", always, "what every CPU of its architecture has", baseline::apply, baseline::scan,
                 baseline::window, baseline::apply_transposed, baseline::merge};
}  // namespace qkv
