// SPDX-License-Identifier: Apache-2.0
// How far the weight of each row goes: mean and variance of a distance, and a histogram of it by powers of two.
#pragma once

#include "tallies.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// Distances d = at(i) − j, or their absolute. Within a tile they are counted from its middle, so that float holds them
// exactly; tiles are added in double, around the middle of the first of their chunk, and chunks are merged as Chan et al. 1983
// do. So nothing is lost where a key lies a million places away.
// Sums of a few tiles and of a few chunks round less than those of all tiles; in float, double has digits to spare.
template <class W>
constexpr int64_t kChunk = sizeof(W) == 4 ? 1024 : 64;

template <class W>
struct DistanceTally {
    double total[kMaxLanes], mean[kMaxLanes], squares[kMaxLanes];  // of the chunks before
    double sum[3][kMaxLanes];   // of this chunk: sums of weight · (d − middle)^power
    double middle[kMaxLanes];   // of the first tile of the chunk
    int64_t chunk;
    W* bins;  // [bins][lanes]

    void begin(W* memory, int64_t n_bins) {
        for (int lane = 0; lane < kMaxLanes; lane++)
            total[lane] = mean[lane] = squares[lane] = sum[0][lane] = sum[1][lane] = sum[2][lane] = 0;
        chunk = -1;
        bins = memory;
        for (int64_t n = 0; n < n_bins * kGroups * Lanes<W>::n; n++) bins[n] = 0;
    }
    void merge() {
        for (int lane = 0; chunk >= 0 && lane < kMaxLanes; lane++) {
            const double more = sum[0][lane], whole = total[lane] + more;
            if (more != 0) {
                const double from = sum[1][lane] / more, step = from + middle[lane] - mean[lane];
                const double around = sum[2][lane] - sum[1][lane] * from;
                squares[lane] += (around < 0 ? 0 : around) + step * step * total[lane] * more / whole;
                mean[lane] += step * more / whole;
                total[lane] = whole;
            }
            sum[0][lane] = sum[1][lane] = sum[2][lane] = 0;
        }
    }
};

// The bin of a distance: 0 is bin `ahead`, and 1, 2 to 3, 4 to 7, … follow to either side.
QKV_INLINE int64_t bin_of(int64_t distance, const Distances& wanted) {
    const uint64_t size = uint64_t(distance < 0 ? -distance : distance);
    const int64_t power = size ? 64 - __builtin_clzll(size) : 0;
    return wanted.ahead + (distance < 0 && !wanted.absolute ? -power : power);
}

// The bins of distances from least to most.
struct Bins {
    int64_t low, high;
};
QKV_INLINE Bins bins_of(int64_t least, int64_t most, const Distances& wanted) {
    const int64_t low = bin_of(least, wanted), high = bin_of(most, wanted);
    if (!wanted.absolute || least >= 0) return {low, high};
    return {most < 0 ? high : wanted.ahead, low > high ? low : high};
}

// Adds the weight of a run to the bins that it is spread over. d: how far its first key is from each lane.
template <class W, int G>
void add_run(const W* weight, const Distances& wanted, Mask<W> d, const Bins& bins, W* to) {
    constexpr int VL = Lanes<W>::n;
    for (int64_t bin = bins.low; bin <= bins.high; bin++) {
        const int64_t power = bin < wanted.ahead ? wanted.ahead - bin : bin - wanted.ahead;
        const int64_t near = power == 0 ? 0 : int64_t(1) << (power - 1), far = power == 0 ? 0 : 2 * near - 1;
        const bool back = bin >= wanted.ahead;  // what is ahead has negative distances
        const int64_t first = back ? near : -far, last = back ? far : -near;
        const Mask<W> from = Mask<W>{} + Whole<W>(first < -kFar ? -kFar : first);
        const Mask<W> until = Mask<W>{} + Whole<W>(last > kFar ? kFar : last);
        Vector<W> sum{};
        for (int c = 0; c < kRunKeys; c++) {
            Mask<W> away = d - c;
            if (wanted.absolute) away = away < 0 ? -away : away;
            sum += select<W>((away >= from) & (away <= until), load(weight + c * G * VL), Vector<W>{});
        }
        store(to + bin * G * VL, load(to + bin * G * VL) + sum);
    }
}

// Adds the weight of a tile to its bins; at: where lane 0 stands, counted from the tile's first key.
template <class W, int G>
void add_bins(const Weighed<W>& tile, const Distances& wanted, int64_t at, W* bins) {
    constexpr int VL = Lanes<W>::n;
    const Bins all_of = bins_of(at - (tile.part.b - 1), at + tile.rows - 1 - tile.part.a, wanted);
    if (all_of.low == all_of.high) {
        W* to = bins + all_of.low * G * VL;
        for (int g = 0; g < G; g++) store(to + g * VL, load(to + g * VL) + tile.runs.mass[g]);
        return;
    }
    for (int g = 0; g * VL < tile.rows; g++) {
        const int64_t lane = at + g * VL, last = g * VL + VL < tile.rows ? lane + VL - 1 : at + tile.rows - 1;
        const Mask<W> place = places<W>(lane, -kFar, kFar);
        for (int r = tile.first_run(); r < tile.end_of_runs(); r++) {
            const int key = r * kRunKeys, first = key < tile.part.a ? tile.part.a : key;
            const int end = key + kRunKeys > tile.part.b ? tile.part.b : key + kRunKeys;
            const Bins some = bins_of(lane - (end - 1), last - first, wanted);
            W* to = bins + g * VL;
            if (some.low == some.high)
                store(to + some.low * G * VL, load(to + some.low * G * VL) + tile.runs.sum[r][g]);
            else
                add_run<W, G>(tile.weight + (key * G + g) * VL, wanted, place - key, some, to);
        }
    }
}

// Squares around the mean of each lane, mean = first / mass, of distance(g, j).
template <class W, int G, class Distance>
QKV_INLINE void around_mean(const Weighed<W>& tile, const Vector<W>* first, const Distance& distance, Vector<W>* squares) {
    constexpr int VL = Lanes<W>::n;
    for (int g = 0; g < G; g++) {
        const Vector<W> mass = tile.runs.mass[g], mean = select<W>(mass == Vector<W>{}, Vector<W>{}, first[g] / mass);
        squares[g] = Vector<W>{};
        for (int j = tile.part.a; j < tile.part.b; j++) {
            const Vector<W> away = distance(g, j) - mean;
            squares[g] += load(tile.weight + (j * G + g) * VL) * away * away;
        }
    }
}

// Sums of a tile's weight · x and weight · x² for each lane, in double: x is what the distances are counted as.
template <class W, int lanes>
struct Moments {
    alignas(64) W mass[lanes], first[lanes];
    double second[lanes];
};

// Where the mean is far from the middle beside how far the weight is spread, squares around the middle would lose the
// spread: there they are found around the mean. Not where there is so little weight that what is lost is nothing.
template <class W, int G, class Distance>
QKV_INLINE void take_moments(const Weighed<W>& tile, bool exact, const Vector<W>* first, const Vector<W>* second,
                             const Distance& distance, Moments<W, G * Lanes<W>::n>& found) {
    constexpr int VL = Lanes<W>::n;
    alignas(64) W squares[G * VL], narrow[G * VL];
    Mask<W> some{};
    for (int g = 0; g < G; g++) {
        const Vector<W> mass = tile.runs.mass[g], spread = second[g] * mass - first[g] * first[g];
        const Mask<W> here = (spread < second[g] * mass * all(W(0x1p-5))) & (mass > all(W(0x1p-14)));
        store(found.mass + g * VL, mass);
        store(found.first + g * VL, first[g]);
        store(squares + g * VL, second[g]);
        store(narrow + g * VL, select<W>(here, all(W(1)), Vector<W>{}));
        some |= here;
    }
    for (int lane = 0; lane < G * VL; lane++) found.second[lane] = double(squares[lane]);
    if (!exact && !any(some)) return;
    Vector<W> around[G];
    around_mean<W, G>(tile, first, distance, around);
    for (int lane = 0; lane < G * VL; lane++) {
        const double mass = double(found.mass[lane]), sum = double(found.first[lane]);
        if ((exact && mass > 0) || narrow[lane] != 0)
            found.second[lane] = double(around[lane / VL][lane % VL]) + sum * sum / mass;
    }
}

template <class W, int G>
void add_distances(const Weighed<W>& tile, const Distances& wanted, int64_t offset, DistanceTally<W>& tally) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    const int64_t at = tile.row0 + offset - tile.part.j0, chunk = tile.part.j0 / kChunk<W>;
    // near the queries, where distances are small or keys lie to both sides, they are counted from each query
    const bool near = at < 3 * kScanTile && at + lanes > -2 * kScanTile;
    Moments<W, lanes> found;
    if (near) {
        Vector<W> place[G], first[G];
        const auto distance = [&](int g, int j) {
            const Vector<W> d = place[g] - all(W(j));
            return wanted.absolute ? larger(d, -d) : d;
        };
        for (int g = 0; g < G; g++) {
            for (int lane = 0; lane < VL; lane++) place[g][lane] = W(at + g * VL + lane);
            first[g] = Vector<W>{};
            for (int j = tile.part.a; j < tile.part.b; j++) first[g] += load(tile.weight + (j * G + g) * VL) * distance(g, j);
        }
        take_moments<W, G>(tile, true, first, first, distance, found);
    } else {
        const auto distance = [](int, int j) { return all(W(kScanTile / 2 - j)); };
        take_moments<W, G>(tile, false, tile.runs.first, tile.runs.second, distance, found);
    }
    // the distance of lane n: zero + step · n + sign · x
    const double sign = !near && wanted.absolute && at < 0 ? -1 : 1;
    const double zero = near ? 0 : sign * double(at - kScanTile / 2), step = near ? 0 : sign;
    if (chunk != tally.chunk) {
        tally.merge();
        tally.chunk = chunk;
        for (int lane = 0; lane < lanes; lane++) tally.middle[lane] = zero + step * lane;
    }
    for (int lane = 0; lane < lanes; lane++) {
        const double away = zero + step * lane - tally.middle[lane];
        const double mass = double(found.mass[lane]), first = sign * double(found.first[lane]);
        tally.sum[0][lane] += mass;
        tally.sum[1][lane] += first + mass * away;
        tally.sum[2][lane] += found.second[lane] + (2 * first + mass * away) * away;
    }
    add_bins<W, G>(tile, wanted, at, tally.bins);
}

template <class W>
void give_distances(const Distances& wanted, int rows, int lanes, int64_t row, double* histogram, DistanceTally<W>& tally) {
    tally.merge();
    for (int lane = 0; lane < rows; lane++) {
        wanted.mean[row + lane] = tally.mean[lane];
        wanted.variance[row + lane] = tally.total[lane] == 0 ? 0 : tally.squares[lane] / tally.total[lane];
    }
    for (int64_t bin = 0; bin < wanted.ahead + 1 + wanted.back; bin++) {
        double sum = 0;
        for (int lane = 0; lane < rows; lane++) sum += double(tally.bins[bin * lanes + lane]);
        histogram[bin] += sum;
    }
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
