// SPDX-License-Identifier: Apache-2.0
// Which build of the kernels runs: the best that this CPU can, or the one that is asked for by name.
#pragma once

#include "kernel.h"

namespace qkv {

constexpr int kMaxKernels = 8;

// Every build that is compiled in, best first. Returns how many.
int kernels(const Kernel* into[kMaxKernels]);

const Kernel* find_kernel(const char* name);  // null where there is none of that name
const Kernel& best_kernel();

}  // namespace qkv
