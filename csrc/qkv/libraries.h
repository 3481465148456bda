// SPDX-License-Identifier: Apache-2.0
// What other libraries of this process have to do with threads, asked of them while it runs: nothing is linked.
#pragma once

namespace qkv {

using Region = void (*)(void (*task)(void*), void* context, unsigned threads, unsigned flags);  // GOMP_parallel

struct Libraries {
    Region region;      // of GNU's OpenMP, null where there is none
    int (*openmp)();    // how many threads that OpenMP would use on this thread, or null
    int (*openblas)();  // the same of the first OpenBLAS, which is NumPy's, or null
};

// As things are now: torch may be imported after us. Costs little where nothing was loaded since the last time.
Libraries libraries();

}  // namespace qkv
