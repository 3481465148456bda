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

// Adds the weight of a tile to its bins; at: where lane 0 stands, counted from the tile's first key.
template <class W, int G>
void add_bins(const Weighed<W>& tile, const Distances& wanted, int64_t at, const Vector<W>* mass, W* bins) {
    constexpr int VL = Lanes<W>::n;
    const int64_t least = at - (tile.part.b - 1), most = at + tile.rows - 1 - tile.part.a;  // of the distances
    int64_t low = bin_of(least, wanted), high = bin_of(most, wanted);
    if (wanted.absolute && least < 0) {
        high = low > high ? low : high;
        low = most < 0 ? bin_of(most, wanted) : wanted.ahead;
    }
    if (low == high) {
        W* to = bins + low * G * VL;
        for (int g = 0; g < G; g++) store(to + g * VL, load(to + g * VL) + mass[g]);
        return;
    }
    for (int64_t bin = low; bin <= high; bin++) {
        const int64_t power = bin < wanted.ahead ? wanted.ahead - bin : bin - wanted.ahead;
        const int64_t near = power == 0 ? 0 : int64_t(1) << (power - 1), far = power == 0 ? 0 : 2 * near - 1;
        const bool back = bin >= wanted.ahead;  // what is ahead has negative distances
        const int64_t first = back ? near : -far, last = back ? far : -near;
        W* to = bins + bin * G * VL;
        for (int g = 0; g < G; g++) {
            Vector<W> sum{};
            const Mask<W> place = places<W>(at + g * VL, -kFar, kFar);
            const Mask<W> from = Mask<W>{} + Whole<W>(first < -kFar ? -kFar : first);
            const Mask<W> until = Mask<W>{} + Whole<W>(last > kFar ? kFar : last);
            for (int j = tile.part.a; j < tile.part.b; j++) {
                Mask<W> d = place - j;
                if (wanted.absolute) d = d < 0 ? -d : d;
                sum += select<W>((d >= from) & (d <= until), load(tile.weight + (j * G + g) * VL), Vector<W>{});
            }
            store(to + g * VL, load(to + g * VL) + sum);
        }
    }
}

// Mass, mean and squares around that mean of each lane; near: distances from the query, else from the middle of the tile.
template <class W, int G, bool kNear>
QKV_INLINE void spread_tile(const Weighed<W>& tile, bool absolute, int64_t at, Vector<W>* mass, Vector<W>* mean,
                            Vector<W>* squares) {
    constexpr int VL = Lanes<W>::n;
    Vector<W> place[G], first[G];
    for (int g = 0; g < G; g++) {
        mass[g] = first[g] = squares[g] = place[g] = Vector<W>{};
        for (int lane = 0; kNear && lane < VL; lane++) place[g][lane] = W(at + g * VL + lane);
    }
    const auto distance = [&](int g, int j) {
        if (!kNear) return all(W(kScanTile / 2 - j));
        const Vector<W> d = place[g] - all(W(j));
        return absolute ? larger(d, -d) : d;
    };
    for (int j = tile.part.a; j < tile.part.b; j++)
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            const Vector<W> w = load(tile.weight + (j * G + g) * VL);
            mass[g] += w;
            first[g] += w * distance(g, j);
        }
    for (int g = 0; g < G; g++) mean[g] = select<W>(mass[g] == Vector<W>{}, Vector<W>{}, first[g] / mass[g]);
    for (int j = tile.part.a; j < tile.part.b; j++)
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            const Vector<W> away = distance(g, j) - mean[g];
            squares[g] += load(tile.weight + (j * G + g) * VL) * away * away;
        }
}

template <class W, int G>
void add_distances(const Weighed<W>& tile, const Distances& wanted, int64_t offset, DistanceTally<W>& tally) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    const int64_t at = tile.row0 + offset - tile.part.j0, chunk = tile.part.j0 / kChunk<W>;
    const bool near = at < 3 * kScanTile && at + lanes > -2 * kScanTile;
    Vector<W> mass[G], mean[G], squares[G];
    if (near)
        spread_tile<W, G, true>(tile, wanted.absolute, at, mass, mean, squares);
    else
        spread_tile<W, G, false>(tile, wanted.absolute, at, mass, mean, squares);
    alignas(64) W m[lanes], x[lanes], s[lanes];
    for (int g = 0; g < G; g++) {
        store(m + g * VL, mass[g]);
        store(x + g * VL, mean[g]);
        store(s + g * VL, squares[g]);
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
    add_bins<W, G>(tile, wanted, at, mass, tally.bins);
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
