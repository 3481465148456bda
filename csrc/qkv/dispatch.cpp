// SPDX-License-Identifier: Apache-2.0
#include "dispatch.h"

#include <cstring>

namespace qkv {

int kernels(const Kernel* into[kMaxKernels]) {
    int n = 0;
#if defined(__x86_64__)
    into[n++] = &kV4Bf16;
    into[n++] = &kV4;
    into[n++] = &kV3;
#endif
    into[n++] = &kBaseline;
    return n;
}

const Kernel* find_kernel(const char* name) {
    const Kernel* all[kMaxKernels];
    for (int n = kernels(all), i = 0; i < n; i++)
        if (std::strcmp(all[i]->name, name) == 0) return all[i];
    return nullptr;
}

const Kernel& best_kernel() {
    const Kernel* all[kMaxKernels];
    for (int n = kernels(all), i = 0; i < n; i++)
        if (all[i]->runs_here()) return *all[i];
    return kBaseline;
}

}  // namespace qkv
