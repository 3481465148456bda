// SPDX-License-Identifier: Apache-2.0
// How far the weight of each row goes: mean and variance of a distance, and a histogram of it by powers of two.
#pragma once

#include "tallies.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// Distances d = at(i) − j, or their absolute. Within a tile they are counted from a place near it, so that float holds them
// exactly, and spread around the tile's own mean; tiles are added in double, around the mean of the first of their chunk, and
// chunks are merged as Chan et al. 1983 do. So nothing is lost where a key lies a million places away.
// Sums of a few tiles and of a few chunks round less than those of all tiles; in float, double has digits to spare.
template <class W>
constexpr int64_t kChunk = sizeof(W) == 4 ? 1024 : 64;

template <class W>
struct DistanceTally {
    double total[kMaxLanes], mean[kMaxLanes], squares[kMaxLanes];  // of the chunks before
    double sum[3][kMaxLanes];   // of this chunk: sums of weight · (d − middle)^power
    double middle[kMaxLanes];   // where the first tile of the chunk has its mean
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

// A tile's moments of each lane: how far from where distances are counted its mean is, and squares around that.
template <class W>
struct Moments {
    Vector<W> mean[kGroups], squares[kGroups];
};

// Squares around the mean of distance(g, j).
template <class W, int G, class Distance>
QKV_INLINE void around_mean(const Weighed<W>& tile, const Distance& distance, const Mask<W>* where, Moments<W>& found) {
    constexpr int VL = Lanes<W>::n;
    for (int g = 0; g < G; g++) {
        Vector<W> squares{};
        for (int j = tile.part.a; j < tile.part.b; j++) {
            const Vector<W> away = distance(g, j) - found.mean[g];
            squares += load(tile.weight + (j * G + g) * VL) * away * away;
        }
        found.squares[g] = select<W>(where[g], squares, found.squares[g]);
    }
}

template <class W>
QKV_INLINE Vector<W> mean_of(Vector<W> first, Vector<W> mass) {
    return select<W>(mass == Vector<W>{}, Vector<W>{}, first / mass);
}

// Of distance(g, j), step by step.
template <class W, int G, class Distance>
QKV_INLINE void take_moments(const Weighed<W>& tile, const Distance& distance, Moments<W>& found) {
    constexpr int VL = Lanes<W>::n;
    Mask<W> every[G];
    for (int g = 0; g < G; g++) {
        Vector<W> first{};
        for (int j = tile.part.a; j < tile.part.b; j++) first += load(tile.weight + (j * G + g) * VL) * distance(g, j);
        found.mean[g] = mean_of<W>(first, tile.runs.mass[g]);
        every[g] = ~Mask<W>{};
    }
    around_mean<W, G>(tile, distance, every, found);
}

// From the middle of the tile, out of its sums. Where the mean is far from there beside how far the weight is spread, squares
// around the middle have lost the spread: there they are summed around the mean. Not where there is so little weight that what
// is lost is nothing.
template <class W, int G>
QKV_INLINE void take_moments(const Weighed<W>& tile, Moments<W>& found) {
    Mask<W> narrow[G], some{};
    for (int g = 0; g < G; g++) {
        const Vector<W> mass = tile.runs.mass[g], second = tile.runs.second[g];
        found.mean[g] = mean_of<W>(tile.runs.first[g], mass);
        found.squares[g] = larger(Vector<W>{}, second - tile.runs.first[g] * found.mean[g]);
        narrow[g] = (found.squares[g] < second * all(W(0x1p-5))) & (mass > all(W(0x1p-14)));
        some |= narrow[g];
    }
    if (any(some)) around_mean<W, G>(tile, [](int, int j) { return all(W(kScanTile / 2 - j)); }, narrow, found);
}

template <class W, int G>
void add_distances(const Weighed<W>& tile, const Distances& wanted, int64_t offset, DistanceTally<W>& tally) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    const int64_t at = tile.row0 + offset - tile.part.j0, chunk = tile.part.j0 / kChunk<W>;
    // near the queries, where distances are small or keys lie to both sides, they are counted from each query
    const bool near = at < 3 * kScanTile && at + lanes > -2 * kScanTile;
    Moments<W> found;
    if (near) {
        Vector<W> place[G];
        for (int g = 0; g < G; g++)
            for (int lane = 0; lane < VL; lane++) place[g][lane] = W(at + g * VL + lane);
        take_moments<W, G>(tile, [&](int g, int j) {
            const Vector<W> d = place[g] - all(W(j));
            return wanted.absolute ? larger(d, -d) : d;
        }, found);
    } else {
        take_moments<W, G>(tile, found);
    }
    alignas(64) W m[lanes], x[lanes], s[lanes];
    for (int g = 0; g < G; g++) {
        store(m + g * VL, tile.runs.mass[g]);
        store(x + g * VL, found.mean[g]);
        store(s + g * VL, found.squares[g]);
    }
    const double sign = !near && wanted.absolute && at < 0 ? -1 : 1;
    const double zero = near ? 0 : sign * double(at - kScanTile / 2), step = near ? 0 : sign;
    if (chunk != tally.chunk) {
        tally.merge();
        tally.chunk = chunk;
        for (int lane = 0; lane < lanes; lane++) tally.middle[lane] = sign * double(x[lane]) + zero + step * lane;
    }
    for (int lane = 0; lane < lanes; lane++) {
        const double away = sign * double(x[lane]) + zero + step * lane - tally.middle[lane], part = double(m[lane]) * away;
        tally.sum[0][lane] += double(m[lane]);
        tally.sum[1][lane] += part;
        tally.sum[2][lane] += double(s[lane]) + part * away;
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
