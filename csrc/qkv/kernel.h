// SPDX-License-Identifier: Apache-2.0
// What one build of the kernels offers. There is one build for each instruction set, from the same source.
#pragma once

#include "parallel.h"
#include "problem.h"

namespace qkv {

struct Kernel {
    const char* name;
    bool (*runs_here)();    // whether this CPU has the instructions
    const char* needs;      // the instructions in words, for the reason why it cannot run

    // out (n_heads, rows, width of v), C order, in the work dtype: A @ v. v and out may be null: the rows alone.
    // Whether every number of out is finite.
    bool (*apply)(const Problem&, const Rows* v, void* out, const RowResults&, const Parallel&);
};

extern const Kernel kBaseline;
#if defined(__x86_64__)
extern const Kernel kV3;
extern const Kernel kV4;
extern const Kernel kV4Bf16;
#endif

}  // namespace qkv
