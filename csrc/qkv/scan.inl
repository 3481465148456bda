// SPDX-License-Identifier: Apache-2.0
// One walk over the weights, with everything that is counted on the way. A task is a stripe of rows of one head: a few blocks
// of queries pass over the keys together, so that keys are read once for them all. What a head has as a whole is kept for
// each stripe.

#include "kernel.h"
#include "pictures.h"
#include "spread.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kScanBlocks = 6;     // blocks that pass over the keys together
constexpr int64_t kLabels = 512;  // of all lists, that are summed in the scratch: 96 KiB a block in float

template <class A>
struct ScanCall {
    const Problem& problem;
    const RowSums& sums;
    const Scan& scan;
    int64_t q_width;
    bool k_direct;
    int64_t stripes;  // a head
    Sweep sweep;
};

// The tallies of a block, in the scratch of its task.
template <class W>
struct Tallies {
    RowTally<W> rows;
    Vector<W>* bands;  // [n_bands][kGroups]
    PairTally<W>* pairs;  // [n_pairs]
    TopTally<W>* tops;  // [n_tops]
    DistanceTally<W>* distances;  // [n_distances]
    W** bins;
    PixelTally<W>* pixels;  // [n_pictures]
    W** shares;  // [n_labels][labels][lanes], null where they are too many
};

template <class W>
void take_tallies(Arena& arena, const Scan& scan, Tallies<W>& tallies) {
    constexpr int64_t lanes = kGroups * Lanes<W>::n;
    const bool real = arena.base;  // else memory is only counted
    tallies.bands = arena.take<Vector<W>>(scan.n_bands * kGroups);
    tallies.pairs = arena.take<PairTally<W>>(scan.n_pairs);
    tallies.tops = arena.take<TopTally<W>>(scan.n_tops);
    for (int n = 0; n < scan.n_tops; n++) {
        TopTally<W> top{scan.tops[n].n, nullptr, nullptr, nullptr, nullptr, nullptr};
        if (top.top <= kSorted) top.take(arena);
        if (real) tallies.tops[n] = top;
    }
    tallies.pixels = arena.take<PixelTally<W>>(scan.n_pictures);
    tallies.shares = arena.take<W*>(scan.n_labels);
    int64_t room = kLabels;
    for (int n = 0; n < scan.n_labels; n++) {
        const bool fits = scan.labels[n].n <= room;
        W* shares = fits ? arena.take<W>(scan.labels[n].n * lanes) : nullptr;
        if (fits) room -= scan.labels[n].n;
        if (real) tallies.shares[n] = shares;
    }
    tallies.distances = arena.take<DistanceTally<W>>(scan.n_distances);
    tallies.bins = arena.take<W*>(scan.n_distances);
    for (int n = 0; n < scan.n_distances; n++) {
        W* bins = arena.take<W>((scan.distances[n].ahead + 1 + scan.distances[n].back) * lanes);
        if (real) tallies.bins[n] = bins;
    }
}

// A block on its way.
template <class A>
struct Counted {
    Block<A> block;
    Shares<Work<A>> shares;
    Tallies<Work<A>> tallies;
    Query<A>* q;
};

template <class A>
struct ScanSpace {
    ScoreSpace<A> score;
    Reader<A> keys;
    Number<A>* rows;
    Runs<Work<A>>* runs;
    Counted<A>* counted;  // [kScanBlocks]

    int64_t take(Arena arena, const ScanCall<A>& call) {
        constexpr int64_t lanes = kGroups * Lanes<Work<A>>::n;
        const Problem& p = call.problem;
        score.take(arena, p.k.width, false, true);
        const int64_t width = up_to(p.k.width, kTerms<A>);
        keys = {&p.k, width, call.k_direct, arena.take<Number<A>>(kScanTile * width)};
        rows = arena.take<Number<A>>(call.q_width * lanes);
        runs = arena.take<Runs<Work<A>>>(1);
        counted = arena.take<Counted<A>>(kScanBlocks);
        for (int b = 0; b < kScanBlocks; b++) {
            Counted<A> one{};
            one.q = arena.take<Query<A>>(call.q_width / kTerms<A> * lanes);
            take_tallies(arena, call.scan, one.tallies);
            if (arena.base) counted[b] = one;
        }
        return arena.used;
    }
};

template <class A>
void begin_tallies(const ScanCall<A>& call, int64_t head, int64_t stripe, const Block<A>& block, Tallies<Work<A>>& tallies) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n, lanes = kGroups * VL;
    const Scan& scan = call.scan;
    tallies.rows.begin();
    for (int n = 0; n < scan.n_bands * kGroups; n++) tallies.bands[n] = Vector<W>{};
    for (int n = 0; n < scan.n_pairs; n++)
        tallies.pairs[n].begin(scan.pairs[n].row + scan.pairs[n].row_at[head] + block.row0, block.rows);
    for (int n = 0; n < scan.n_tops; n++)
        if (tallies.tops[n].best) tallies.tops[n].begin();
    for (int n = 0; n < scan.n_distances; n++)
        tallies.distances[n].begin(tallies.bins[n], scan.distances[n].ahead + 1 + scan.distances[n].back);
    for (int n = 0; n < scan.n_pictures; n++) {
        const Picture& wanted = scan.pictures[n];
        const int64_t row = call.problem.rows.begin + stripe * scan.stripe;  // the stripe's first; does it begin a pixel row?
        const int64_t first = row * wanted.height / call.problem.n_q, before = (row - 1) * wanted.height / call.problem.n_q;
        tallies.pixels[n].begin(wanted, block.row0, block.rows, call.problem.n_q,
                                wanted.value + head * wanted.height * wanted.width, stripe && first == before ? first : -1,
                                wanted.carried + (head * call.stripes + stripe) * wanted.width);
    }
    for (int n = 0; n < scan.n_labels; n++)
        for (int64_t at = 0; tallies.shares[n] && at < scan.labels[n].n * lanes; at++) tallies.shares[n][at] = 0;
}

// One block over one tile of keys.
template <class A, int G>
__attribute__((noinline)) void scan_tile(const ScanCall<A>& call, int64_t head, int64_t stripe, Counted<A>& counted,
                                         const Keys<A>& keys, ScanSpace<A>& space) {
    typedef Work<A> W;
    const Problem& p = call.problem;
    const Scan& scan = call.scan;
    const Block<A>& block = counted.block;
    const Part part = part_of(block, keys.j0, keys.n);
    if (part.a >= part.b) return;
    const bool hides = weigh<A, G>(p, head, block, counted.shares, part, keys, space.score);
    constexpr int lanes = G * Lanes<W>::n;
    W* weight = space.score.scores;
    for (int n = 0; n < part.a * lanes; n++) weight[n] = 0;
    for (int n = part.b * lanes; n < up_to(keys.n, kRunKeys) * lanes; n++) weight[n] = 0;
    if (call.sweep.any) sum_runs<W, G>(call.sweep, weight, part, *space.runs);
    const int64_t row = head * p.rows.size() + block.row0 - p.rows.begin;
    const W* seen = hides ? space.score.seen : nullptr;
    const Weighed<W> tile{block.row0, block.rows, part, weight, seen, counted.shares.any_nan, row, *space.runs};
    Tallies<W>& tallies = counted.tallies;
    if (scan.mass || call.sweep.more) tallies.rows.template add<G>(tile.runs, call.sweep.more);
    for (int n = 0; n < scan.n_tops; n++) {
        const Top& top = scan.tops[n];
        if (tallies.tops[n].best)
            top.n <= kFewSorted ? add_top<W, G, kFewSorted>(tile, tallies.tops[n]) : add_top<W, G, kSorted>(tile, tallies.tops[n]);
        else
            add_long_top<W, G>(tile, top.n, static_cast<W*>(top.weight), top.key);
    }
    if (scan.received) add_columns<W, G>(tile, static_cast<W*>(scan.received) + (head * call.stripes + stripe) * p.n_k);
    for (int n = 0; n < scan.n_labels; n++) {
        if (tallies.shares[n])
            add_labels<W, G>(tile, scan.labels[n], keys.n, tallies.shares[n]);
        else
            add_many_labels<W, G>(tile, scan.labels[n], keys.n);
    }
    for (int n = 0; n < scan.n_pictures; n++) {
        if (scan.pictures[n].largest)
            add_picture<W, G, true>(tile, scan.pictures[n], p.n_k, keys.n, tallies.pixels[n]);
        else
            add_picture<W, G, false>(tile, scan.pictures[n], p.n_k, keys.n, tallies.pixels[n]);
    }
    for (int n = 0; n < scan.n_bands; n++)
        add_band<W, G>(tile, scan.bands[n], scan.bands[n].offset[head], tallies.bands + n * kGroups);
    for (int n = 0; n < scan.n_pairs; n++)
        add_pairs<W, G>(tile, scan.pairs[n], head, tallies.pairs[n]);
    for (int n = 0; n < scan.n_distances; n++)
        add_distances<W, G>(tile, scan.distances[n], scan.distances[n].offset[head], tallies.distances[n]);
}

template <class A>
void give_tallies(const ScanCall<A>& call, int64_t head, int64_t stripe, const Block<A>& block, bool any_nan,
                  Tallies<Work<A>>& tallies) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Scan& scan = call.scan;
    const int64_t row = head * call.problem.rows.size() + block.row0 - call.problem.rows.begin;
    tallies.rows.give(scan, block.rows, row);
    for (int n = 0; n < scan.n_pictures; n++) {
        if (scan.pictures[n].largest)
            tallies.pixels[n].template give<true>(any_nan);
        else
            tallies.pixels[n].template give<false>(false);
    }
    for (int n = 0; n < scan.n_tops; n++)
        if (tallies.tops[n].best) tallies.tops[n].settle_all();
    for (int lane = 0; lane < block.rows; lane++) {
        for (int n = 0; n < scan.n_bands; n++)
            static_cast<W*>(scan.bands[n].mass)[row + lane] = tallies.bands[n * kGroups + lane / VL][lane % VL];
        for (int n = 0; n < scan.n_pairs; n++)
            static_cast<W*>(scan.pairs[n].mass)[row + lane] = tallies.pairs[n].mass[lane / VL][lane % VL];
        for (int n = 0; n < scan.n_tops; n++)
            for (int64_t t = 0; tallies.tops[n].best && t < scan.tops[n].n; t++) {
                const int64_t from = t * tallies.tops[n].kLanes + lane, to = (row + lane) * scan.tops[n].n + t;
                static_cast<W*>(scan.tops[n].weight)[to] = tallies.tops[n].best[from];
                scan.tops[n].key[to] = tallies.tops[n].key[from];
            }
    }
    for (int n = 0; n < scan.n_labels; n++)
        for (int64_t label = 0; tallies.shares[n] && label < scan.labels[n].n; label++)
            for (int lane = 0; lane < block.rows; lane++)
                static_cast<W*>(scan.labels[n].share)[(row + lane) * scan.labels[n].n + label] =
                    tallies.shares[n][label * block.groups * VL + lane];
    for (int n = 0; n < scan.n_distances; n++) {
        const Distances& wanted = scan.distances[n];
        const int64_t bins = wanted.ahead + 1 + wanted.back;
        give_distances(wanted, block.rows, block.groups * VL, row,
                       wanted.histogram + (head * call.stripes + stripe) * bins, tallies.distances[n]);
    }
}

// Blocks over the keys that one of them sees; before them so many of the task's were done. False where the call is to end
// early.
template <class A>
bool scan_blocks(const ScanCall<A>& call, int64_t head, int64_t stripe, int count, double begun, double all,
                 ScanSpace<A>& space) {
    const Problem& p = call.problem;
    int64_t first = p.n_k, last = 0;
    for (int b = 0; b < count; b++) {
        const Block<A>& block = space.counted[b].block;
        first = block.first_min < first ? block.first_min : first;
        last = block.last_max > last ? block.last_max : last;
    }
    for (int64_t j0 = first / kScanTile * kScanTile; j0 < last; j0 += kScanTile) {
        if (j0 % (1 << 13) == 0 && !go_on((begun + count * double(j0) / double(p.n_k)) / all)) return false;
        Keys<A> keys{nullptr, 0, j0, int(p.n_k - j0 < kScanTile ? p.n_k - j0 : kScanTile)};
        keys.k = space.keys.read(head, j0, keys.n, &keys.row);
        for (int b = 0; b < count; b++) {
            if (b == count - 1 && call.k_direct && j0 + 2 * kScanTile <= last) keys.soon = keys.behind(kScanTile, p.k.width);
            Counted<A>& counted = space.counted[b];
            switch (counted.block.groups) {
                case 1: scan_tile<A, 1>(call, head, stripe, counted, keys, space); break;
                case 2: scan_tile<A, 2>(call, head, stripe, counted, keys, space); break;
                default: scan_tile<A, 3>(call, head, stripe, counted, keys, space);
            }
        }
    }
    return true;
}

template <class A>
void scan_task(void* context, int64_t task) {
    const ScanCall<A>& call = *static_cast<const ScanCall<A>*>(context);
    const Problem& p = call.problem;
    ScanSpace<A> space{};
    char* memory = static_cast<char*>(scratch(space.take(Arena{nullptr}, call)));
    if (!memory) return;
    space.take(Arena{memory}, call);
    const int64_t head = task / call.stripes, stripe = call.stripes - 1 - task % call.stripes;
    const int64_t begin = p.rows.begin + stripe * call.scan.stripe;
    const int64_t end = begin + call.scan.stripe < p.rows.end ? begin + call.scan.stripe : p.rows.end;
    const Grid grid = Grid::of<Work<A>>({begin, end});
    for (int64_t index = 0; index < grid.blocks; index += kScanBlocks) {
        const int count = int(grid.blocks - index < kScanBlocks ? grid.blocks - index : kScanBlocks);
        for (int b = 0; b < count; b++) {
            Counted<A>& counted = space.counted[b];
            begin_block(p, grid, head, index + b, call.q_width, counted.q, space.rows, counted.block);
            counted.shares.take(p, head, counted.block, call.sums);
            begin_tallies(call, head, stripe, counted.block, counted.tallies);
        }
        if (!scan_blocks(call, head, stripe, count, double(index), double(grid.blocks), space)) return;
        for (int b = 0; b < count; b++)
            give_tallies(call, head, stripe, space.counted[b].block, space.counted[b].shares.any_nan, space.counted[b].tallies);
    }
}

// What the tallies of a scan need of the sweep.
QKV_INLINE Sweep sweep_of(const Scan& scan) {
    Sweep sweep{false, scan.squares || scan.slope || scan.largest || scan.n_tops > 0, scan.n_distances > 0};
    for (int n = 0; n < scan.n_pictures; n++) sweep.more |= scan.pictures[n].largest;
    sweep.any = sweep.more || sweep.moments || scan.mass || scan.n_pictures > 0;
    return sweep;
}

template <class A>
void scan_in(const Problem& problem, const RowSums& sums, const Scan& wanted, const Parallel& parallel) {
    typedef Work<A> W;
    if (problem.n_heads == 0 || problem.rows.size() == 0) return;
    ScanCall<A> call{problem, sums, wanted, up_to(problem.q.width, Lanes<W>::n * kTerms<A>),
                     reads_directly<A>(problem.k, problem.n_heads), (problem.rows.size() + wanted.stripe - 1) / wanted.stripe,
                     sweep_of(wanted)};
    run_tasks(parallel, problem.n_heads * call.stripes, scan_task<A>, &call);
}

void scan(const Problem& problem, const RowSums& sums, const Scan& wanted, const Parallel& parallel) {
    in_arithmetic(problem, [&](auto as) { scan_in<typename decltype(as)::type>(problem, sums, wanted, parallel); });
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
