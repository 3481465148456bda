// SPDX-License-Identifier: Apache-2.0
// What one build of the kernels offers. There is one build for each instruction set, from the same source.
#pragma once

#include "parallel.h"
#include "problem.h"
#include "scan.h"

namespace qkv {

struct Kernel {
    const char* name;
    bool (*runs_here)();    // whether this CPU has the instructions
    const char* needs;      // the instructions in words, for the reason why it cannot run

    // out (n_heads, rows, width of v), C order, in the work dtype: A @ v. v and out may be null: the rows alone.
    // Whether every number of out is finite.
    bool (*apply)(const Problem&, const Rows* v, void* out, const RowResults&, const Parallel&);

    // Everything that a Scan asks for, in one walk over the weights.
    void (*scan)(const Problem&, const RowSums&, const Scan&, const Parallel&);

    // out (n_heads, rows, keys), C order, in the work dtype: the cells of a rectangle. The sums are of the weights alone.
    void (*window)(const Problem&, const RowSums&, Stage, Span keys, void* out, const Parallel&);

    // out (n_heads, n_k, width of x), C order, in the work dtype: A.T @ x. x has the rows of the problem.
    void (*apply_transposed)(const Problem&, const RowSums&, const Rows& x, void* out, const Parallel&);

    // out (rows, width) and lse (rows) of the whole, in the work dtype: attention over all keys from that over parts.
    void (*merge)(const Parts&, void* out, void* lse, const Parallel&);
};

extern const Kernel kBaseline;
#if defined(__x86_64__)
extern const Kernel kV3;
extern const Kernel kV4;
extern const Kernel kV4Bf16;
#endif

}  // namespace qkv
