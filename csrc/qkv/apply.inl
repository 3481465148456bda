// SPDX-License-Identifier: Apache-2.0
// A @ v, and what one pass over the keys says of each row; either may be left out. A task is a few blocks of queries of one
// head: they pass over the keys together, so that keys and values are read, and widened where they are not in the work
// dtype, once for all of them.

#include "decode.inl"
#include "overlap.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int64_t kPatience = 1 << 18;  // numbers of keys and values between two looks at whether the call is to end early

// What is said of a tile's products before they are weights. Returns what settle_scores does.
template <class A, int G, bool kMoments>
QKV_INLINE bool settle(const Apply<A>& call, int64_t head, Way<A>& way, const Part& part, ApplySpace<A>& space,
                       Vector<Work<A>>* largest, Mask<Work<A>>* odd) {
    const bool hides = settle_scores<A, G>(call.problem, head, way.block, part, space.score, largest, odd);
    for (int g = 0; g < G; g++) way.softmax.odd[g] |= odd[g];
    if (kMoments && (call.rows.max_score || call.rows.max_key)) {
        const bool apart = changes_scores(call.problem);
        keep_largest<A, G>(way.softmax, part, apart ? space.score.raw : space.score.scores, space.score.scores,
                           apart ? nullptr : largest);
    }
    return hides;
}

// One block over one tile of keys.
template <class A, int G, bool kMoments>
__attribute__((noinline)) void step(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys,
                                    const Values<A>& values, ApplySpace<A>& space) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    const Part part = part_of(way.block, keys.j0, keys.n);
    if (part.a >= part.b) return;
    Vector<W> largest[G], keep[G];
    Mask<W> odd[G];
    if constexpr (kTerms<A> == 1) space.weights = space.score.scores;
    score_products<A, G>(way.block, call.problem.k.width, part, keys, space.score, largest, odd);
    const bool hides = settle<A, G, kMoments>(call, head, way, part, space, largest, odd);
    if (kTerms<A> == 1 && hides && values.v)
        __builtin_memcpy(space.side + part.a * lanes, space.score.scores + part.a * lanes,
                         sizeof(W) * lanes * uint64_t(part.b - part.a));
    const bool rises = soften<A, G, kMoments>(way.softmax, part, largest, space.score.scores, space.weights, keep);
    const W* scores = kTerms<A> == 1 ? space.side : space.score.scores;
    if (values.v) add_values<A, G>(call, values, part, hides, scores, space, rises ? keep : nullptr, way, keys.next);
}

template <class A, bool kMoments>
void step_any(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys, const Values<A>& values,
              ApplySpace<A>& space) {
    switch (way.block.groups) {
        case 1: return step<A, 1, kMoments>(call, head, way, keys, values, space);
        case 2: return step<A, 2, kMoments>(call, head, way, keys, values, space);
        default: return step<A, 3, kMoments>(call, head, way, keys, values, space);
    }
}

// Where the outputs of a block go.
template <class A>
Work<A>* place_of(const Apply<A>& call, int64_t head, const Block<A>& block) {
    const Problem& p = call.problem;
    return static_cast<Work<A>*>(call.out) + (head * p.rows.size() + block.row0 - p.rows.begin) * call.v->width;
}

// The block's outputs, times what they are worth.
template <class A>
void keep_outputs(const Apply<A>& call, const Vector<Work<A>>* keep, const Way<A>& way) {
    constexpr int VL = Lanes<Work<A>>::n;
    Work<A>* at = way.out;
    for (int64_t c = 0; c < call.v_width; c++)
        for (int g = 0; g < way.block.groups; g++, at += VL) store(at, load(at) * keep[g]);
}

// The block's outputs, divided by their totals, as rows of the result.
template <class A>
void give_outputs(const Apply<A>& call, int64_t head, const Way<A>& way) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Block<A>& block = way.block;
    const int64_t lanes = block.groups * VL, width = call.v->width;
    if (way.fresh) __builtin_memset(way.out, 0, sizeof(W) * uint64_t(call.v_width * lanes));  // no key is seen
    Mask<W> odd{};
    for (int g = 0; g < block.groups; g++) {
        const Vector<W> total = kTerms<A> == 1 ? way.softmax.total[g] : way.softmax.rounded[g], zero{};
        const Vector<W> share = select<W>(way.softmax.odd[g], all(W(__builtin_nan(""))),
                                          select<W>(total > zero, all(W(1)) / total, zero));
        const int rows = block.rows - g * VL < VL ? block.rows - g * VL : VL;
        W* out = place_of(call, head, block) + g * VL * width;
        for (int64_t c = 0; c < width; c += VL) {
            Vector<W> part[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) {
                const Vector<W> sum = load(way.out + (c + i) * lanes + g * VL), mean = sum * share;
                part[i] = mean + (sum - mean * total) * share;  // as exact as a division, at a fraction of its time
                odd |= (Mask<W>)(part[i] - part[i]);
            }
            transpose<W>(part);
            if (rows == VL && c + VL <= width) {
#pragma GCC unroll 16
                for (int i = 0; i < VL; i++) store(out + i * width + c, part[i]);
                continue;
            }
            for (int i = 0; i < rows; i++)
                for (int64_t x = c; x < width && x < c + VL; x++) out[i * width + x] = part[i][x - c];
        }
    }
    if (any(odd)) __atomic_store_n(call.finite, false, __ATOMIC_RELAXED);
}

// Where the outputs of a block will be written.
template <class A>
Ahead outputs_of(const Apply<A>& call, int64_t head, const Block<A>& block) {
    if (!call.v) return {};
    const int64_t row = call.v->width * int64_t(sizeof(Work<A>));
    return {reinterpret_cast<const char*>(place_of(call, head, block)), row, row, block.rows};
}

// What block b of a task has fetched meanwhile: the first one, for all of them, this tile's values and the next one's keys;
// the others, on their first tile, the queries of the next block, and before their last their outputs.
template <class A>
void look_ahead(const Apply<A>& call, int64_t head, const Way<A>* ways, int b, int count, const Values<A>& values,
                bool begins, int64_t last, Keys<A>& keys) {
    const int64_t size = sizeof(Number<A>), behind = keys.j0 + kTile<A>;
    const bool goes_on = call.k_direct && behind + kTile<A> <= last && kTerms<A> == 1;
    keys.soon = keys.next = {};
    if (b == 0 && kTerms<A> == 1 && call.v_direct)
        keys.soon = {reinterpret_cast<const char*>(values.v), call.v->row, call.v->width * size, keys.n};
    if (b == 0 && goes_on) keys.next = keys.behind(kTile<A>, call.problem.k.width);
    if (b == 0) return;
    const int64_t ends = ways[b].block.last_max;
    if (begins && b + 1 < count)
        keys.soon = queries_of(call.problem, head, ways[b + 1].block);
    else if (behind < ends && ends <= behind + kTile<A>)
        keys.soon = outputs_of(call, head, ways[b].block);
    else if (b == count - 1 && !call.v && goes_on)
        keys.soon = keys.behind(kTile<A>, call.problem.k.width);
}

// The blocks of a task over all tiles of keys that one of them sees; false where the call is to end early.
template <class A>
bool walk_keys(const Apply<A>& call, int64_t head, Way<A>* ways, int count, ApplySpace<A>& space) {
    const Problem& p = call.problem;
    int64_t first = p.n_k, last = 0;
    for (int b = 0; b < count; b++) {
        first = ways[b].block.first_min < first ? ways[b].block.first_min : first;
        last = ways[b].block.last_max > last ? ways[b].block.last_max : last;
    }
    const bool moments = call.rows.asks_moments();
    Before<A> before{};
    const int64_t begins = first / kTile<A> * kTile<A>;
    int64_t seen = 0;
    for (int64_t j0 = begins; j0 < last; j0 += kTile<A>, seen += kTile<A> * (p.k.width + call.v_width + 1)) {
        if (seen >= kPatience) {
            if (!go_on(double(j0 - begins) / double(last - begins))) return false;
            seen = 0;
        }
        Keys<A> keys{nullptr, 0, j0, int(p.n_k - j0 < kTile<A> ? p.n_k - j0 : kTile<A>)};
        keys.k = space.keys.read(head, j0, keys.n, &keys.row);
        const Values<A> values = call.v ? read_values(call, head, j0, keys.n, space) : Values<A>{};
        for (int b = 0; b < count; b++) {
            if (j0 == begins) take_queries(p, head, call.q_width, space.rows, ways[b].block);
            look_ahead(call, head, ways, b, count, values, j0 == begins, last, keys);
            if (moments)
                step_on<A, true>(call, head, ways[b], keys, values, space, before);
            else
                step_on<A, false>(call, head, ways[b], keys, values, space, before);
        }
    }
    if (moments)
        finish_before<A, true>(call, before, space);
    else
        finish_before<A, false>(call, before, space);
    return true;
}

template <class A>
void apply_task(void* context, int64_t task) {
    const Apply<A>& call = *static_cast<const Apply<A>*>(context);
    const Problem& p = call.problem;
    ApplySpace<A> space{};
    char* memory = static_cast<char*>(scratch(space.take(Arena{nullptr}, call)));
    if (!memory) return;
    space.take(Arena{memory}, call);
    const int64_t head = task / call.tasks, group = call.tasks - 1 - task % call.tasks;  // under causal the longest first
    const int64_t begins = group * call.together, lanes = kGroups * Lanes<Work<A>>::n;
    const int count = int(call.grid.blocks - begins < call.together ? call.grid.blocks - begins : call.together);
    Way<A> ways[kBlocks];
    for (int b = 0; b < count; b++) {
        place_block(p, call.grid, head, begins + b, ways[b].block);
        ways[b].block.q = space.queries + b * call.q_width / kTerms<A> * lanes;
        ways[b].softmax.begin();
        ways[b].out = space.outs + b * call.v_width * lanes;
        ways[b].fresh = true;
    }
    for (int b = 0; b < count && b < 2; b++) queries_of(p, head, ways[b].block).fetch();
    if (!walk_keys(call, head, ways, count, space)) return;
    for (int b = 0; b < count; b++) {
        Vector<Work<A>> keep[kGroups];
        if (take_sink(p, head, ways[b].softmax, keep) && call.v && !ways[b].fresh) keep_outputs(call, keep, ways[b]);
        if (call.v) give_outputs(call, head, ways[b]);
        if (!call.rows.asks()) continue;
        const int64_t row = head * p.rows.size() + ways[b].block.row0 - p.rows.begin;
        for (int lane = 0; lane < ways[b].block.rows; lane++)
            give_row(p, head, ways[b].softmax, lane, row + lane, call.rows);
    }
}

template <class A>
bool apply_in(const Problem& problem, const Rows* v, void* out, const RowResults& rows, const Parallel& parallel) {
    typedef Work<A> W;
    bool finite = true;
    if (problem.n_heads == 0 || problem.rows.size() == 0) return finite;
    constexpr int64_t VL = Lanes<W>::n;
    const Grid grid = Grid::of<W>(problem.rows);
    const int64_t q_width = up_to(problem.q.width, VL * kTerms<A>);
    const int64_t v_width = v ? up_to(v->width, VL > kKeysAtOnce ? VL : kKeysAtOnce) : 0;
    Apply<A> call{problem,
                  v,
                  out,
                  &finite,
                  rows,
                  grid,
                  reads_directly<A>(problem.k, problem.n_heads),
                  v && reads_directly<A>(*v, problem.n_heads) && v->width == v_width,
                  q_width,
                  v_width,
                  kBlocks,
                  0};
    ApplySpace<A> space{};
    while (call.together > 1 && space.take(Arena{nullptr}, call) > kScratch) call.together--;
    // enough tasks that no thread waits long for the last one
    auto tasks = [&] { return (grid.blocks + call.together - 1) / call.together; };
    while (call.together > 1 && problem.n_heads * tasks() < 4 * parallel.threads) call.together /= 2;
    call.tasks = tasks();
    run_tasks(parallel, problem.n_heads * call.tasks, apply_task<A>, &call);
    return finite;
}

bool apply(const Problem& problem, const Rows* v, void* out, const RowResults& rows, const Parallel& parallel) {
    if (decodes(problem, v)) {
        const bool finite = decode(problem, *v, out, parallel);
        // what is said of rows comes from the usual scores, with or without values
        if (rows.asks()) apply(problem, nullptr, nullptr, rows, parallel);
        return finite;
    }
    bool finite = true;
    in_arithmetic(problem, [&](auto as) { finite = apply_in<typename decltype(as)::type>(problem, v, out, rows, parallel); });
    return finite;
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
