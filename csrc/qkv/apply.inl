// SPDX-License-Identifier: Apache-2.0
// A @ v, and what one pass over the keys says of each row; either may be left out. A task is a few blocks of queries of one
// head: they pass over the keys together, so that keys and values are read, and widened where they are not in the work
// dtype, once for all of them.

#include "kernel.h"
#include "softmax.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kBlocks = 8;              // blocks of queries of a task: 384 queries in float32
constexpr int64_t kScratch = 3 << 20;   // bytes of one thread that the blocks may take
constexpr int64_t kPatience = 1 << 13;  // keys between two looks at whether the call is to end early

template <class A>
struct Apply {
    const Problem& problem;
    const Rows* v;  // null: the rows alone
    void* out;
    const RowResults& rows;
    Grid grid;
    bool k_direct, v_direct;
    int64_t q_width, v_width;  // up to a multiple of the lanes, for whole vectors are transposed, and of kKeysAtOnce
    int together;              // blocks of queries in a task
    int64_t tasks;             // a head
};

// A block under way: its queries, their softmax, and their outputs, [v_width][groups · lanes], not yet divided by total.
template <class A>
struct Way {
    typedef Work<A> W;
    Block<A> block;
    Softmax<W> softmax;
    W* out;
};

// The scratch of a task.
template <class A>
struct ApplySpace {
    typedef Work<A> W;
    ScoreSpace<A> score;
    W* side;
    Number<A>*rows, *clean;
    Reader<A> keys, values;
    Query<A>* queries;  // [together][q_width · lanes]
    W* outs;            // [together][v_width · lanes]

    int64_t take(Arena arena, const Apply<A>& call) {
        constexpr int64_t lanes = kGroups * Lanes<W>::n;
        const int64_t width = call.problem.k.width;
        score.take(arena, width, call.rows.asks_moments());
        side = arena.take<W>((kKeyBlock + kKeysAtOnce) * lanes);
        rows = arena.take<Number<A>>(lanes * call.q_width);
        clean = arena.take<Number<A>>(kKeyBlock * call.v_width);
        keys = {&call.problem.k, width, call.k_direct, arena.take<Number<A>>(kKeyBlock * width)};
        values = {call.v, call.v_width, call.v_direct, arena.take<Number<A>>(kKeyBlock * call.v_width)};
        queries = arena.take<Query<A>>(call.together * call.q_width * lanes);
        outs = arena.take<W>(call.together * call.v_width * lanes);
        return arena.used;
    }
};

// Whether a value of these keys is NaN or infinite.
template <class A>
bool has_odd_values(const Number<A>* v, int64_t v_row, const Part& part, int64_t width) {
    typedef Work<A> W;
    W sum = 0;  // x − x is 0, or NaN
    for (int j = part.a; j < part.b; j++) {
        W row = 0;
        const Number<A>* from = v + j * v_row;
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
template <class A>
void clean_values(const Number<A>* v, int64_t v_row, const Part& part, int64_t width, Number<A>* clean) {
    for (int j = part.a; j < part.b; j++)
        for (int64_t c = 0; c < width; c++) {
            const Number<A> x = v[j * v_row + c];
            clean[j * width + c] = x - x == 0 ? x : Number<A>(0);
        }
}

template <class A, int G>
void add_odd_values(Work<A>* out, const Number<A>* v, int64_t v_row, const Part& part, int64_t width, const Work<A>* side,
                    const Work<A>* weight) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    for (int j = part.a; j < part.b; j++)
        for (int64_t c = 0; c < width; c++) {
            const W x = v[j * v_row + c];
            if (x - x == 0) continue;
            for (int lane = 0; lane < lanes; lane++)
                if (side[j * lanes + lane] > W(-__builtin_inf())) out[c * lanes + lane] += x * weight[j * lanes + lane];
        }
}

// out = keep · out + the weights of the part times the values
template <class A, int G>
QKV_INLINE void add_values(const Apply<A>& call, const Number<A>* v, int64_t v_row, const Part& part, bool hides,
                           const ApplySpace<A>& space, const Vector<Work<A>>* keep, Work<A>* out) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    const W* weight = space.score.scores;
    const bool apart = hides && has_odd_values<A>(v, v_row, part, call.v_width);
    if (apart) clean_values<A>(v, v_row, part, call.v_width, space.clean);
    const Number<A>* values = apart ? space.clean : v;
    const int64_t row = apart ? call.v_width : v_row;
    for (int64_t c = 0; c < call.v_width; c += kKeysAtOnce)
        multiply_values<A, G>(values + part.a * row + c, row, part.b - part.a, weight + part.a * lanes, keep, out + c * lanes);
    if (apart) add_odd_values<A, G>(out, v, v_row, part, call.v_width, space.side, weight);
}

// One block over one tile of keys.
template <class A, int G, bool kMoments>
__attribute__((noinline)) void step(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys,
                                    const Number<A>* v, int64_t v_row, ApplySpace<A>& space) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    const Part part = part_of(way.block, keys.j0, keys.n);
    if (part.a >= part.b) return;
    Vector<W> largest[G], keep[G];
    Mask<W> odd[G];
    const bool hides = score<A, G>(call.problem, head, way.block, part, keys, space.score, largest, odd);
    for (int g = 0; g < G; g++) way.softmax.odd[g] |= odd[g];
    if (kMoments && (call.rows.max_score || call.rows.max_key))
        keep_largest<W, G>(way.softmax, part, hides ? space.score.raw : space.score.scores, space.score.scores);
    if (hides && v)
        __builtin_memcpy(space.side + part.a * lanes, space.score.scores + part.a * lanes,
                         sizeof(W) * lanes * uint64_t(part.b - part.a));
    soften<W, G, kMoments>(way.softmax, part, largest, space.score.scores, keep);
    if (v) add_values<A, G>(call, v, v_row, part, hides, space, keep, way.out);
}

template <class A, bool kMoments>
void step_any(const Apply<A>& call, int64_t head, Way<A>& way, const Keys<A>& keys, const Number<A>* v,
              int64_t v_row, ApplySpace<A>& space) {
    switch (way.block.groups) {
        case 1: return step<A, 1, kMoments>(call, head, way, keys, v, v_row, space);
        case 2: return step<A, 2, kMoments>(call, head, way, keys, v, v_row, space);
        default: return step<A, 3, kMoments>(call, head, way, keys, v, v_row, space);
    }
}

// The block's outputs, divided by their totals, as rows of the result.
template <class A>
void give_outputs(const Apply<A>& call, int64_t head, const Way<A>& way) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Problem& p = call.problem;
    const Block<A>& block = way.block;
    const int64_t lanes = block.groups * VL, width = call.v->width;
    for (int g = 0; g < block.groups; g++) {
        const Vector<W> total = way.softmax.total[g], zero{};
        const Vector<W> share = select<W>(way.softmax.odd[g], all(W(__builtin_nan(""))),
                                          select<W>(total > zero, all(W(1)) / total, zero));
        const int rows = block.rows - g * VL < VL ? block.rows - g * VL : VL;
        const int64_t row = head * p.rows.size() + block.row0 - p.rows.begin + g * VL;
        W* out = static_cast<W*>(call.out) + row * width;
        for (int64_t c = 0; c < width; c += VL) {
            Vector<W> part[VL];
            for (int i = 0; i < VL; i++) {
                const Vector<W> sum = load(way.out + (c + i) * lanes + g * VL), mean = sum * share;
                part[i] = mean + (sum - mean * total) * share;  // as exact as a division, at a fraction of its time
            }
            transpose<W>(part);
            for (int i = 0; i < rows; i++) {
                if (c + VL <= width)
                    store(out + i * width + c, part[i]);
                else
                    for (int64_t x = c; x < width; x++) out[i * width + x] = part[i][x - c];
            }
        }
    }
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
    int64_t begins = first / kKeyBlock * kKeyBlock, seen = 0;
    for (int64_t j0 = begins; j0 < last; j0 += kKeyBlock, seen += kKeyBlock) {
        if (seen >= kPatience) {
            if (!go_on()) return false;
            seen = 0;
        }
        Keys<A> keys{nullptr, 0, j0, int(p.n_k - j0 < kKeyBlock ? p.n_k - j0 : kKeyBlock)};
        keys.k = space.keys.read(head, j0, keys.n, &keys.row);
        int64_t v_row = 0;
        const Number<A>* v = call.v ? space.values.read(head, j0, keys.n, &v_row) : nullptr;
        for (int b = 0; b < count; b++) {
            if (moments)
                step_any<A, true>(call, head, ways[b], keys, v, v_row, space);
            else
                step_any<A, false>(call, head, ways[b], keys, v, v_row, space);
        }
    }
    return true;
}

template <class A>
void apply_task(void* context, int64_t task) {
    const Apply<A>& call = *static_cast<const Apply<A>*>(context);
    const Problem& p = call.problem;
    ApplySpace<A> space{};
    char* memory = static_cast<char*>(scratch(space.take(Arena{nullptr}, call)));
    space.take(Arena{memory}, call);
    const int64_t head = task / call.tasks, group = call.tasks - 1 - task % call.tasks;  // under causal the longest first
    const int64_t begins = group * call.together, lanes = kGroups * Lanes<Work<A>>::n;
    const int count = int(call.grid.blocks - begins < call.together ? call.grid.blocks - begins : call.together);
    Way<A> ways[kBlocks];
    for (int b = 0; b < count; b++) {
        Query<A>* q = space.queries + b * call.q_width * lanes;
        begin_block(p, call.grid, head, begins + b, call.q_width, q, space.rows, ways[b].block);
        ways[b].softmax.begin(p, head);
        ways[b].out = space.outs + b * call.v_width * lanes;
        for (int64_t n = 0; n < call.v_width * lanes; n++) ways[b].out[n] = 0;
    }
    if (!walk_keys(call, head, ways, count, space)) return;
    for (int b = 0; b < count; b++) {
        if (call.v) give_outputs(call, head, ways[b]);
        if (!call.rows.asks()) continue;
        const int64_t row = head * p.rows.size() + ways[b].block.row0 - p.rows.begin;
        for (int lane = 0; lane < ways[b].block.rows; lane++)
            give_row(p, head, ways[b].softmax, lane, row + lane, call.rows);
    }
}

template <class A>
void apply_in(const Problem& problem, const Rows* v, void* out, const RowResults& rows, const Parallel& parallel) {
    typedef Work<A> W;
    if (problem.n_heads == 0 || problem.rows.size() == 0) return;
    constexpr int64_t VL = Lanes<W>::n, lanes = kGroups * VL;
    const Grid grid = Grid::of<W>(problem.rows);
    const int64_t q_width = up_to(problem.q.width, VL), v_width = v ? up_to(v->width, VL > kKeysAtOnce ? VL : kKeysAtOnce) : 0;
    const int64_t fits = kScratch / (int64_t(sizeof(W)) * (q_width + v_width + 1) * lanes);
    int64_t together = fits < 1 ? 1 : fits < kBlocks ? fits : kBlocks;
    // enough tasks that no thread waits long for the last one
    while (together > 1 && problem.n_heads * ((grid.blocks + together - 1) / together) < 4 * parallel.threads) together /= 2;
    Apply<A> call{problem,
                  v,
                  out,
                  rows,
                  grid,
                  reads_directly<A>(problem.k, problem.n_heads),
                  v && reads_directly<A>(*v, problem.n_heads) && v->width == v_width,
                  q_width,
                  v_width,
                  int(together),
                  (grid.blocks + together - 1) / together};
    run_tasks(parallel, problem.n_heads * call.tasks, apply_task<A>, &call);
}

void apply(const Problem& problem, const Rows* v, void* out, const RowResults& rows, const Parallel& parallel) {
    if (problem.q.dtype == DType::f64)
        apply_in<double>(problem, v, out, rows, parallel);
    else
        apply_in<float>(problem, v, out, rows, parallel);
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
