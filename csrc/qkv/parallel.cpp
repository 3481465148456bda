// SPDX-License-Identifier: Apache-2.0
// Threads come from the OpenMP runtime that is already in the process, where there is one: its workers spin for
// milliseconds after a region, and a second pool beside them would fight for the same cores. Else, and in a forked child
// always, from a small pool of our own: an inherited OpenMP runtime hangs on threads that were not forked.

#include "parallel.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace qkv {
namespace {

using Region = void (*)(void (*)(void*), void*, unsigned, unsigned);  // GOMP_parallel

std::atomic<int> chosen_threads{0};
std::atomic<bool> forked{false};

// One call: its tasks are taken from a counter by whoever is free.
struct Call {
    const Parallel& how;
    int64_t n;
    void (*task)(void*, int64_t);
    void* context;
    std::thread::id caller;
    std::atomic<int64_t> next{0};
    std::atomic<bool> stopped{false};
    std::chrono::steady_clock::time_point polled = std::chrono::steady_clock::now();

    bool go_on() {
        if (stopped.load(std::memory_order_relaxed)) return false;
        if (!how.poll || std::this_thread::get_id() != caller) return true;
        const auto now = std::chrono::steady_clock::now();
        if (now - polled < std::chrono::milliseconds(50)) return true;
        polled = now;
        const int64_t begun = next.load(std::memory_order_relaxed);
        if (how.poll(how.poll_context, begun < n ? begun : n, n)) return true;
        stopped.store(true);
        return false;
    }
    void work();
};

thread_local Call* current = nullptr;  // the call whose task this thread is in

void Call::work() {
    Call* const outer = current;
    current = this;
    for (int64_t i; go_on() && (i = next.fetch_add(1)) < n;) task(context, i);
    current = outer;
}

class Pool {
  public:
    void run(Call& call, int threads) {
        std::unique_lock<std::mutex> one(busy_, std::try_to_lock);
        if (!one.owns_lock()) return call.work();  // another Python thread has the workers: this one works alone
        {
            std::lock_guard<std::mutex> lock(mutex_);
            for (; workers_ < threads - 1; workers_++) std::thread([this] { loop(); }).detach();
            call_ = &call;
            wanted_ = threads - 1;
        }
        wake_.notify_all();
        call.work();
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_ = 0;
        idle_.wait(lock, [this] { return working_ == 0; });
        call_ = nullptr;
    }

  private:
    void loop() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return wanted_ > 0; });
            wanted_--;
            working_++;
            Call* call = call_;
            lock.unlock();
            call->work();
            lock.lock();
            if (--working_ == 0) idle_.notify_all();
        }
    }

    std::mutex busy_, mutex_;
    std::condition_variable wake_, idle_;
    Call* call_ = nullptr;
    int workers_ = 0, wanted_ = 0, working_ = 0;
};

// Never destroyed: its workers may outlive the static destructors. A forked child starts a new one.
std::atomic<Pool*> pool{nullptr};

Pool& own_pool() {
    Pool* now = pool.load();
    if (!now) {
        Pool* fresh = new Pool;
        if (pool.compare_exchange_strong(now, fresh)) return *fresh;
        delete fresh;
    }
    return *now;
}

void in_the_child() {
    forked.store(true);
    pool.store(nullptr);
}

// From the moment this library is loaded.
const int watches_forks = pthread_atfork(nullptr, nullptr, in_the_child);

int find_gomp(dl_phdr_info* info, size_t, void* found) {
    const char* name = std::strrchr(info->dlpi_name, '/');
    if (!name || std::strncmp(name, "/libgomp", 8) != 0) return 0;
    void* library = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    if (library) *static_cast<Region*>(found) = reinterpret_cast<Region>(dlsym(library, "GOMP_parallel"));
    return library != nullptr;
}

// Asked again until there is one: torch may be imported after us.
Region openmp() {
    static std::atomic<Region> known{nullptr};
    Region region = known.load();
    if (!region && !forked.load()) {
        dl_iterate_phdr(find_gomp, &region);
        known.store(region);
    }
    return forked.load() ? nullptr : region;
}

}  // namespace

void run_tasks(const Parallel& how, int64_t n, void (*task)(void*, int64_t), void* context) {
    Call call{how, n, task, context, std::this_thread::get_id()};
    const int threads = int(how.threads < n ? how.threads : n);
    if (threads <= 1) return call.work();
    if (Region region = openmp()) {
        region([](void* c) { static_cast<Call*>(c)->work(); }, &call, unsigned(threads), 0);
    } else {
        own_pool().run(call, threads);
    }
}

bool go_on() { return !current || current->go_on(); }

namespace {
struct Scratch {
    void* memory = nullptr;
    int64_t size = 0;
    ~Scratch() { std::free(memory); }
};
thread_local Scratch mine;
}  // namespace

void* scratch(int64_t bytes) {
    if (mine.size < bytes) {
        std::free(mine.memory);
        mine.size = (bytes + 4095) / 4096 * 4096;
        mine.memory = std::aligned_alloc(4096, size_t(mine.size));
    }
    return mine.memory;
}

void leave_openmp() { forked.store(true); }

void set_threads(int n) { chosen_threads.store(n); }

int thread_count() {
    if (const int n = chosen_threads.load()) return n;
    if (const char* text = std::getenv("OMP_NUM_THREADS")) {
        const int n = std::atoi(text);
        if (n > 0) return n;
    }
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

const char* thread_source() { return openmp() ? "OpenMP of the process" : "own pool"; }

}  // namespace qkv
