// SPDX-License-Identifier: Apache-2.0
// Tasks over threads, without a C++ runtime in the interface: the kernels' builds see two function pointers.
#pragma once

#include <cstdint>

namespace qkv {

// How a call is to run, and why it ended early, where it did.
struct Parallel {
    int threads;
    bool (*poll)(void* context, double done);
    void* poll_context;
    int64_t* lacking = nullptr;  // set to the bytes of scratch memory that a thread asked for and did not get
};

// Runs task(context, i) for 0 <= i < n, in any order, on at most `threads` threads. `poll`, where there is one, is called
// about every 50 ms on the calling thread with the share of the work that is done, and ends the work by returning false.
// Within a poll run_tasks may be called again: that call is alone on its thread. Returns whether all tasks were done.
bool run_tasks(const Parallel&, int64_t n, void (*task)(void* context, int64_t i), void* context);

// Asked by a long task every few milliseconds: whether it is to go on. `done`: the share of the task that is done.
bool go_on(double done);

// Scratch memory of this thread, at least `bytes`, aligned to a page; the same at each call, freed with the thread. Null
// where memory has run out: the call is ending then, and the task returns.
void* scratch(int64_t bytes);
int64_t scratch_held();  // the bytes that this thread holds of it

// How many threads a call may use. set_threads, else OMP_NUM_THREADS, else the CPUs this process may run on; but no more
// than the OpenMP of the process, or where there is none NumPy's OpenBLAS, was limited to while the process ran.
int thread_count();
void set_threads(int n);  // 0 goes back to the default

// For a process that was forked before this library was loaded: never use the OpenMP runtime that it inherited.
void leave_openmp();

// Where the threads come from: "OpenMP of the process" or "own pool".
const char* thread_source();

}  // namespace qkv
