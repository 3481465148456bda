// SPDX-License-Identifier: Apache-2.0
// A @ v, with lse and entropy in the same pass. A task is a few blocks of queries of one head: they pass over the keys
// together, so that keys and values are read, and widened where they are not in the work dtype, once for all of them.

#include "cells.h"
#include "kernel.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kBlocks = 8;                 // blocks of queries of a task: 384 queries in float32
constexpr int64_t kScratch = 3 << 20;      // bytes of one thread that the blocks may take

// Whether rows can be read where they lie: of the work dtype, channels side by side, each number at a multiple of its size.
template <class W>
bool reads_directly(const Rows& rows, int64_t n_heads) {
    const int64_t size = sizeof(W);
    const DType own = size == 4 ? DType::f32 : DType::f64;
    bool aligned = rows.row % size == 0 && reinterpret_cast<uintptr_t>(rows.data) % size == 0;
    for (int64_t head = 0; head < n_heads; head++) aligned &= rows.at[head] % size == 0;
    return rows.dtype == own && rows.column == size && aligned;
}

template <class W>
struct Apply {
    const Problem& problem;
    const Results& results;
    bool k_direct, v_direct;
    int64_t q_width, v_width;  // up to a multiple of the lanes, for whole vectors are transposed, and of kKeysAtOnce
    int64_t blocks;            // of queries, a head
    int together;              // of them in a task
    int64_t tasks;             // a head
};

// The scratch of a task, cut into its arrays.
template <class W>
struct Space {
    W *scores, *extra, *side, *rows, *k, *tail, *v, *clean, *blocks;
};

template <class W>
int64_t lay_out(const Apply<W>& call, Space<W>* space) {
    constexpr int64_t lanes = kGroups * Lanes<W>::n;
    const int64_t tile = (kKeyBlock + kKeysAtOnce) * lanes, k = call.problem.k.width, v = call.v_width;
    int64_t used = 0;
    W* base = space->scores;
    auto take = [&](W** to, int64_t n) {
        *to = base + used;
        used += (n + 15) / 16 * 16;
    };
    take(&space->scores, tile);
    take(&space->extra, tile);
    take(&space->side, tile);
    take(&space->rows, lanes * call.q_width);
    take(&space->k, (kKeyBlock + kKeysAtOnce) * k);
    take(&space->tail, kKeysAtOnce * k);
    take(&space->v, kKeyBlock * v);
    take(&space->clean, kKeyBlock * v);
    take(&space->blocks, call.together * (call.q_width + v) * lanes);
    return used * int64_t(sizeof(W));
}

// The rows of q that a block holds, times factor, as [channel][lanes].
template <class W>
void take_queries(const Apply<W>& call, int64_t head, W* rows, Block<W>& block) {
    constexpr int VL = Lanes<W>::n;
    const int lanes = block.groups * VL;
    gather(call.problem.q, head, block.row0, block.rows, call.q_width, rows);
    for (int64_t n = block.rows * call.q_width; n < lanes * call.q_width; n++) rows[n] = 0;
    const Vector<W> factor = all(W(call.problem.factor));
    for (int g = 0; g < block.groups; g++)
        for (int64_t c = 0; c < call.q_width; c += VL) {
            Vector<W> part[VL];
            for (int i = 0; i < VL; i++) part[i] = load(rows + (g * VL + i) * call.q_width + c) * factor;
            transpose<W>(part);
            for (int i = 0; i < VL; i++) store(block.q + (c + i) * lanes + g * VL, part[i]);
        }
}

// The keys that each lane sees; lanes behind the last query do as the first.
template <class W>
void take_spans(const Problem& p, int64_t head, Block<W>& block) {
    for (int lane = 0; lane < block.groups * Lanes<W>::n; lane++) {
        const int64_t at = p.first ? p.span_at[head] + block.row0 + (lane < block.rows ? lane : 0) : 0;
        const int64_t first = p.first ? p.first[at] : 0, last = p.first ? p.last[at] : p.n_k;
        block.first[lane] = first;
        block.last[lane] = last;
        block.first_min = lane == 0 || first < block.first_min ? first : block.first_min;
        block.first_max = lane == 0 || first > block.first_max ? first : block.first_max;
        block.last_min = lane == 0 || last < block.last_min ? last : block.last_min;
        block.last_max = lane == 0 || last > block.last_max ? last : block.last_max;
    }
}

template <class W>
void begin(const Apply<W>& call, int64_t head, int64_t index, W* memory, W* rows, Block<W>& block) {
    constexpr int VL = Lanes<W>::n;
    const Problem& p = call.problem;
    // vectors of queries are shared out evenly: 196 queries are blocks of 3, 3, 3, 2 and 2 vectors, not 3, 3, 3, 3 and 1
    const int64_t vectors = (p.n_q + VL - 1) / VL, base = vectors / call.blocks, more = vectors % call.blocks;
    block.groups = int(base + (index < more));
    block.row0 = (index * base + (index < more ? index : more)) * VL;
    const int lanes = block.groups * VL;
    block.rows = int(p.n_q - block.row0 < lanes ? p.n_q - block.row0 : lanes);
    block.q = memory;
    block.out = memory + call.q_width * lanes;
    take_queries(call, head, rows, block);
    take_spans(p, head, block);
    for (int64_t n = 0; n < call.v_width * lanes; n++) block.out[n] = 0;
    const W sink = p.sinks ? W(p.sinks[head]) : W(-__builtin_inf());
    for (int g = 0; g < block.groups; g++) {
        block.peak[g] = all(sink);
        block.total[g] = all(W(sink > W(-__builtin_inf()) ? 1 : 0));
        block.moment[g] = Vector<W>{};
        block.odd[g] = Mask<W>{};
    }
}

// Whether a value of these keys is NaN or infinite.
template <class W>
bool has_odd_values(const W* v, int64_t v_row, const Part& part, int64_t width) {
    W sum = 0;  // x − x is 0, or NaN
    for (int j = part.a; j < part.b; j++) {
        W row = 0;
        const W* from = v + j * v_row;
        int64_t c = 0;
        Vector<W> whole{};
        for (; c + Lanes<W>::n <= width; c += Lanes<W>::n) whole += load(from + c) - load(from + c);
        for (int i = 0; i < Lanes<W>::n; i++) row += whole[i];
        for (; c < width; c++) row += from[c] - from[c];
        sum += row;
    }
    return sum != 0;
}

// Values that are NaN or infinite where somebody may not see them: their product is taken with zeros in their place, and
// they are added by hand for the lanes that see them.
template <class W>
void clean_values(const W* v, int64_t v_row, const Part& part, int64_t width, W* clean) {
    for (int j = part.a; j < part.b; j++)
        for (int64_t c = 0; c < width; c++) {
            const W x = v[j * v_row + c];
            clean[j * width + c] = x - x == 0 ? x : W(0);
        }
}

template <class W, int G>
void add_odd_values(const Block<W>& block, const W* v, int64_t v_row, const Part& part, int64_t width, const W* side,
                    const W* weight) {
    constexpr int lanes = G * Lanes<W>::n;
    for (int j = part.a; j < part.b; j++)
        for (int64_t c = 0; c < width; c++) {
            const W x = v[j * v_row + c];
            if (x - x == 0) continue;
            for (int lane = 0; lane < lanes; lane++)
                if (side[j * lanes + lane] > W(-__builtin_inf())) block.out[c * lanes + lane] += x * weight[j * lanes + lane];
        }
}

// One block over one tile of keys.
template <class W, int G, bool kMoment>
__attribute__((noinline)) void step(const Apply<W>& call, int64_t head, Block<W>& block, int64_t j0, int n, const W* k,
                                    int64_t k_row, const W* v, int64_t v_row, Space<W>& space) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    const Problem& p = call.problem;
    Part part = part_of(block, j0, n);
    if (part.a >= part.b) return;
    Vector<W> largest[G], keep[G], unused[G];
    Mask<W> odd[G];
    for (int g = 0; g < G; g++) {
        largest[g] = unused[g] = all(W(-__builtin_inf()));
        odd[g] = Mask<W>{};
    }
    const int start = part.a;
    for (int j = start; j < part.b; j += kKeysAtOnce) {
        const bool whole = j + kKeysAtOnce <= part.b;
        const W* from = k + j * k_row;
        int64_t row = k_row;
        if (j + kKeysAtOnce > n) {  // the last keys of all: nothing may be read behind them
            for (int r = 0; r < kKeysAtOnce; r++)
                for (int64_t c = 0; c < p.k.width; c++)
                    space.tail[r * p.k.width + c] = j + r < n ? from[r * k_row + c] : W(0);
            from = space.tail;
            row = p.k.width;
        }
        Mask<W> ignored[G] = {};
        multiply_keys<W, G>(from, row, block.q, p.k.width, space.scores + j * lanes, whole ? largest : unused,
                            whole ? odd : ignored);
        if (!whole)
            for (int r = j; r < part.b; r++)
                for (int g = 0; g < G; g++) {
                    const Vector<W> x = load(space.scores + (r * G + g) * VL);
                    largest[g] = larger(largest[g], x);
                    odd[g] |= x - x != Vector<W>{};
                }
    }
    const bool cells = p.mask.data || p.bias.data || p.by_distance;
    if (p.softcap > 0) cap<W, G>(part, p.softcap, space.scores);
    bool apart = false;  // some values are NaN or infinite
    if (part.hides || cells || p.softcap > 0) {
        if (cells) gather_cells(p, head, block, part, space.extra);
        finish_scores<W, G>(block, part, cells ? space.extra : nullptr, space.scores, largest);
        apart = has_odd_values(v, v_row, part, call.v_width);
        if (apart) {
            clean_values(v, v_row, part, call.v_width, space.clean);
            __builtin_memcpy(space.side + part.a * lanes, space.scores + part.a * lanes,
                             sizeof(W) * lanes * uint64_t(part.b - part.a));
        }
    } else {
        for (int g = 0; g < G; g++) block.odd[g] |= odd[g];
    }
    soften<W, G, kMoment>(block, part, largest, space.scores, keep);
    const W* values = apart ? space.clean : v;
    const int64_t values_row = apart ? call.v_width : v_row;
    for (int64_t c = 0; c < call.v_width; c += kKeysAtOnce)
        multiply_values<W, G>(values + part.a * values_row + c, values_row, part.b - part.a,
                              space.scores + part.a * lanes, keep, block.out + c * lanes);
    if (apart) add_odd_values<W, G>(block, v, v_row, part, call.v_width, space.side, space.scores);
}

// The block's outputs, divided by their totals, as rows of the result.
template <class W>
void give_outputs(const Apply<W>& call, int64_t head, const Block<W>& block) {
    constexpr int VL = Lanes<W>::n;
    const Problem& p = call.problem;
    const int lanes = block.groups * VL;
    for (int g = 0; g < block.groups; g++) {
        const Vector<W> total = block.total[g], zero{};
        const Vector<W> share = select<W>(block.odd[g], all(W(__builtin_nan(""))),
                                          select<W>(total > zero, all(W(1)) / total, zero));
        const int rows = block.rows - g * VL < VL ? block.rows - g * VL : VL;
        W* out = static_cast<W*>(call.results.out) + (head * p.n_q + block.row0 + g * VL) * p.v.width;
        for (int64_t c = 0; c < p.v.width; c += VL) {
            Vector<W> part[VL];
            for (int i = 0; i < VL; i++) {
                const Vector<W> sum = load(block.out + (c + i) * lanes + g * VL), mean = sum * share;
                part[i] = mean + (sum - mean * total) * share;  // as exact as a division, at a fraction of its time
            }
            transpose<W>(part);
            for (int i = 0; i < rows; i++) {
                if (c + VL <= p.v.width)
                    store(out + i * p.v.width + c, part[i]);
                else
                    for (int64_t x = c; x < p.v.width; x++) out[i * p.v.width + x] = part[i][x - c];
            }
        }
    }
}

template <class W>
void give_sums(const Apply<W>& call, int64_t head, const Block<W>& block) {
    constexpr int VL = Lanes<W>::n;
    const Problem& p = call.problem;
    for (int lane = 0; lane < block.rows; lane++) {
        const int64_t row = head * p.n_q + block.row0 + lane;
        const double peak = block.peak[lane / VL][lane % VL], total = block.total[lane / VL][lane % VL];
        const double moment = block.moment[lane / VL][lane % VL];
        const bool odd = block.odd[lane / VL][lane % VL] != 0;
        const double log_total = total > 0 ? __builtin_log(total) : -__builtin_inf();
        if (call.results.lse)
            static_cast<W*>(call.results.lse)[row] =
                W(odd ? __builtin_nan("") : total > 0 ? peak + log_total : log_total);
        // over the keys alone: the sink's share, and its term of the moment, are taken out again
        const bool has_sink = p.sinks && total > 0 && p.sinks[head] > -__builtin_inf();
        const double below = has_sink ? p.sinks[head] - peak : 0, sink = has_sink ? __builtin_exp(below) : 0;
        const double keys = (1 - sink / total) * log_total - (moment - sink * below) / total;
        if (call.results.entropy)
            static_cast<W*>(call.results.entropy)[row] = W(odd ? __builtin_nan("") : total > 0 ? keys : 0);
    }
}

template <class W, bool kMoment>
void step_any(const Apply<W>& call, int64_t head, Block<W>& block, int64_t j0, int n, const W* k, int64_t k_row,
              const W* v, int64_t v_row, Space<W>& space) {
    switch (block.groups) {
        case 1: return step<W, 1, kMoment>(call, head, block, j0, n, k, k_row, v, v_row, space);
        case 2: return step<W, 2, kMoment>(call, head, block, j0, n, k, k_row, v, v_row, space);
        default: return step<W, 3, kMoment>(call, head, block, j0, n, k, k_row, v, v_row, space);
    }
}

template <class W>
void apply_task(void* context, int64_t task) {
    const Apply<W>& call = *static_cast<const Apply<W>*>(context);
    const Problem& p = call.problem;
    Space<W> space{};
    space.scores = static_cast<W*>(scratch(lay_out(call, &space)));
    lay_out(call, &space);
    const int64_t head = task / call.tasks, group = call.tasks - 1 - task % call.tasks;  // under causal the longest first
    const int64_t begins = group * call.together;
    const int count = int(call.blocks - begins < call.together ? call.blocks - begins : call.together);
    Block<W> blocks[kBlocks];
    int64_t first = p.n_k, last = 0;
    for (int b = 0; b < count; b++) {
        W* memory = space.blocks + b * (call.q_width + call.v_width) * kGroups * Lanes<W>::n;
        begin(call, head, begins + b, memory, space.rows, blocks[b]);
        first = blocks[b].first_min < first ? blocks[b].first_min : first;
        last = blocks[b].last_max > last ? blocks[b].last_max : last;
    }
    for (int64_t j0 = first / kKeyBlock * kKeyBlock; j0 < last; j0 += kKeyBlock) {
        const int n = int(p.n_k - j0 < kKeyBlock ? p.n_k - j0 : kKeyBlock);
        const W *k = space.k, *v = space.v;
        int64_t k_row = p.k.width, v_row = call.v_width;
        if (call.k_direct) {
            k = reinterpret_cast<const W*>(p.k.data + p.k.at[head] + j0 * p.k.row);
            k_row = p.k.row / int64_t(sizeof(W));
        } else {
            gather(p.k, head, j0, n, p.k.width, space.k);
        }
        if (call.v_direct) {
            v = reinterpret_cast<const W*>(p.v.data + p.v.at[head] + j0 * p.v.row);
            v_row = p.v.row / int64_t(sizeof(W));
        } else {
            gather(p.v, head, j0, n, call.v_width, space.v);
        }
        for (int b = 0; b < count; b++) {
            if (call.results.entropy)
                step_any<W, true>(call, head, blocks[b], j0, n, k, k_row, v, v_row, space);
            else
                step_any<W, false>(call, head, blocks[b], j0, n, k, k_row, v, v_row, space);
        }
    }
    for (int b = 0; b < count; b++) {
        give_outputs(call, head, blocks[b]);
        if (call.results.lse || call.results.entropy) give_sums(call, head, blocks[b]);
    }
}

template <class W>
void apply_in(const Problem& problem, const Results& results, const Parallel& parallel) {
    if (problem.n_heads == 0 || problem.n_q == 0) return;
    constexpr int64_t VL = Lanes<W>::n, lanes = kGroups * VL;
    constexpr int64_t step = VL > kKeysAtOnce ? VL : kKeysAtOnce;
    const int64_t q_width = (problem.q.width + VL - 1) / VL * VL, v_width = (problem.v.width + step - 1) / step * step;
    const int64_t vectors = (problem.n_q + VL - 1) / VL, blocks = (vectors + kGroups - 1) / kGroups;
    const int64_t fits = kScratch / (int64_t(sizeof(W)) * (q_width + v_width + 1) * lanes);
    int64_t together = fits < 1 ? 1 : fits < kBlocks ? fits : kBlocks;
    // enough tasks that no thread waits long for the last one
    while (together > 1 && problem.n_heads * ((blocks + together - 1) / together) < 4 * parallel.threads) together /= 2;
    Apply<W> call{problem,
                  results,
                  reads_directly<W>(problem.k, problem.n_heads),
                  reads_directly<W>(problem.v, problem.n_heads) && problem.v.width == v_width,
                  q_width,
                  v_width,
                  blocks,
                  int(together),
                  (blocks + together - 1) / together};
    run_tasks(parallel, problem.n_heads * call.tasks, apply_task<W>, &call);
}

void apply(const Problem& problem, const Results& results, const Parallel& parallel) {
    if (problem.q.dtype == DType::f64)
        apply_in<double>(problem, results, parallel);
    else
        apply_in<float>(problem, results, parallel);
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
