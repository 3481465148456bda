// SPDX-License-Identifier: Apache-2.0
// The cells of a rectangle of the map, at any stage: weights, or scores. A task is a block of queries over a run of keys.

#include "kernel.h"
#include "weigh.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int64_t kRun = 4096;  // keys of a task

template <class A>
struct Window {
    const Problem& problem;
    const RowSums& sums;  // of the weights
    Stage stage;
    Span keys;
    void* out;
    Grid grid;
    int64_t q_width;
    bool k_direct;
    int64_t runs;  // of keys
};

// The scores of every key of the tile, hidden ones too.
template <class A, int G>
void score_all(const Window<A>& call, const Block<A>& block, const Keys<A>& keys, ScoreSpace<A>& space) {
    typedef Work<A> W;
    const Part part = whole_part(keys.j0, keys.n);
    Vector<W> largest[G];
    Mask<W> odd[G];
    score_products<A, G>(block, call.problem.k.width, part, keys, space, largest, odd);
    if (call.stage == Stage::capped && call.problem.softcap > 0) cap<A, G>(part, call.problem.softcap, space.scores);
}

// A tile at its stage in space.scores; what nobody of the block sees has what a hidden cell has.
template <class A, int G>
void fill(const Window<A>& call, int64_t head, const Block<A>& block, const Shares<Work<A>>& shares, const Keys<A>& keys,
          ScoreSpace<A>& space) {
    typedef Work<A> W;
    if (call.stage == Stage::raw || call.stage == Stage::capped) return score_all<A, G>(call, block, keys, space);
    constexpr int lanes = G * Lanes<W>::n;
    Part part = part_of(block, keys.j0, keys.n);
    if (part.a >= part.b) part.a = part.b = keys.n;
    Vector<W> largest[G];
    Mask<W> odd[G];
    if (part.a < part.b && call.stage == Stage::weight) weigh<A, G>(call.problem, head, block, shares, part, keys, space);
    if (part.a < part.b && call.stage == Stage::biased)
        score<A, G>(call.problem, head, block, part, keys, space, largest, odd);
    const W hidden = call.stage == Stage::weight ? W(0) : W(-__builtin_inf());
    for (int n = 0; n < part.a * lanes; n++) space.scores[n] = hidden;
    for (int n = part.b * lanes; n < keys.n * lanes; n++) space.scores[n] = hidden;
}

// Writes a tile as rows of the result: `to` is the cell of the block's first query and the tile's first key.
template <class A>
void give_tile(const Block<A>& block, int n, int64_t row, const Work<A>* tile, Work<A>* to) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const int lanes = block.groups * VL;
    for (int g = 0; g < block.groups; g++) {
        const int rows = block.rows - g * VL < VL ? block.rows - g * VL : VL;
        for (int j = 0; j < n; j += VL) {
            Vector<W> part[VL];
            for (int i = 0; i < VL; i++) part[i] = j + i < n ? load(tile + (j + i) * lanes + g * VL) : Vector<W>{};
            transpose<W>(part);
            for (int i = 0; i < rows; i++) {
                W* cells = to + (g * VL + i) * row + j;
                if (j + VL <= n)
                    store(cells, part[i]);
                else
                    for (int x = 0; x < n - j; x++) cells[x] = part[i][x];
            }
        }
    }
}

template <class A>
void window_task(void* context, int64_t task) {
    typedef Work<A> W;
    const Window<A>& call = *static_cast<const Window<A>*>(context);
    const Problem& p = call.problem;
    const int64_t run = task % call.runs, index = task / call.runs % call.grid.blocks, head = task / call.runs / call.grid.blocks;
    constexpr int64_t lanes = kGroups * Lanes<W>::n;
    ScoreSpace<A> space{};
    Reader<A> reader{&p.k, up_to(p.k.width, kTerms<A>), call.k_direct, nullptr};
    Query<A>* q = nullptr;
    Number<A>* rows = nullptr;
    auto take = [&](Arena arena) {
        space.take(arena, p.k.width, false, true);
        reader.memory = arena.take<Number<A>>(kTile<A> * up_to(p.k.width, kTerms<A>));
        q = arena.take<Query<A>>(call.q_width / kTerms<A> * lanes);
        rows = arena.take<Number<A>>(call.q_width * lanes);
        return arena.used;
    };
    char* memory = static_cast<char*>(scratch(take(Arena{nullptr})));
    if (!memory) return;
    take(Arena{memory});
    Block<A> block;
    begin_block(p, call.grid, head, index, call.q_width, q, rows, block);
    Shares<W> shares{};
    if (call.stage == Stage::weight) shares.take(p, head, block, call.sums);
    const int64_t width = call.keys.size(), begin = call.keys.begin + run * kRun;
    const int64_t end = begin + kRun < call.keys.end ? begin + kRun : call.keys.end;
    W* to = static_cast<W*>(call.out) + (head * p.rows.size() + block.row0 - p.rows.begin) * width;
    for (int64_t j0 = begin; j0 < end; j0 += kTile<A>) {
        Keys<A> keys{nullptr, 0, j0, int(end - j0 < kTile<A> ? end - j0 : kTile<A>)};
        keys.k = reader.read(head, j0, keys.n, &keys.row);
        switch (block.groups) {
            case 1: fill<A, 1>(call, head, block, shares, keys, space); break;
            case 2: fill<A, 2>(call, head, block, shares, keys, space); break;
            default: fill<A, 3>(call, head, block, shares, keys, space);
        }
        give_tile(block, keys.n, width, space.scores, to + j0 - call.keys.begin);
    }
}

template <class A>
void window_in(const Problem& problem, const RowSums& sums, Stage stage, Span keys, void* out, const Parallel& parallel) {
    typedef Work<A> W;
    if (problem.n_heads == 0 || problem.rows.size() == 0 || keys.size() == 0) return;
    const Grid grid = Grid::of<W>(problem.rows);
    Window<A> call{problem, sums, stage, keys, out, grid, up_to(problem.q.width, Lanes<W>::n * kTerms<A>),
                   reads_directly<A>(problem.k, problem.n_heads), (keys.size() + kRun - 1) / kRun};
    run_tasks(parallel, problem.n_heads * grid.blocks * call.runs, window_task<A>, &call);
}

void window(const Problem& problem, const RowSums& sums, Stage stage, Span keys, void* out, const Parallel& parallel) {
    in_arithmetic(problem, [&](auto as) { window_in<typename decltype(as)::type>(problem, sums, stage, keys, out, parallel); });
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
