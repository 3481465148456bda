// SPDX-License-Identifier: Apache-2.0
// What a scan counts on a tile of weights, [key][lanes], of which the sums of runs are known.
#pragma once

#include "runs.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// column[j] += the weight that key j receives from the block
template <class W, int G>
void add_columns(const Weighed<W>& tile, W* column) {
    constexpr int VL = Lanes<W>::n;
    W* to = column + tile.part.j0;
    const auto sum_of = [&](int j) __attribute__((always_inline)) {
        Vector<W> sum = load(tile.weight + j * G * VL);
#pragma GCC unroll 2
        for (int g = 1; g < G; g++) sum += load(tile.weight + (j * G + g) * VL);
        return sum;
    };
    int j = tile.part.a;
    for (; j + VL <= tile.part.b; j += VL) {
        Vector<W> sum[VL];
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) sum[i] = sum_of(j + i);
        store(to + j, load(to + j) + sum_lanes<W>(sum));
    }
    for (; j < tile.part.b; j++) to[j] += sum_of_lanes<W>(sum_of(j));
}

// Calls flush(label, sums of each lane) for each label of the tile, its keys in order. Keys that nobody sees weigh 0.
template <class W, int G, class Flush>
QKV_INLINE void by_label(const Weighed<W>& tile, const int32_t* label, const uint8_t* order, int n, const Flush& flush) {
    constexpr int VL = Lanes<W>::n;
    label += tile.part.j0;
    order += tile.part.j0;
    const W* weight = tile.weight;
    for (int at = 0; at < n;) {
        const int32_t now = label[order[at] & (kLastOfLabel - 1)];
        Vector<W> sum[G] = {};
        for (bool last = false; !last; at++) {
            const W* from = weight + (order[at] & (kLastOfLabel - 1)) * (G * VL);
            last = order[at] & kLastOfLabel;
#pragma GCC unroll 3
            for (int g = 0; g < G; g++) sum[g] += load(from + g * VL);
        }
        if (now < 0) continue;
        flush(now, sum);
    }
}

// Shares of labels: [label][lanes] on the way, (rows, labels) in the end.
template <class W, int G>
void add_labels(const Weighed<W>& tile, const Labels& wanted, int n, W* share) {
    constexpr int VL = Lanes<W>::n;
    by_label<W, G>(tile, wanted.label, wanted.order, n, [&](int32_t label, const Vector<W>* sum) {
        W* to = share + label * G * VL;
        for (int g = 0; g < G; g++) store(to + g * VL, load(to + g * VL) + sum[g]);
    });
}

// The same where there are more labels than there is room on the way: straight into the result.
template <class W, int G>
void add_many_labels(const Weighed<W>& tile, const Labels& wanted, int n) {
    constexpr int VL = Lanes<W>::n;
    W* share = static_cast<W*>(wanted.share) + tile.row * wanted.n;
    by_label<W, G>(tile, wanted.label, wanted.order, n, [&](int32_t label, const Vector<W>* sum) {
        for (int lane = 0; lane < tile.rows; lane++) share[lane * wanted.n + label] += sum[lane / VL][lane % VL];
    });
}

constexpr int64_t kFar = 1 << 30;

// first, first + 1, …, kept within two bounds, as numbers that lanes hold.
template <class W>
QKV_INLINE Mask<W> places(int64_t first, int64_t least, int64_t most) {
    constexpr int VL = Lanes<W>::n;
    Mask<W> lane;
    for (int i = 0; i < VL; i++) lane[i] = i;
    const Mask<W> low = Mask<W>{} + Whole<W>(least), high = Mask<W>{} + Whole<W>(most);
    const Mask<W> at = lane + Whole<W>(first < least - VL ? least - VL : first > most ? most : first);
    return at < low ? low : at > high ? high : at;
}

template <class W, int G>
void add_band(const Weighed<W>& tile, const Band& wanted, int64_t offset, Vector<W>* mass) {
    constexpr int VL = Lanes<W>::n;
    const int64_t at = tile.row0 + offset - tile.part.j0;  // of lane 0
    if (at + wanted.low >= tile.part.b || at + tile.rows - 1 + wanted.high < tile.part.a) return;
    for (int g = 0; g < G; g++) {
        const Mask<W> low = places<W>(at + wanted.low + g * VL, -1, kScanTile);
        const Mask<W> high = places<W>(at + wanted.high + g * VL, -1, kScanTile);
        Vector<W> sum{};
        for (int j = tile.part.a; j < tile.part.b; j++)
            sum += select<W>((low <= j) & (high >= j), load(tile.weight + (j * G + g) * VL), Vector<W>{});
        mass[g] += sum;
    }
}

// The tokens of a block's lanes, and a bit for each that some lane may have: most keys are none of them.
template <class W>
struct PairTally {
    static constexpr int VL = Lanes<W>::n, kBits = 2048;
    Mask<W> own[kGroups];  // negative: none
    Vector<W> mass[kGroups];
    uint64_t some[kBits / 64];

    void begin(const int32_t* row, int rows) {
        for (uint64_t& bits : some) bits = 0;
        for (int lane = 0; lane < kGroups * VL; lane++) {
            const int32_t token = lane < rows ? row[lane] : -1;
            own[lane / VL][lane % VL] = token;
            if (token >= 0) some[token / 64 % (kBits / 64)] |= uint64_t(1) << token % 64;
        }
        for (int g = 0; g < kGroups; g++) mass[g] = Vector<W>{};
    }
    bool may_have(int32_t token) const { return some[uint32_t(token) / 64 % (kBits / 64)] >> (token & 63) & 1; }
};

template <class W, int G>
void add_pairs(const Weighed<W>& tile, const Pairs& wanted, int64_t head, PairTally<W>& tally) {
    constexpr int VL = Lanes<W>::n;
    const int64_t limit = tile.row0 + wanted.offset[head] + wanted.reach - tile.part.j0;  // of lane 0: keys below
    if (limit + tile.rows - 1 <= tile.part.a) return;
    const int32_t* key = wanted.key + wanted.key_at[head] + tile.part.j0;
    int place[kScanTile], found = 0;
    for (int j = tile.part.a; j < tile.part.b; j++) {
        place[found] = j;
        found += tally.may_have(key[j]);
    }
    Mask<W> below[G];
    Vector<W> sum[G];
    for (int g = 0; g < G; g++) {
        below[g] = places<W>(limit + g * VL, -1, kScanTile);
        sum[g] = Vector<W>{};
    }
    for (int n = 0; n < found; n++) {
        const int j = place[n];
        const Mask<W> token = Mask<W>{} + key[j];
#pragma GCC unroll 3
        for (int g = 0; g < G; g++)
            sum[g] += select<W>((tally.own[g] == token) & (below[g] > j), load(tile.weight + (j * G + g) * VL), Vector<W>{});
    }
    for (int g = 0; g < G; g++) tally.mass[g] += sum[g];
}

// The largest weights of each lane and their keys, sorted. Equal ones: the lower key first. A weight first waits, one in each
// lane: all that wait are put into the lists at once, when a lane has another one.
constexpr int kSorted = 16, kFewSorted = 8;

template <class W>
struct TopTally {
    static constexpr int VL = Lanes<W>::n, kLanes = kGroups * VL;
    int64_t top;
    W* best;        // [places][kLanes]; null where the list is long
    Whole<W>* key;  // the same
    W* least;       // [kLanes]: what a weight has to exceed
    W* waits;       // [kLanes]: −1 for none
    Whole<W>* waits_key;

    int64_t places() const { return top <= kFewSorted ? kFewSorted : kSorted; }
    void take(Arena& arena) {
        best = arena.take<W>(places() * kLanes);
        key = arena.take<Whole<W>>(places() * kLanes);
        least = arena.take<W>(kLanes);
        waits = arena.take<W>(kLanes);
        waits_key = arena.take<Whole<W>>(kLanes);
    }
    void begin() {
        for (int64_t at = 0; at < places() * kLanes; at++) best[at] = -1, key[at] = -1;
        for (int lane = 0; lane < kLanes; lane++) least[lane] = waits[lane] = -1, waits_key[lane] = -1;
    }

    // Puts what waits in a vector where it belongs; what it displaces moves down, equal or not. N: of places.
    template <int N>
    Vector<W> settle(int g, Vector<W> now, Mask<W> at) {
        Vector<W> above = now;
        Mask<W> above_key = at, here = now == now;
#pragma GCC unroll 16
        for (int64_t n = g * VL; n < N * kLanes; n += kLanes) {
            const Vector<W> old = load(best + n);
            const Mask<W> old_key = load_whole<W>(key + n), stays = old >= now;
            store(best + n, select<W>(stays, old, select<W>(here, now, above)));
            store_whole<W>(key + n, stays ? old_key : here ? at : above_key);
            above = old, above_key = old_key, here = stays;
        }
        return load(best + (top - 1) * kLanes + g * VL);
    }
    void settle_all() {
        for (int g = 0; g < kGroups; g++) {
            const Vector<W> now = load(waits + g * VL);
            const Mask<W> at = load_whole<W>(waits_key + g * VL);
            top <= kFewSorted ? settle<kFewSorted>(g, now, at) : settle<kSorted>(g, now, at);
        }
    }
};

// Few vectors of weights have one for a list: they are found first, in the runs that have one, so that little waits for a branch.
template <class W, int G, int N>
void add_top(const Weighed<W>& tile, TopTally<W>& tally) {
    constexpr int VL = Lanes<W>::n;
    int run[kRuns * G], runs = 0, place[kScanTile * G], found = 0;
    for (int r = tile.first_run(); r < tile.end_of_runs(); r++)
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            run[runs] = r * kRunKeys * G + g;
            runs += bits_above(tile.runs.largest[r][g], load(tally.least + g * VL)) != 0;
        }
    const int from = tile.part.a * G, to = tile.part.b * G;
    for (int n = 0; n < runs; n++) {
        const Vector<W> least = load(tally.least + run[n] % G * VL);
#pragma GCC unroll 8
        for (int c = 0; c < kRunKeys; c++) {
            const int at = run[n] + c * G;
            place[found] = at;
            found += at >= from && at < to && bits_above(load(tile.weight + at * VL), least) != 0;
        }
    }
    const Vector<W> none = all(W(-1));
    for (int n = 0; n < found; n++) {
        const int j = place[n] / G, g = place[n] % G;
        const Vector<W> w = load(tile.weight + place[n] * VL);
        Vector<W> waits = load(tally.waits + g * VL);
        const Mask<W> waits_key = load_whole<W>(tally.waits_key + g * VL), key = Mask<W>{} + Whole<W>(tile.part.j0 + j);
        Mask<W> more = w > load(tally.least + g * VL);
        if (tile.seen) more &= load(tile.seen + place[n] * VL) > Vector<W>{};
        if (any(more & (waits > none))) {
            const Vector<W> least = tally.template settle<N>(g, waits, waits_key);
            store(tally.least + g * VL, least);
            more &= w > least;
            waits = none;
        }
        store(tally.waits + g * VL, select<W>(more, w, waits));
        store_whole<W>(tally.waits_key + g * VL, more ? key : waits_key);
    }
}

// The same for longer lists, row by row in the result: (rows, top), each kept sorted.
template <class W, int G>
void add_long_top(const Weighed<W>& tile, int64_t top, W* weight, int64_t* key) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    for (int lane = 0; lane < tile.rows; lane++) {
        W* best = weight + (tile.row + lane) * top;
        int64_t* keys = key + (tile.row + lane) * top;
        if (!(tile.runs.most[lane / VL][lane % VL] > best[top - 1])) continue;
        for (int j = tile.part.a; j < tile.part.b; j++) {
            const W w = tile.weight[j * lanes + lane];
            if (!(w > best[top - 1]) || (tile.seen && tile.seen[j * lanes + lane] == 0)) continue;
            int64_t low = 0, high = top - 1;  // the first place whose weight is smaller
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (w > best[middle])
                    high = middle;
                else
                    low = middle + 1;
            }
            __builtin_memmove(best + low + 1, best + low, sizeof(W) * uint64_t(top - 1 - low));
            __builtin_memmove(keys + low + 1, keys + low, sizeof(int64_t) * uint64_t(top - 1 - low));
            best[low] = w;
            keys[low] = tile.part.j0 + j;
        }
    }
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
