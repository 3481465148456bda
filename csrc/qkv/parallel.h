// SPDX-License-Identifier: Apache-2.0
// Tasks over threads, without a C++ runtime in the interface: the kernels' builds see two function pointers.
#pragma once

#include <cstdint>

namespace qkv {

// Runs task(context, i) for 0 <= i < n, in any order, on at most `threads` threads; `poll`, where there is one, is called
// now and then on the calling thread with the tasks that are begun, of all, and ends the work early by returning false.
struct Parallel {
    int threads;
    bool (*poll)(void* context, int64_t done, int64_t all);
    void* poll_context;
};

void run_tasks(const Parallel&, int64_t n, void (*task)(void* context, int64_t i), void* context);

// Asked by a long task now and then: whether it is to go on. False once poll has ended the work.
bool go_on();

// Scratch memory of this thread, at least `bytes`, aligned to a cache line; the same at each call, freed with the thread.
void* scratch(int64_t bytes);

// How many threads a call may use: set_threads, else OMP_NUM_THREADS, else the CPUs this process may run on.
int thread_count();
void set_threads(int n);  // 0 goes back to the default

// For a process that was forked before this library was loaded: never use the OpenMP runtime that it inherited.
void leave_openmp();

// Where the threads come from: "OpenMP of the process", "own pool", or "one thread".
const char* thread_source();

}  // namespace qkv
