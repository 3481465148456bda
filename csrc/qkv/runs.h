// SPDX-License-Identifier: Apache-2.0
// Sums of a tile of weights, [key][lanes], as several tallies need them: one sweep finds them all. Runs of a few keys are
// summed by themselves, these as a tile, and tiles are added to what was there before: a sum of thousands of terms, taken one
// by one, would lose digits. Lanes behind the last query weigh 0.
#pragma once

#include "scan.h"
#include "weigh.h"

namespace qkv {
namespace QKV_ISA {
namespace {

constexpr int kRunKeys = 8;  // keys
constexpr int kRuns = kScanTile / kRunKeys;

// What the sweep is to find beside the sums of runs.
struct Sweep {
    bool any, more, moments;
};

// Of a tile: sums, and largest weights, of each run; and of all its keys.
template <class W>
struct Runs {
    Vector<W> sum[kRuns][kGroups], largest[kRuns][kGroups];
    Vector<W> mass[kGroups], squares[kGroups], most[kGroups];
    Vector<W> first[kGroups], second[kGroups];  // weight · x and weight · x², x = kScanTile / 2 − the key's place
};

// A tile of weights, the block's queries and the keys that somebody sees: all that a tally is told.
template <class W>
struct Weighed {
    int64_t row0;  // the block's first query, and how many
    int rows;
    const Part& part;
    const W* weight;
    const W* seen;  // null where every lane sees every key
    bool any_nan;   // a row without a softmax is among them
    int64_t row;    // the place of the first query among the rows of the call
    const Runs<W>& runs;

    // Runs of which somebody sees a key.
    int first_run() const { return part.a / kRunKeys; }
    int end_of_runs() const { return (part.b + kRunKeys - 1) / kRunKeys; }
};

// The sums of runs, and what else is wanted: squares and the largest (kMore), moments (kMoments). Keys at the same distance
// from the middle of a run are taken together, so that less is multiplied, and nothing waits long for the sum before.
template <class W, int G, bool kMore, bool kMoments>
void sum_runs(const W* weight, const Part& part, Runs<W>& runs) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    static_assert(kRunKeys == 8, "four pairs");
    const int from = part.a / kRunKeys, end = (part.b + kRunKeys - 1) / kRunKeys;
    for (int g = 0; g < G; g++) {
        Vector<W> mass{}, squares{}, most{}, first{}, second{};
        for (int r = 0; r < from; r++) runs.sum[r][g] = runs.largest[r][g] = Vector<W>{};
        for (int r = end; r < kRuns; r++) runs.sum[r][g] = runs.largest[r][g] = Vector<W>{};
        for (int r = from; r < end; r++) {
            Vector<W> pair[4], apart[4], square[2], largest{};
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                const Vector<W> x = load(weight + (r * kRunKeys + c) * lanes + g * VL);
                const Vector<W> y = load(weight + (r * kRunKeys + kRunKeys - 1 - c) * lanes + g * VL);
                pair[c] = x + y;
                if (kMoments) apart[c] = x - y;
                if (kMore) {
                    largest = larger(largest, larger(x, y));
                    square[0] = c ? square[0] + x * x : x * x;
                    square[1] = c ? square[1] + y * y : y * y;
                }
            }
            const Vector<W> sum = (pair[0] + pair[1]) + (pair[2] + pair[3]);
            runs.sum[r][g] = sum;
            mass += sum;
            if (kMore) {
                runs.largest[r][g] = largest;
                most = larger(most, largest);
                squares += square[0] + square[1];
            }
            if (kMoments) {  // around the middle of the run, 3.5 keys from its first: then around that of the tile
                const Vector<W> once = (all(W(3.5)) * apart[0] + all(W(2.5)) * apart[1]) +
                                       (all(W(1.5)) * apart[2] + all(W(0.5)) * apart[3]);
                const Vector<W> twice = (all(W(12.25)) * pair[0] + all(W(6.25)) * pair[1]) +
                                        (all(W(2.25)) * pair[2] + all(W(0.25)) * pair[3]);
                const W k = W(kScanTile / 2 - r * kRunKeys) - W(3.5);
                first += once + all(k) * sum;
                second += twice + (all(2 * k) * once + all(k * k) * sum);
            }
        }
        runs.mass[g] = mass, runs.squares[g] = squares, runs.most[g] = most;
        runs.first[g] = first, runs.second[g] = second;
    }
}

template <class W, int G>
void sum_runs(const Sweep& wanted, const W* weight, const Part& part, Runs<W>& runs) {
    if (wanted.more)
        return wanted.moments ? sum_runs<W, G, true, true>(weight, part, runs) : sum_runs<W, G, true, false>(weight, part, runs);
    return wanted.moments ? sum_runs<W, G, false, true>(weight, part, runs) : sum_runs<W, G, false, false>(weight, part, runs);
}

// Numbers of each row: mass, squares, slope, largest.
template <class W>
struct RowTally {
    Vector<W> mass[kGroups], squares[kGroups], slope[kGroups], largest[kGroups];

    void begin() {
        for (int g = 0; g < kGroups; g++) mass[g] = squares[g] = slope[g] = largest[g] = Vector<W>{};
    }

    // Always the mass; what else was not wanted is left as it is, or means nothing.
    template <int G>
    void add(const Runs<W>& runs, bool more) {
        for (int g = 0; g < G; g++) {
            mass[g] += runs.mass[g];
            if (!more) continue;
            squares[g] += runs.squares[g];
            slope[g] += larger(Vector<W>{}, runs.mass[g] - runs.squares[g]);
            largest[g] = larger(largest[g], runs.most[g]);
        }
    }

    void give(const Scan& scan, int rows, int64_t row) const {
        constexpr int VL = Lanes<W>::n;
        const auto put = [&](void* to, const Vector<W>* from) {
            for (int lane = 0; to && lane < rows; lane++)
                static_cast<W*>(to)[row + lane] = mass[lane / VL][lane % VL] != mass[lane / VL][lane % VL]
                                                      ? mass[lane / VL][lane % VL]  // a row without a softmax is NaN throughout
                                                      : from[lane / VL][lane % VL];
        };
        put(scan.mass, mass);
        put(scan.squares, squares);
        put(scan.slope, slope);
        put(scan.largest, largest);
    }
};

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
