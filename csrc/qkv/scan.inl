// SPDX-License-Identifier: Apache-2.0
// One walk over the weights, with everything that is counted on the way. A task is a stripe of rows of one head: a few blocks
// of queries pass over the keys together, so that keys are read once for them all. What a head has as a whole is kept for
// each stripe.

#include "kernel.h"
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
};

// The tallies of a block, in the scratch of its task.
template <class W>
struct Tallies {
    RowTally<W> rows;
    Vector<W>* bands;  // [n_bands][kGroups]
    Vector<W>* pairs;  // [n_pairs][kGroups]
    Mask<W>* own;      // the same: the tokens of the lanes
    TopTally<W>* tops;  // [n_tops]
    DistanceTally<W>* distances;  // [n_distances]
    W** bins;
    PixelRows<W>* pixels;  // [n_pictures]
    W** shares;  // [n_labels][labels][lanes], null where they are too many
};

template <class W>
void take_tallies(Arena& arena, const Scan& scan, Tallies<W>& tallies) {
    constexpr int64_t lanes = kGroups * Lanes<W>::n;
    const bool real = arena.base;  // else memory is only counted
    tallies.bands = arena.take<Vector<W>>(scan.n_bands * kGroups);
    tallies.pairs = arena.take<Vector<W>>(scan.n_pairs * kGroups);
    tallies.own = arena.take<Mask<W>>(scan.n_pairs * kGroups);
    tallies.tops = arena.take<TopTally<W>>(scan.n_tops);
    for (int n = 0; n < scan.n_tops; n++) {
        TopTally<W> top{scan.tops[n].n, TopTally<W>::row_of(scan.tops[n].n), nullptr, nullptr, nullptr};
        if (top.top <= kSorted) {
            top.best = arena.take<W>(top.row * lanes);
            top.key = arena.take<Whole<W>>(top.row * lanes);
            top.least = arena.take<W>(lanes);
        }
        if (real) tallies.tops[n] = top;
    }
    tallies.pixels = arena.take<PixelRows<W>>(scan.n_pictures);
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
    Counted<A>* counted;  // [kScanBlocks]

    int64_t take(Arena arena, const ScanCall<A>& call) {
        constexpr int64_t lanes = kGroups * Lanes<Work<A>>::n;
        const Problem& p = call.problem;
        score.take(arena, p.k.width, false, true);
        const int64_t width = up_to(p.k.width, kTerms<A>);
        keys = {&p.k, width, call.k_direct, arena.take<Number<A>>(kScanTile * width)};
        rows = arena.take<Number<A>>(call.q_width * lanes);
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
void begin_tallies(const ScanCall<A>& call, int64_t head, const Block<A>& block, int64_t stripe_row, Tallies<Work<A>>& tallies) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n, lanes = kGroups * VL;
    const Scan& scan = call.scan;
    tallies.rows.begin();
    for (int n = 0; n < scan.n_bands * kGroups; n++) tallies.bands[n] = Vector<W>{};
    for (int n = 0; n < scan.n_pairs; n++) {
        const Pairs& pairs = scan.pairs[n];
        const int32_t* row = pairs.row + pairs.row_at[head] + block.row0;
        for (int lane = 0; lane < block.groups * VL; lane++)
            tallies.own[n * kGroups + lane / VL][lane % VL] = lane < block.rows ? row[lane] : -1;
        for (int g = 0; g < kGroups; g++) tallies.pairs[n * kGroups + g] = Vector<W>{};
    }
    for (int n = 0; n < scan.n_tops; n++)
        if (tallies.tops[n].best) tallies.tops[n].begin();
    for (int n = 0; n < scan.n_distances; n++)
        tallies.distances[n].begin(tallies.bins[n], scan.distances[n].ahead + 1 + scan.distances[n].back);
    for (int n = 0; n < scan.n_pictures; n++)
        tallies.pixels[n].begin(block.row0, block.rows, stripe_row, scan.pictures[n].height, call.problem.n_q);
    for (int n = 0; n < scan.n_labels; n++)
        for (int64_t at = 0; tallies.shares[n] && at < scan.labels[n].n * lanes; at++) tallies.shares[n][at] = 0;
}

// One block over one tile of keys.
template <class A, int G>
__attribute__((noinline)) void scan_tile(const ScanCall<A>& call, int64_t head, int64_t stripe, Counted<A>& counted,
                                         const Keys<A>& keys, ScoreSpace<A>& space) {
    typedef Work<A> W;
    const Problem& p = call.problem;
    const Scan& scan = call.scan;
    const Block<A>& block = counted.block;
    const Part part = part_of(block, keys.j0, keys.n);
    if (part.a >= part.b) return;
    const bool hides = weigh<A, G>(p, head, block, counted.shares, part, keys, space);
    constexpr int lanes = G * Lanes<W>::n;
    W* weight = space.scores;
    for (int n = 0; n < part.a * lanes; n++) weight[n] = 0;
    for (int n = part.b * lanes; n < keys.n * lanes; n++) weight[n] = 0;
    const int64_t row = head * p.rows.size() + block.row0 - p.rows.begin, place = head * call.stripes + stripe;
    const Weighed<W> tile{block.row0, block.rows, part, weight, hides ? space.seen : nullptr, counted.shares.any_nan, row};
    Tallies<W>& tallies = counted.tallies;
    if (scan.mass || scan.squares || scan.slope || scan.largest) tallies.rows.template add<G>(tile, scan);
    if (scan.received) add_columns<W, G>(tile, static_cast<W*>(scan.received) + place * p.n_k);
    for (int n = 0; n < scan.n_labels; n++) {
        if (tallies.shares[n])
            add_labels<W, G>(tile, scan.labels[n], keys.n, tallies.shares[n]);
        else
            add_many_labels<W, G>(tile, scan.labels[n], keys.n);
    }
    for (int n = 0; n < scan.n_pictures; n++) {
        const Picture& picture = scan.pictures[n];
        double* value = picture.value + place * picture.rows_of_stripe * picture.width;
        if (picture.largest)
            add_picture<W, G, true>(tile, picture, keys.n, tallies.pixels[n], value);
        else
            add_picture<W, G, false>(tile, picture, keys.n, tallies.pixels[n], value);
    }
    for (int n = 0; n < scan.n_bands; n++)
        add_band<W, G>(tile, scan.bands[n], scan.bands[n].offset[head], tallies.bands + n * kGroups);
    for (int n = 0; n < scan.n_pairs; n++)
        add_pairs<W, G>(tile, scan.pairs[n], head, tallies.own + n * kGroups, tallies.pairs + n * kGroups);
    for (int n = 0; n < scan.n_distances; n++)
        add_distances<W, G>(tile, scan.distances[n], scan.distances[n].offset[head], tallies.distances[n]);
    for (int n = 0; n < scan.n_tops; n++) {
        const Top& top = scan.tops[n];
        if (tallies.tops[n].best)
            add_top<W, G>(tile, tallies.tops[n]);
        else
            add_long_top<W, G>(tile, top.n, static_cast<W*>(top.weight), top.key);
    }
}

template <class A>
void give_tallies(const ScanCall<A>& call, int64_t head, int64_t stripe, const Block<A>& block, Tallies<Work<A>>& tallies) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Scan& scan = call.scan;
    const int64_t row = head * call.problem.rows.size() + block.row0 - call.problem.rows.begin;
    tallies.rows.give(scan, block.rows, row);
    for (int lane = 0; lane < block.rows; lane++) {
        for (int n = 0; n < scan.n_bands; n++)
            static_cast<W*>(scan.bands[n].mass)[row + lane] = tallies.bands[n * kGroups + lane / VL][lane % VL];
        for (int n = 0; n < scan.n_pairs; n++)
            static_cast<W*>(scan.pairs[n].mass)[row + lane] = tallies.pairs[n * kGroups + lane / VL][lane % VL];
        for (int n = 0; n < scan.n_tops; n++)
            for (int64_t t = 0; tallies.tops[n].best && t < scan.tops[n].n; t++) {
                const int64_t from = lane * tallies.tops[n].row + t, to = (row + lane) * scan.tops[n].n + t;
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
                case 1: scan_tile<A, 1>(call, head, stripe, counted, keys, space.score); break;
                case 2: scan_tile<A, 2>(call, head, stripe, counted, keys, space.score); break;
                default: scan_tile<A, 3>(call, head, stripe, counted, keys, space.score);
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
            begin_tallies(call, head, counted.block, begin, counted.tallies);
        }
        if (!scan_blocks(call, head, stripe, count, double(index), double(grid.blocks), space)) return;
        for (int b = 0; b < count; b++)
            give_tallies(call, head, stripe, space.counted[b].block, space.counted[b].tallies);
    }
}

template <class A>
void scan_in(const Problem& problem, const RowSums& sums, const Scan& wanted, const Parallel& parallel) {
    typedef Work<A> W;
    if (problem.n_heads == 0 || problem.rows.size() == 0) return;
    ScanCall<A> call{problem, sums, wanted, up_to(problem.q.width, Lanes<W>::n * kTerms<A>),
                     reads_directly<A>(problem.k, problem.n_heads), (problem.rows.size() + wanted.stripe - 1) / wanted.stripe};
    run_tasks(parallel, problem.n_heads * call.stripes, scan_task<A>, &call);
}

void scan(const Problem& problem, const RowSums& sums, const Scan& wanted, const Parallel& parallel) {
    in_arithmetic(problem, [&](auto as) { scan_in<typename decltype(as)::type>(problem, sums, wanted, parallel); });
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
