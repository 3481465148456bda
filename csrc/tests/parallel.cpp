// SPDX-License-Identifier: Apache-2.0
// Tasks that are stopped, that run out of memory, and calls from within a poll, by several callers at once on the pool of
// our own: what `make sanitize` looks at for data races and memory that is nobody's.
#include "../qkv/parallel.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

// Of memory that is not there the program is told, as the package is.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace {

using namespace qkv;

constexpr int kTasks = 24, kSteps = 50;
constexpr int64_t kBytes = 1 << 16;

// What one caller's tasks and polls saw.
struct Seen {
    int stop_at = 0;  // the poll that ends the work
    int64_t asks = kBytes;
    std::thread::id caller = std::this_thread::get_id();
    double last = 0;
    int polls = 0;
    std::atomic<int> whole{0};
    std::atomic<bool> wrong{false};
};

void fill_and_keep(void* context, int64_t task) {
    Seen& seen = *static_cast<Seen*>(context);
    char* own = static_cast<char*>(scratch(kBytes));
    for (int64_t n = 0; n < kBytes; n++) own[n] = char(task);
    for (int step = 0; step < kSteps; step++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (!go_on(double(step) / kSteps)) return;
    }
    for (int64_t n = 0; n < kBytes; n++)
        if (own[n] != char(task)) seen.wrong = true;
    if (task == kTasks - 1 && seen.asks > kBytes && !scratch(seen.asks)) return;
    seen.whole++;
}

void take_scratch(void* context, int64_t) {
    char* own = static_cast<char*>(scratch(2 * kBytes));
    own[0] = own[2 * kBytes - 1] = 1;
    ++*static_cast<int*>(context);
}

bool poll(void* context, double done) {
    Seen& seen = *static_cast<Seen*>(context);
    seen.polls++;
    if (std::this_thread::get_id() != seen.caller || done < seen.last || done > 1) seen.wrong = true;
    seen.last = done;
    int inner = 0;
    if (!run_tasks({3, nullptr, nullptr}, 5, take_scratch, &inner) || inner != 5) seen.wrong = true;
    return seen.polls != seen.stop_at;
}

// Whether a caller sees what is to be seen: of work that is done, stopped at the second poll, and without memory.
bool call(int threads) {
    Seen done, stopped, without;
    int64_t lacking = 0;
    stopped.stop_at = 2;
    without.asks = int64_t{1} << 60;
    bool right = run_tasks({threads, poll, &done, &lacking}, kTasks, fill_and_keep, &done);
    right &= done.whole == kTasks && done.polls > 1 && !done.wrong;
    right &= !run_tasks({threads, poll, &stopped, &lacking}, kTasks, fill_and_keep, &stopped);
    right &= stopped.whole < kTasks && stopped.polls == 2 && !stopped.wrong && lacking == 0;
    right &= !run_tasks({threads, poll, &without, &lacking}, kTasks, fill_and_keep, &without);
    return right && lacking == without.asks && !without.wrong;
}

}  // namespace

int main() {
    std::atomic<int> failed{0};
    for (int threads : {1, 3}) {
        if (!call(threads)) failed++;
        std::vector<std::thread> callers;
        for (int n = 0; n < 4; n++) callers.emplace_back([&] { failed += !call(threads); });
        for (std::thread& each : callers) each.join();
    }
    std::printf("%s\n", failed ? "a call did not end as it was to" : "stopped, out of memory, within a poll: as it is to be");
    return failed != 0;
}
