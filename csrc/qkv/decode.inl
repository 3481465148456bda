// SPDX-License-Identifier: Apache-2.0
// A @ v of few queries, as a model asks for it that generates a token at a time. Keys are cut into splits, so that there is
// work for every thread, by their number alone: what a row gets depends neither on threads nor on other heads. A task is a
// split of the keys that a group of heads shares; who ends a group's last task merges its splits in order.

#include <stdlib.h>

#include "few.h"
#include "kernel.h"
#include "merge.h"
#include "softmax.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int64_t kFewQueries = 8;       // of a head; of more the usual way fills its lanes, and takes as long at 12 to 16
constexpr int64_t kFewRows = 32;         // rows of a task: queries of all heads of its group
constexpr int64_t kSplits = 8;          // at most so many, of at least so many keys
constexpr int64_t kSplitKeys = 1024;
constexpr int64_t kPartBytes = 2 << 20;  // what splits that wait to be merged may take
constexpr int64_t kGroupsAtOnce = 1 << 14;
constexpr int64_t kFewPatience = 1 << 13;  // keys between two looks at whether the call is to end early

template <class W>
struct Decode {
    const Problem& problem;
    W* out;
    bool* finite;  // whether all of out is, so far
    FewReader<W> k, v;
    int keys = kLeastKeys;          // of a block
    int64_t chunk = 0, splits = 0;  // keys of a split
    int64_t* groups = nullptr;      // the first head of each group of this round, and the one behind its last
    int* done = nullptr;            // splits of a group that are computed
    W *peak = nullptr, *total = nullptr, *sums = nullptr;  // of each row of the round and split
    int64_t part(int64_t head, int64_t i, int64_t split) const {
        return ((head - groups[0]) * problem.rows.size() + i - problem.rows.begin) * splits + split;
    }
};

// A row over one split.
template <class W>
struct FewRow {
    int64_t head, i;
    int64_t first, last;  // the keys that it sees
    W peak;
    Vector<W> total;
    bool odd;
};

// The rows of a task and its scratch.
template <class W>
struct FewSpace {
    int rows;
    int64_t first, last;          // keys that one of the rows sees
    int64_t first_max, last_min;  // keys that all of them see
    FewRow<W> row[kFewRows];
    W *q, *sums, *weights;  // [rows][loads of channels], the same, [2 blocks][rows][kFewKeys]
    char *keys, *values;   // [kFewKeys][channels], where they are copied

    bool take(const Decode<W>& call) {
        const int64_t k = call.k.channels.size(), v = call.v.channels.size();
        for (Arena arena{nullptr};; arena = Arena{static_cast<char*>(scratch(arena.used))}) {
            q = arena.take<W>(kFewRows * k);
            sums = arena.take<W>(kFewRows * v);
            weights = arena.take<W>(2 * kFewRows * kFewKeys);
            keys = arena.take<char>(kFewKeys * call.k.channels.length * call.k.size);
            values = arena.take<char>(kFewKeys * call.v.channels.length * call.v.size);
            if (arena.base || !scratch(arena.used)) return arena.base;
        }
    }
};

template <class W>
void take_row(const Decode<W>& call, int64_t head, int64_t i, FewRow<W>& row, W* q, char* room) {
    const Problem& p = call.problem;
    const Channels& channels = call.k.channels;
    const int64_t at = p.first ? p.span_at[head] + i : 0;
    row = {head, i, p.first ? p.first[at] : 0, p.first ? p.last[at] : p.n_k, W(-__builtin_inf()), Vector<W>{}, false};
    copy_rows(p.q, head, i, 1, channels.length, call.k.size, room);
    for (int64_t c = 0; c < channels.loads; c++, q += channels.line) {
        call.k.widen(room + channels.at(c) * call.k.size, q);
        for (int slot = 0; slot < channels.line; slot++) {
            const bool twice = channels.at(c) + call.k.channel(slot) < c * channels.line;
            q[slot] = twice ? W(0) : q[slot] * W(p.factor);
        }
    }
}

// What a row sees of a block of `keys`, a <= j < b of n: softcap, biases and masks come in, −inf where it does not see.
// Returns whether it misses any of the n.
template <class W>
bool hide_few(const Problem& p, FewRow<W>& row, int64_t j0, int a, int b, int n, int keys, W* scores) {
    const W hidden = W(-__builtin_inf());
    const bool cells = p.mask.data || p.bias.data || p.by_distance;
    bool misses = a > 0 || b < n;
    for (int j = 0; j < keys; j++) {
        const W more = j < a || j >= b ? hidden : cells ? added<W>(p, row.head, row.i, j0 + j) : W(0);
        if (more == hidden) {
            misses |= j < n;
            scores[j] = hidden;
            continue;
        }
        const W score = p.softcap > 0 ? W(p.softcap * __builtin_tanh(double(scores[j]) / p.softcap)) : scores[j];
        scores[j] = score + more;
        row.odd |= is_odd(scores[j]);
    }
    return misses;
}

// Scores of a row become weights exp(score − peak), −1 where it does not see. What is not finite in a block that it sees as
// a whole makes the total NaN. `sums`: those of the row, which a larger peak makes smaller.
template <class W, bool kWhole>
QKV_INLINE void soften_few(FewRow<W>& row, int keys, W* scores, W* sums, int64_t size) {
    constexpr int VL = Lanes<W>::n;
    const W lowest = W(-__builtin_inf());
    Mask<W> above{};
    for (int j = 0; j < keys; j += VL) above |= load(scores + j) > all(row.peak + W(kLazy));
    if (any(above)) {
        Vector<W> top = all(lowest);
        for (int j = 0; j < keys; j += VL) top = larger(top, load(scores + j));
        const W old = row.peak;
        row.peak = largest_lane<W>(top);
        const Vector<W> keep = all(old == lowest ? W(0) : exp(all(old - row.peak))[0]);
        row.total *= keep;
        for (int64_t c = 0; c < size; c += VL) store(sums + c, load(sums + c) * keep);
    }
    const Vector<W> shift = all(row.peak == lowest ? W(0) : row.peak);
    Vector<W> sum{};
    for (int j = 0; j < keys; j += VL) {
        const Vector<W> score = load(scores + j);
        Vector<W> weight[1] = {score - shift};
        exp_near(weight);
        sum += kWhole ? weight[0] + (score - score) : weight[0];
        store(scores + j, kWhole ? weight[0] : select<W>(score == all(lowest), all(W(-1)), weight[0]));
    }
    row.total += sum;
}

// A block of keys, and what its rows make of it.
template <class W>
struct FewBlock {
    int64_t j0;
    int n, from, to;        // keys; those that a row sees are among from <= j < to
    bool whole;             // as many as a block can have, which every row sees, and nothing is done to their scores
    bool misses[kFewRows];  // else: whether a row misses any of the n
    W* weights;             // scores, until they are weights: [rows][kFewKeys]
};

template <class W>
void weigh_few(const Decode<W>& call, FewSpace<W>& space, FewBlock<W>& block) {
    const int64_t size = call.v.channels.size();
    for (int r = 0; r < space.rows; r++) {
        FewRow<W>& row = space.row[r];
        W *scores = block.weights + r * kFewKeys, *sums = space.sums + r * size;
        if (block.whole) {
            soften_few<W, true>(row, call.keys, scores, sums, size);
            continue;
        }
        const int64_t first = row.first - block.j0, last = row.last - block.j0;
        const int a = int(first < 0 ? 0 : first > block.n ? block.n : first);
        const int b = int(last < a ? a : last > block.n ? block.n : last);
        block.misses[r] = hide_few(call.problem, row, block.j0, a, b, block.n, call.keys, scores);
        soften_few<W, false>(row, call.keys, scores, sums, size);
    }
}

// Of the rows from r on, as many as `kind` says (see FewReader): the scores of a block. The first rows fetch for all.
template <class W>
QKV_INLINE void score_few_rows(const Decode<W>& call, FewSpace<W>& space, const Lines& k, FewBlock<W>& block, int r, int kind) {
    const Lines lines{k.data + block.from * k.row, k.row, block.to - block.from, r == 0 ? k.ahead : 0};
    const W* q = space.q + r * call.k.channels.size();
    call.k.score[kind](lines, call.k.channels, q, block.weights + r * kFewKeys + block.from);
}

// The values of a block, with its weights, onto the sums of `count` rows from r on.
template <class W>
QKV_INLINE void add_few_rows(const Decode<W>& call, FewSpace<W>& space, const Lines& v, const FewBlock<W>& block, int r,
                             int count, int kind) {
    const Lines lines{v.data, v.row, v.n, r == 0 ? v.ahead : 0};
    const int64_t size = call.v.channels.size();
    const W* weights = block.weights + r * kFewKeys;
    W* sums = space.sums + r * size;
    bool misses = false;
    for (int i = r; i < r + count && !block.whole; i++) misses |= block.misses[i];
    if (!misses) return call.v.add[kind](lines, call.v.channels, weights, sums);
    for (int i = 0; i < count; i++) call.v.add_seen(lines, call.v.channels, weights + i * kFewKeys, sums + i * size);
}

// All rows over a split; false where the call is to end early. Values of a block are added beside the scores of the next
// one, so that both are read side by side: memory waits neither for one of them to end nor for exponentials.
template <class W>
bool walk_split(const Decode<W>& call, FewSpace<W>& space, int64_t split) {
    const int64_t begins = split * call.chunk, ends = begins + call.chunk, n_k = call.problem.n_k;
    const int64_t first = begins > space.first ? begins : space.first / call.keys * call.keys;
    const int64_t end = ends < space.last ? ends : space.last, head = space.row[0].head;
    const Problem& p = call.problem;
    const bool changed = p.mask.data || p.bias.data || p.by_distance || p.softcap > 0;
    FewBlock<W> blocks[2];
    blocks[0].weights = space.weights;
    blocks[1].weights = space.weights + kFewRows * kFewKeys;
    for (int64_t j0 = first;; j0 += call.keys) {
        const int odd = int(j0 / call.keys % 2);
        FewBlock<W>&block = blocks[odd], &before = blocks[1 - odd];
        const bool scores = j0 < end, adds = j0 > first;
        Lines k{}, v{};
        if (scores) {
            if (j0 % kFewPatience == 0 && !go_on(double(j0 - first) / double(end - first))) return false;
            block.j0 = j0;
            block.n = int(n_k - j0 < call.keys ? n_k - j0 : call.keys);
            block.from = int(space.first > j0 ? space.first - j0 : 0);
            block.to = int(space.last - j0 < block.n ? space.last - j0 : block.n);
            block.whole = block.n == call.keys && j0 >= space.first_max && j0 + block.n <= space.last_min && !changed;
            k = call.k.read(head, j0, block.n, space.rows, space.keys);
        }
        if (adds) v = call.v.read(head, before.j0, before.n, space.rows, space.values);
        constexpr int R = kTogether<W>, H = R < 4 ? 1 : 2;
        for (int r = 0, count; r < space.rows; r += count) {
            const int kind = r + R <= space.rows ? 2 : r + H <= space.rows ? 1 : 0;
            count = kind == 2 ? R : kind == 1 ? H : 1;
            if (scores) score_few_rows(call, space, k, block, r, kind);
            if (adds) add_few_rows(call, space, v, before, r, count, kind);
        }
        if (!scores) return true;
        weigh_few(call, space, block);
    }
}

// The whole of one row, from its splits.
template <class W>
void give_few(const Decode<W>& call, int64_t head, int64_t i, W* into) {
    const Problem& p = call.problem;
    const Channels& channels = call.v.channels;
    const W lowest = W(-__builtin_inf()), sink = p.sinks ? W(p.sinks[head]) : lowest;
    const int64_t at = call.part(head, i, 0);
    const auto sums = [&](int64_t split) { return call.sums + (at + split) * channels.size(); };
    const Divisor<W> whole = merge_parts<W, false>(call.splits, call.peak + at, call.total + at, sums, channels.size(),
                                                   Divisor<W>{sink, W(sink > lowest ? 1 : 0)}, into);
    W* out = call.out + (head * p.rows.size() + i - p.rows.begin) * channels.width;
    const W divisor = whole.total == 0 ? W(1) : whole.total;
    bool odd = false;
    for (int64_t c = 0; c < channels.loads; c++)
        for (int slot = 0; slot < channels.line; slot++) {
            const int64_t channel = channels.at(c) + call.v.channel(slot);
            if (channel >= channels.width) continue;
            out[channel] = into[c * channels.line + slot] / divisor;
            odd |= is_odd(out[channel]);
        }
    if (odd) __atomic_store_n(call.finite, false, __ATOMIC_RELAXED);
}

template <class W>
void decode_task(void* context, int64_t task) {
    const Decode<W>& call = *static_cast<const Decode<W>*>(context);
    const Problem& p = call.problem;
    const int64_t group = task / call.splits, split = task % call.splits, v_size = call.v.channels.size();
    FewSpace<W> space;
    if (!space.take(call)) return;
    space.rows = 0;
    space.first = p.n_k;
    space.last = space.first_max = 0;
    space.last_min = p.n_k;
    for (int64_t head = call.groups[group]; head < call.groups[group + 1]; head++)
        for (int64_t i = p.rows.begin; i < p.rows.end; i++, space.rows++) {
            FewRow<W>& row = space.row[space.rows];
            take_row(call, head, i, row, space.q + space.rows * call.k.channels.size(), space.keys);
            space.first_max = row.first > space.first_max ? row.first : space.first_max;
            space.last_min = row.last < space.last_min ? row.last : space.last_min;
            if (row.first >= row.last) continue;
            space.first = row.first < space.first ? row.first : space.first;
            space.last = row.last > space.last ? row.last : space.last;
        }
    for (int64_t n = 0; n < space.rows * v_size; n++) space.sums[n] = 0;
    if (!walk_split(call, space, split)) return;
    for (int r = 0; r < space.rows; r++) {
        const FewRow<W>& row = space.row[r];
        const int64_t at = call.part(row.head, row.i, split);
        call.total[at] = sum_of_lanes<W>(row.total);
        call.peak[at] = row.odd || is_odd(call.total[at]) ? W(__builtin_nan("")) : row.peak;
        __builtin_memcpy(call.sums + at * v_size, space.sums + r * v_size, sizeof(W) * uint64_t(v_size));
    }
    if (__atomic_add_fetch(call.done + group, 1, __ATOMIC_ACQ_REL) < call.splits) return;
    for (int r = 0; r < space.rows; r++) give_few(call, space.row[r].head, space.row[r].i, space.sums);
}

// The memory of what the tasks of a round give and share, for as long as a call lasts.
struct Splits {
    int64_t* lacking;  // see Parallel
    void* memory = nullptr;
    ~Splits() { free(memory); }

    template <class W>
    bool take(Decode<W>& call, int64_t heads) {
        for (Arena arena{nullptr};; arena = Arena{static_cast<char*>(memory)}) {
            const int64_t parts = heads * call.problem.rows.size() * call.splits;
            call.groups = arena.take<int64_t>(heads + 1);
            call.done = arena.take<int>(heads);
            call.peak = arena.take<W>(parts);
            call.total = arena.take<W>(parts);
            call.sums = arena.take<W>(parts * call.v.channels.size());
            if (arena.base) return true;
            memory = aligned_alloc(64, size_t(arena.used));
            if (memory) continue;
            if (lacking) *lacking = arena.used;
            return false;
        }
    }
};

// Some heads of a call, as many as there is memory for: how much of the call is done when a share of them is.
struct Round {
    const Parallel& call;
    double begins, share;

    Parallel parallel() const {
        Parallel how = call;
        if (call.poll) how.poll = [](void* round, double done) { return static_cast<const Round*>(round)->poll(done); };
        how.poll_context = const_cast<Round*>(this);
        return how;
    }
    bool poll(double done) const { return call.poll(call.poll_context, begins + share * done); }
};

template <class W>
bool decode_in(const Problem& p, const Rows& v, W* out, const Parallel& parallel) {
    bool finite = true;
    Decode<W> call{p, out, &finite, FewReader<W>::of(p.k), FewReader<W>::of(v)};
    const int64_t share = (p.n_k + kSplits - 1) / kSplits, rows = p.rows.size();
    while (call.keys < kFewKeys && call.keys * 2 * p.k.width * call.k.size <= kBlockBytes) call.keys *= 2;
    call.chunk = up_to(share > kSplitKeys ? share : kSplitKeys, kFewKeys);
    call.splits = p.n_k ? (p.n_k + call.chunk - 1) / call.chunk : 1;
    const int64_t bytes = rows * call.splits * (call.v.channels.size() + 2) * int64_t(sizeof(W));
    int64_t heads = kPartBytes / bytes;
    heads = heads < 1 ? 1 : heads > kGroupsAtOnce ? kGroupsAtOnce : heads > p.n_heads ? p.n_heads : heads;
    Splits memory{parallel.lacking};
    if (!memory.take(call, heads)) return finite;
    const int64_t most = kFewRows / rows;
    for (int64_t head = 0; head < p.n_heads;) {
        const int64_t end = head + heads < p.n_heads ? head + heads : p.n_heads;
        int64_t n = 0;
        for (int64_t first = head; head < end; first = head) {
            call.groups[n] = first;
            call.done[n++] = 0;
            while (head < end && head < first + most && p.k.at[head] == p.k.at[first] && v.at[head] == v.at[first]) head++;
        }
        call.groups[n] = head;
        const double all = double(p.n_heads);
        const Round round{parallel, double(call.groups[0]) / all, double(head - call.groups[0]) / all};
        if (!run_tasks(round.parallel(), n * call.splits, decode_task<W>, &call)) break;
    }
    return finite;
}

// Whether a Problem is decoded; by its kind alone, so that a map has the same bits whatever part of it is computed.
bool decodes(const Problem& p, const Rows* v) {
    return v && v->width > 0 && p.n_q <= kFewQueries && p.k.dtype == p.q.dtype && v->dtype == p.q.dtype;
}

// A @ v, and whether all of it is finite.
bool decode(const Problem& p, const Rows& v, void* out, const Parallel& parallel) {
    if (p.n_heads == 0 || p.rows.size() == 0) return true;
    if (p.q.dtype == DType::f64) return decode_in<double>(p, v, static_cast<double*>(out), parallel);
    return decode_in<float>(p, v, static_cast<float*>(out), parallel);
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
