// SPDX-License-Identifier: Apache-2.0
// A @ v, and what one pass over the keys says of each row; either may be left out. A task is a few blocks of queries of one
// head: they pass over the keys together, so that keys and values are read, and widened where they are not in the work
// dtype, once for all of them.

#include "decode.inl"
#include "kernel.h"
#include "overlap.h"
#include "softmax.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kBlocks = 8;              // blocks of queries of a task: 384 queries in float32
constexpr int64_t kScratch = 4 << 20;   // bytes that a thread may take, unless one block of very wide rows needs more
constexpr int64_t kPatience = 1 << 18;  // numbers of keys and values between two looks at whether the call is to end early

template <class A>
struct Apply {
    const Problem& problem;
    const Rows* v;  // null: the rows alone
    void* out;
    bool* finite;  // whether all of out is, so far
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
    Softmax<A> softmax;
    W* out;
};

// The scratch of a task.
template <class A>
struct ApplySpace {
    typedef Work<A> W;
    ScoreSpace<A> score;
    W* side;                 // the scores of a tile that its weights overwrite
    W* other;                // room for the scores of one more tile, where two overlap
    Query<A>* weights;       // of a tile: in the place of its scores where they are of their size
    Number<A> *rows, *clean;
    Reader<A> keys, values;
    Number<A>* elements[2];  // of a tile of values and of the one before, where those are more than one number
    Query<A>* queries;       // [together][elements of q_width · lanes]
    W* outs;                 // [together][v_width · lanes]

    int64_t take(Arena arena, const Apply<A>& call) {
        constexpr int64_t lanes = kGroups * Lanes<W>::n;
        const int64_t width = up_to(call.problem.k.width, kTerms<A>);
        score.take(arena, width, call.rows.asks_moments());
        if constexpr (kTerms<A> == 1) {
            side = arena.take<W>((kTile<A> + kKeysAtOnce) * lanes);
            weights = score.scores;
        } else {
            weights = arena.take<Query<A>>(kTile<A> / kTerms<A> * lanes);
            elements[0] = arena.take<Number<A>>(kTile<A> * call.v_width);
            elements[1] = arena.take<Number<A>>(kTile<A> * call.v_width);
            other = arena.take<W>((kTile<A> + kKeysAtOnce) * lanes);
        }
        rows = arena.take<Number<A>>(lanes * call.q_width);
        clean = arena.take<Number<A>>(kTile<A> * call.v_width);
        keys = {&call.problem.k, width, call.k_direct, arena.take<Number<A>>(kTile<A> * width)};
        values = {call.v, call.v_width, call.v_direct, arena.take<Number<A>>(kTile<A> * call.v_width)};
        queries = arena.take<Query<A>>(call.together * call.q_width / kTerms<A> * lanes);
        outs = arena.take<W>(call.together * call.v_width * lanes);
        return arena.used;
    }
};

// Whether a value of these keys is NaN or infinite.
template <class W>
bool has_odd_values(const Values<W>& values, const Part& part, int64_t width) {
    Mask<W> odd{};
    bool rest = false;
    for (int j = part.a; j < part.b; j++) {
        const W* from = values.v + j * values.row;
        int64_t c = 0;
        for (; c + Lanes<W>::n <= width; c += Lanes<W>::n) odd |= (Mask<W>)(load(from + c) - load(from + c));
        for (; c < width; c++) rest |= is_odd(from[c]);
    }
    return rest || any(odd);
}

// Odd values: their product is taken with zeros in their place, and they are added by hand for the lanes that see them.
template <class A>
void clean_values(const Values<A>& values, int from, int to, int64_t width, Number<A>* clean) {
    for (int e = from; e < to; e++)
        for (int64_t c = 0; c < width * kTerms<A>; c++) {
            const Number<A> x = values.v[e * values.row + c];
            clean[e * width * kTerms<A> + c] = is_odd(x) ? Number<A>(0) : x;
        }
}

template <class A, int G>
void add_odd_values(const Values<A>& values, const Part& part, int64_t width, const Work<A>* scores,
                    const ApplySpace<A>& space, Work<A>* out) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n, terms = kTerms<A>;
    const Number<A>* weights = reinterpret_cast<const Number<A>*>(space.weights);
    for (int j = part.a; j < part.b; j++)
        for (int64_t c = 0; c < width; c++) {
            const Number<A> x = values.v[j / terms * values.row + c * terms + j % terms];
            if (!is_odd(x)) continue;
            for (int lane = 0; lane < lanes; lane++)
                if (scores[j * lanes + lane] > W(-__builtin_inf()))
                    out[c * lanes + lane] += wide(x) * wide(weights[(j / terms * lanes + lane) * terms + j % terms]);
        }
}

// multiply_values for all channels; a null keep is 1 in every lane.
template <class A, int G>
__attribute__((noinline)) void multiply_all(const Number<A>* v, int64_t row, int n, int64_t width, const Query<A>* weights,
                                            const Vector<Work<A>>* keep, const Ahead& next, Work<A>* out) {
    constexpr int lanes = G * Lanes<Work<A>>::n;
    for (int64_t c = 0; c < width; c += kKeysAtOnce) {
        next.template fetch<2>(int(c * kTile<A> / width), int((c + kKeysAtOnce) * kTile<A> / width));
        if (keep)
            multiply_values<A, G>(v + c * kTerms<A>, row, n, weights, keep, out + c * lanes);
        else
            multiply_values<A, G, false>(v + c * kTerms<A>, row, n, weights, keep, out + c * lanes);
    }
}

// multiply_all for a part of which not every vector sees all.
template <class A, int G>
__attribute__((noinline)) void multiply_seen(const Number<A>* v, int64_t row, const Part& part, int64_t width,
                                             const Query<A>* weights, const Vector<Work<A>>* keep, Work<A>* out) {
    constexpr int lanes = G * Lanes<Work<A>>::n;
    for (int64_t c = 0; c < width; c += kKeysAtOnce) {
        Vector<Work<A>> sum[kKeysAtOnce][G] = {};
        for (const Stretch* s = part.stretch; s < part.stretch + part.stretches; s++)
            with_vectors<G>(s->from, s->to, [&](auto some) __attribute__((always_inline)) {
                sum_values<A, G, some.from, some.to>(v + s->a * row + c, row, s->b - s->a, weights + s->a * lanes, sum);
            });
        keep_sums<Work<A>, G, true>(sum, keep, out + c * lanes);
    }
}

// out = keep · out + the weights of the part times the values; `scores` are those of the weights.
template <class A, int G>
QKV_INLINE void add_values(const Apply<A>& call, const Values<A>& values, const Part& part, bool hides,
                           const Work<A>* scores, const ApplySpace<A>& space, bool rises, const Vector<Work<A>>* keep,
                           Work<A>* out, const Ahead& next) {
    constexpr int lanes = G * Lanes<Work<A>>::n;
    const int from = part.a / kTerms<A>, to = int(up_to(part.b, kTerms<A>) / kTerms<A>);
    bool apart = values.odd;
    if constexpr (kTerms<A> == 1) apart = hides && has_odd_values(values, part, call.v_width);
    if (apart) clean_values(values, from, to, call.v_width, space.clean);
    const Number<A>* v = apart ? space.clean : values.v;
    const int64_t row = apart ? call.v_width * kTerms<A> : values.row;
    if (part.stretches)
        multiply_seen<A, G>(v, row, part, call.v_width, space.weights, keep, out);
    else
        multiply_all<A, G>(v + from * row, row, to - from, call.v_width, space.weights + from * lanes, rises ? keep : nullptr,
                           next, out);
    if (apart) add_odd_values<A, G>(values, part, call.v_width, scores, space, out);
}

// Values as they are multiplied: where an element is two numbers, those of a pair of keys side by side.
template <class A>
Values<A> read_values(const Apply<A>& call, int64_t head, int64_t j0, int n, ApplySpace<A>& space) {
    Values<A> values{};
    values.v = space.values.read(head, j0, n, &values.row);
    if constexpr (kTerms<A> == 2) {
        const int64_t width = call.v_width;
        Number<A>* elements = space.elements[j0 / kTile<A> % 2];
        for (int j = 0; j < n; j += 2) {
            const uint16_t *first = values.v + j * values.row, *second = first + values.row;
            for (int64_t c = 0; c < width; c += 32) {  // cache lines of the next tile, where rows are read in place
                __builtin_prefetch(first + kTile<A> * values.row + c, 0, 2);
                __builtin_prefetch(second + kTile<A> * values.row + c, 0, 2);
            }
            if (j + 1 == n) {
                for (int64_t c = 0; c < width; c++) space.clean[c] = 0;
                second = space.clean;
            }
            values.odd |= interleave(first, second, width, elements + j * width);
        }
        values.v = elements;
        values.row = 2 * width;
    }
    return values;
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
    const bool hides = score<A, G>(call.problem, head, way.block, part, keys, space.score, largest, odd);
    for (int g = 0; g < G; g++) way.softmax.odd[g] |= odd[g];
    if (kMoments && (call.rows.max_score || call.rows.max_key)) {
        const bool apart = changes_scores(call.problem);
        keep_largest<A, G>(way.softmax, part, apart ? space.score.raw : space.score.scores, space.score.scores,
                           apart ? nullptr : largest);
    }
    if (kTerms<A> == 1 && hides && values.v)
        __builtin_memcpy(space.side + part.a * lanes, space.score.scores + part.a * lanes,
                         sizeof(W) * lanes * uint64_t(part.b - part.a));
    const bool rises = soften<A, G, kMoments>(way.softmax, part, largest, space.score.scores, space.weights, keep);
    const W* scores = kTerms<A> == 1 ? space.side : space.score.scores;
    if (values.v) add_values<A, G>(call, values, part, hides, scores, space, rises, keep, way.out, keys.next);
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

// The block's outputs, divided by their totals, as rows of the result.
template <class A>
void give_outputs(const Apply<A>& call, int64_t head, const Way<A>& way) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Problem& p = call.problem;
    const Block<A>& block = way.block;
    const int64_t lanes = block.groups * VL, width = call.v->width;
    Mask<W> odd{};
    for (int g = 0; g < block.groups; g++) {
        const Vector<W> total = kTerms<A> == 1 ? way.softmax.total[g] : way.softmax.rounded[g], zero{};
        const Vector<W> share = select<W>(way.softmax.odd[g], all(W(__builtin_nan(""))),
                                          select<W>(total > zero, all(W(1)) / total, zero));
        const int rows = block.rows - g * VL < VL ? block.rows - g * VL : VL;
        const int64_t row = head * p.rows.size() + block.row0 - p.rows.begin + g * VL;
        W* out = static_cast<W*>(call.out) + row * width;
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

// What the first block of a task has fetched meanwhile.
template <class A>
void look_ahead(const Apply<A>& call, const Values<A>& values, int64_t last, Keys<A>& keys) {
    if (kTerms<A> > 1) return;
    const int64_t size = sizeof(Number<A>);
    if (call.v_direct) keys.values = {reinterpret_cast<const char*>(values.v), call.v->row, call.v->width * size};
    if (call.k_direct && keys.j0 + 2 * kTile<A> <= last)
        keys.next = keys.behind(kTile<A>, call.problem.k.width);
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
    [[maybe_unused]] Before<A> before{};
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
        look_ahead(call, values, last, keys);
        for (int b = 0; b < count; b++) {
            if (b == 1) keys.values = keys.next = {};  // they are near by now
            const bool goes_on = call.k_direct && j0 + 2 * kTile<A> <= last;
            if (b == count - 1 && !call.v && kTerms<A> == 1 && goes_on) keys.values = keys.behind(kTile<A>, p.k.width);
            if (moments)
                step_any<A, true>(call, head, ways[b], keys, values, space);
            else if constexpr (kTerms<A> == 2)
                step_on(call, head, ways[b], keys, values, space, before);
            else
                step_any<A, false>(call, head, ways[b], keys, values, space);
        }
    }
    if constexpr (kTerms<A> == 2) finish_before(call, before, space);
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
        Query<A>* q = space.queries + b * call.q_width / kTerms<A> * lanes;
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
