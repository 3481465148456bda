// SPDX-License-Identifier: Apache-2.0
// Threads come from the OpenMP runtime that is already in the process, where there is one: its workers spin for
// milliseconds after a region, and a second pool beside them would fight for the same cores. Else, and in a forked child
// always, from a small pool of our own: an inherited OpenMP runtime hangs on threads that were not forked.

#include "parallel.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "libraries.h"

namespace qkv {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPollEvery = std::chrono::milliseconds(50);
constexpr auto kNap = std::chrono::microseconds(100);

std::atomic<int> chosen_threads{0};
std::atomic<bool> forked{false};

struct Scratch {
    void* memory = nullptr;
    int64_t size = 0;
    ~Scratch() { std::free(memory); }
};
thread_local Scratch mine;

// One call: its tasks are taken from a counter by whoever is free.
struct Call {
    const Parallel& how;
    int64_t n;
    void (*task)(void*, int64_t);
    void* context;
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int64_t> next{0}, finished{0}, lacking{0};
    std::atomic<bool> stopped{false};
    Clock::time_point began = Clock::now(), polled = began;

    bool on_caller() const { return std::this_thread::get_id() == caller; }
    bool go_on(double of_this_task);
    void work();
    void wait_for_others();
    void lacks(int64_t bytes) {
        lacking.store(bytes);
        stopped.store(true);
    }
};

thread_local Call* current = nullptr;  // the call that this thread works for

bool Call::go_on(double of_this_task) {
    if (stopped.load(std::memory_order_relaxed)) return false;
    if (!how.poll || !on_caller()) return true;
    const auto now = Clock::now();
    if (now - polled < kPollEvery) return true;
    polled = now;
    if (how.poll(how.poll_context, (double(finished.load()) + of_this_task) / double(n))) return true;
    stopped.store(true);
    return false;
}

void Call::work() {
    Call* const outer = std::exchange(current, this);
    for (int64_t i; go_on(0) && (i = next.fetch_add(1)) < n;) {
        task(context, i);
        finished.fetch_add(1);
    }
    if (on_caller()) wait_for_others();
    current = outer;
}

// Without a task left, the calling thread still polls while others have one; in a call so short that it was never polled,
// they are done before a nap is over.
void Call::wait_for_others() {
    if (finished.load() == n || Clock::now() - began < kPollEvery) return;
    while (finished.load() < n && go_on(0)) std::this_thread::sleep_for(kNap);
}

class Pool {
  public:
    void run(Call& call, int threads) {
        std::unique_lock<std::mutex> one(busy_, std::try_to_lock);
        if (!one.owns_lock()) return call.work();  // another Python thread has the workers: this one works alone
        {
            std::lock_guard<std::mutex> lock(mutex_);
            start_workers(threads - 1);
            call_ = &call;
            wanted_ = threads - 1 < workers_ ? threads - 1 : workers_;
        }
        wake_.notify_all();
        call.work();
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_ = 0;
        idle_.wait(lock, [this] { return working_ == 0; });
        call_ = nullptr;
    }

  private:
    void start_workers(int wanted) {
        try {
            for (; workers_ < wanted; workers_++) std::thread([this] { loop(); }).detach();
        } catch (const std::system_error&) {  // there is no memory for another thread: those that are there do the work
        }
    }
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

Region openmp() { return forked.load() ? nullptr : libraries().region; }

int cpu_count() {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
}

// As the other libraries do, it is read once, at the start.
const int said_outside = [] {
    const char* text = std::getenv("OMP_NUM_THREADS");
    return text ? std::atoi(text) : 0;
}();

// A call from within a poll: its thread is in a task of another call, whose scratch memory stays as it is.
void work_within(Call& call) {
    Scratch own;
    std::swap(own.memory, mine.memory);
    std::swap(own.size, mine.size);
    call.work();
    std::swap(own.memory, mine.memory);
    std::swap(own.size, mine.size);
}

}  // namespace

bool run_tasks(const Parallel& how, int64_t n, void (*task)(void*, int64_t), void* context) {
    Call call{how, n, task, context};
    const int threads = int(how.threads < n ? how.threads : n);
    if (current) {
        work_within(call);
    } else if (threads <= 1) {
        call.work();
    } else if (Region region = openmp()) {
        region([](void* c) { static_cast<Call*>(c)->work(); }, &call, unsigned(threads), 0);
    } else {
        own_pool().run(call, threads);
    }
    if (how.lacking && call.lacking.load()) *how.lacking = call.lacking.load();
    return call.finished.load() == n && !call.stopped.load();
}

bool go_on(double done) { return !current || current->go_on(done); }

void* scratch(int64_t bytes) {
    if (mine.size < bytes) {
        std::free(mine.memory);
        const int64_t whole = (bytes + 4095) / 4096 * 4096;
        mine.memory = std::aligned_alloc(4096, size_t(whole));
        mine.size = mine.memory ? whole : 0;
        if (!mine.memory && current) current->lacks(bytes);
    }
    return mine.memory;
}

int64_t scratch_held() { return mine.size; }

void leave_openmp() { forked.store(true); }

void set_threads(int n) { chosen_threads.store(n); }

// A library that counts fewer threads than the environment allows was told so by somebody: by threadpoolctl, by
// torch.set_num_threads, in a worker of a DataLoader. An OpenMP of more is what torch.set_num_threads asks for.
int thread_count() {
    const int chosen = chosen_threads.load();
    if (chosen == 1) return 1;
    const int said = said_outside, cpus = said == 1 ? 1 : cpu_count(), usual = said > 0 ? said : cpus;
    const Libraries others = libraries();
    const int theirs = others.openmp ? others.openmp() : others.openblas ? others.openblas() : 0;
    const bool limited = theirs > 0 && theirs < (usual < cpus ? usual : cpus);
    if (chosen) return limited && theirs < chosen ? theirs : chosen;
    return limited || (others.openmp && theirs > 0) ? theirs : usual;
}

const char* thread_source() { return openmp() ? "OpenMP of the process" : "own pool"; }

}  // namespace qkv
