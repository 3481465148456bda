// SPDX-License-Identifier: Apache-2.0
// A.T @ x: what the queries send back to the keys. A task owns a stripe of keys of one head and passes all blocks of queries
// over it in order, so nothing is summed across tasks. The weights of a tile, [key][lanes], and the rows of x that its lanes
// stand for, [lane][channels], are multiplied as keys and queries are: lanes are the channels of that product.

#include "kernel.h"
#include "weigh.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int64_t kStripeBytes = 1 << 19;  // of the sums of a task

template <class A>
struct Transposed {
    const Problem& problem;
    const RowSums& sums;
    const Rows& x;
    void* out;  // (n_heads, n_k, width of x)
    Grid grid;
    int64_t q_width, x_width;
    bool k_direct;
    int64_t stripe, stripes;  // keys of a task; tasks a head
};

template <class A>
struct TransposedSpace {
    typedef Work<A> W;
    ScoreSpace<A> score;
    Reader<A> keys;
    Query<A>* q;
    Number<A>* rows;
    W *x, *clean, *product, *sums;  // product: [kKeysAtOnce][channels of a panel]; sums: [stripe][x_width]
};

template <class A>
int64_t take_space(const Transposed<A>& call, Arena arena, TransposedSpace<A>& space) {
    typedef Work<A> W;
    constexpr int64_t lanes = kGroups * Lanes<W>::n;
    const Problem& p = call.problem;
    space.score.take(arena, p.k.width, false, true);
    space.keys = {&p.k, up_to(p.k.width, kTerms<A>), call.k_direct, arena.take<Number<A>>(kTile<A> * up_to(p.k.width, kTerms<A>))};
    space.q = arena.take<Query<A>>(call.q_width / kTerms<A> * lanes);
    space.rows = arena.take<Number<A>>(call.q_width * lanes);
    space.x = arena.take<W>(lanes * call.x_width);
    space.clean = arena.take<W>(lanes * call.x_width);
    space.product = arena.take<W>(kKeysAtOnce * lanes);
    space.sums = arena.take<W>(call.stripe * call.x_width);
    return arena.used;
}

// The rows of x of a block, cut into panels of at most kGroups vectors of channels: [panel][lane][channels of the panel].
// Returns whether one of them is NaN or infinite; those are 0 in `x`, and as they are in `rows`, (lanes, x_width).
template <class A>
bool take_x(const Transposed<A>& call, int64_t head, const Block<A>& block, Work<A>* rows, Work<A>* x) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const int lanes = block.groups * VL;
    gather(call.x, head, block.row0 - call.problem.rows.begin, block.rows, call.x_width, rows);
    for (int64_t n = block.rows * call.x_width; n < lanes * call.x_width; n++) rows[n] = 0;
    bool odd = false;
    for (int64_t c0 = 0; c0 < call.x_width; c0 += kGroups * VL) {
        const int64_t width = call.x_width - c0 < kGroups * VL ? call.x_width - c0 : kGroups * VL;
        for (int lane = 0; lane < lanes; lane++)
            for (int64_t c = 0; c < width; c++) {
                const W value = rows[lane * call.x_width + c0 + c];
                const bool finite = value - value == 0;
                odd |= !finite;
                x[c0 * lanes + lane * width + c] = finite ? value : W(0);
            }
    }
    return odd;
}

// sums += the weights of the part times x; `weight` has whole rows of kKeysAtOnce keys, zeros behind the part.
template <class A>
void send_back(const Transposed<A>& call, int lanes, const Part& part, const Work<A>* weight, const Work<A>* x, Work<A>* product, Work<A>* sums) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    for (int64_t c0 = 0; c0 < call.x_width; c0 += kGroups * VL) {
        const int64_t width = call.x_width - c0 < kGroups * VL ? call.x_width - c0 : kGroups * VL;
        for (int j = part.a; j < part.b; j += kKeysAtOnce) {
            const W* rows = weight + j * lanes;
            const W* panel = x + c0 * lanes;
            Vector<W> unused[kGroups] = {};
            Mask<W> ignored[kGroups] = {};
            switch (width / VL) {
                case 1: multiply_keys<W, 1>(rows, lanes, panel, lanes, W(1), product, unused, ignored); break;
                case 2: multiply_keys<W, 2>(rows, lanes, panel, lanes, W(1), product, unused, ignored); break;
                default: multiply_keys<W, 3>(rows, lanes, panel, lanes, W(1), product, unused, ignored);
            }
            for (int r = 0; r < kKeysAtOnce && j + r < part.b; r++)
                for (int64_t c = 0; c < width; c += VL) {
                    W* at = sums + (j + r) * call.x_width + c0 + c;
                    store(at, load(at) + load(product + r * width + c));
                }
        }
    }
}

// Rows of x that are NaN or infinite count for the keys that their queries see, whatever the weight.
template <class A>
void send_odd(const Transposed<A>& call, const Block<A>& block, const Part& part, const Work<A>* seen, const Work<A>* weight,
              const Work<A>* rows, Work<A>* sums) {
    typedef Work<A> W;
    const int lanes = block.groups * Lanes<W>::n;
    for (int lane = 0; lane < block.rows; lane++)
        for (int64_t c = 0; c < call.x_width; c++) {
            const W value = rows[lane * call.x_width + c];
            if (value - value == 0) continue;
            for (int j = part.a; j < part.b; j++)
                if (!seen || seen[j * lanes + lane] != 0)
                    sums[j * call.x_width + c] += value * weight[j * lanes + lane];
        }
}

template <class A, int G>
__attribute__((noinline)) void send(const Transposed<A>& call, int64_t head, const Block<A>& block, const Shares<Work<A>>& shares,
                                    bool odd, const Keys<A>& keys, TransposedSpace<A>& space, Work<A>* sums) {
    typedef Work<A> W;
    constexpr int lanes = G * Lanes<W>::n;
    const Part part = part_of(block, keys.j0, keys.n);
    if (part.a >= part.b) return;
    const bool hides = weigh<A, G>(call.problem, head, block, shares, part, keys, space.score);
    W* weight = space.score.scores;
    const int whole = part.a + int(up_to(part.b - part.a, kKeysAtOnce));
    for (int n = part.b * lanes; n < whole * lanes; n++) weight[n] = 0;
    send_back(call, lanes, part, weight, space.x, space.product, sums);
    if (odd) send_odd(call, block, part, hides ? space.score.seen : nullptr, weight, space.clean, sums);
}

template <class A>
void transposed_task(void* context, int64_t task) {
    typedef Work<A> W;
    const Transposed<A>& call = *static_cast<const Transposed<A>*>(context);
    const Problem& p = call.problem;
    TransposedSpace<A> space{};
    char* memory = static_cast<char*>(scratch(take_space(call, Arena{nullptr}, space)));
    if (!memory) return;
    take_space(call, Arena{memory}, space);
    const int64_t head = task / call.stripes, begin = task % call.stripes * call.stripe;
    const int64_t end = begin + call.stripe < p.n_k ? begin + call.stripe : p.n_k;
    for (int64_t n = 0; n < call.stripe * call.x_width; n++) space.sums[n] = 0;
    for (int64_t index = 0; index < call.grid.blocks; index++) {
        if (!go_on(double(index) / double(call.grid.blocks))) return;
        Block<A> block;
        place_block(p, call.grid, head, index, block);
        if (block.last_max <= begin || block.first_min >= end) continue;
        block.q = space.q;
        queries_of(p, head, block).fetch();
        take_queries(p, head, call.q_width, space.rows, block);
        Shares<W> shares{};
        shares.take(p, head, block, call.sums);
        const bool odd = take_x(call, head, block, space.clean, space.x);
        for (int64_t j0 = begin; j0 < end; j0 += kTile<A>) {
            Keys<A> keys{nullptr, 0, j0, int(end - j0 < kTile<A> ? end - j0 : kTile<A>)};
            keys.k = space.keys.read(head, j0, keys.n, &keys.row);
            W* sums = space.sums + (j0 - begin) * call.x_width;
            switch (block.groups) {
                case 1: send<A, 1>(call, head, block, shares, odd, keys, space, sums); break;
                case 2: send<A, 2>(call, head, block, shares, odd, keys, space, sums); break;
                default: send<A, 3>(call, head, block, shares, odd, keys, space, sums);
            }
        }
    }
    W* out = static_cast<W*>(call.out) + (head * p.n_k + begin) * call.x.width;
    for (int64_t j = 0; j < end - begin; j++)
        __builtin_memcpy(out + j * call.x.width, space.sums + j * call.x_width, sizeof(W) * uint64_t(call.x.width));
}

template <class A>
void apply_transposed_in(const Problem& problem, const RowSums& sums, const Rows& x, void* out, const Parallel& parallel) {
    typedef Work<A> W;
    if (problem.n_heads == 0 || problem.n_k == 0 || x.width == 0) return;
    const int64_t x_width = up_to(x.width, Lanes<W>::n), fits = kStripeBytes / int64_t(sizeof(W)) / x_width;
    const int64_t stripe = fits < kTile<A> ? kTile<A> : fits > 16 * kTile<A> ? 16 * kTile<A> : fits / kTile<A> * kTile<A>;
    Transposed<A> call{problem,
                       sums,
                       x,
                       out,
                       Grid::of<W>(problem.rows),
                       up_to(problem.q.width, Lanes<W>::n * kTerms<A>),
                       x_width,
                       reads_directly<A>(problem.k, problem.n_heads),
                       stripe,
                       (problem.n_k + stripe - 1) / stripe};
    run_tasks(parallel, problem.n_heads * call.stripes, transposed_task<A>, &call);
}

void apply_transposed(const Problem& problem, const RowSums& sums, const Rows& x, void* out, const Parallel& parallel) {
    in_arithmetic(problem, [&](auto as) { apply_transposed_in<typename decltype(as)::type>(problem, sums, x, out, parallel); });
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
