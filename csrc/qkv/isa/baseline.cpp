// SPDX-License-Identifier: Apache-2.0
// The build that runs on any CPU of the architecture.
#define QKV_ISA baseline
#include "../apply.inl"

namespace qkv {
namespace {
bool always() { return true; }
}  // namespace
const Kernel kBaseline{"baseline", always, "what every CPU of its architecture has", baseline::apply};
}  // namespace qkv
