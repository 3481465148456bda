// SPDX-License-Identifier: Apache-2.0
// What a scan counts on a tile of weights, [key][lanes]. A tile is summed by itself and then added to what was there before:
// a sum of thousands of terms, taken one by one, would lose digits. Lanes behind the last query weigh 0.
#pragma once

#include "scan.h"
#include "weigh.h"

namespace qkv {
namespace QKV_ISA {
namespace {

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
};

// Numbers of each row: mass, squares, slope, largest.
template <class W>
struct RowTally {
    Vector<W> mass[kGroups], squares[kGroups], slope[kGroups], largest[kGroups];

    void begin() {
        for (int g = 0; g < kGroups; g++) mass[g] = squares[g] = slope[g] = largest[g] = Vector<W>{};
    }

    template <int G>
    void add(const Weighed<W>& tile) {
        constexpr int VL = Lanes<W>::n;
        Vector<W> m[G], s[G], t[G], most[G];
        for (int g = 0; g < G; g++) m[g] = s[g] = t[g] = most[g] = Vector<W>{};
        for (int j = tile.part.a; j < tile.part.b; j++)
#pragma GCC unroll 3
            for (int g = 0; g < G; g++) {
                const Vector<W> w = load(tile.weight + (j * G + g) * VL), rest = w - w * w;
                m[g] += w;
                s[g] += w * w;
                t[g] += rest;
                most[g] = larger(most[g], w);
            }
        for (int g = 0; g < G; g++) {
            mass[g] += m[g];
            squares[g] += s[g];
            slope[g] += t[g];
            largest[g] = larger(largest[g], most[g]);
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

// column[j] += the weight that key j receives from the block
template <class W, int G>
void add_columns(const Weighed<W>& tile, W* column) {
    constexpr int VL = Lanes<W>::n;
    for (int j = tile.part.a; j < tile.part.b; j += VL) {
        Vector<W> sum[VL];
        const int n = tile.part.b - j < VL ? tile.part.b - j : VL;
        for (int i = 0; i < VL; i++) {
            sum[i] = Vector<W>{};
            if (i >= n) continue;
            for (int g = 0; g < G; g++) sum[i] += load(tile.weight + ((j + i) * G + g) * VL);
        }
        const Vector<W> found = sum_lanes<W>(sum);
        W* to = column + tile.part.j0 + j;
        if (n == VL)
            store(to, load(to) + found);
        else
            for (int i = 0; i < n; i++) to[i] += found[i];
    }
}

// Calls flush(label, sums or maxima of each lane) for each label of the tile, its keys in order. Keys that nobody sees weigh 0.
template <class W, int G, bool kLargest, class Flush>
QKV_INLINE void by_label(const Weighed<W>& tile, const int32_t* label, const uint8_t* order, int n, const Flush& flush) {
    constexpr int VL = Lanes<W>::n;
    label += tile.part.j0;
    order += tile.part.j0;
    const W* weight = tile.weight;
    for (int at = 0, end; at < n; at = end) {
        const int32_t now = label[order[at]];
        for (end = at + 1; end < n && label[order[end]] == now;) end++;
        if (now < 0) continue;
        Vector<W> sum[G];
        for (int g = 0; g < G; g++) sum[g] = Vector<W>{};
        if (kLargest && tile.any_nan) {  // NaN stays
            for (int x = at; x < end; x++)
                for (int g = 0; g < G; g++) {
                    const Vector<W> w = load(weight + (order[x] * G + g) * VL);
                    sum[g] = select<W>((sum[g] != sum[g]) | (w != w), sum[g] + w, larger(sum[g], w));
                }
        } else {
            for (int x = at; x < end; x++) {
                const W* from = weight + order[x] * (G * VL);
#pragma GCC unroll 3
                for (int g = 0; g < G; g++) {
                    const Vector<W> w = load(from + g * VL);
                    sum[g] = kLargest ? larger(sum[g], w) : sum[g] + w;
                }
            }
        }
        flush(now, sum);
    }
}

// Shares of labels: [label][lanes] on the way, (rows, labels) in the end.
template <class W, int G>
void add_labels(const Weighed<W>& tile, const Labels& wanted, int n, W* share) {
    constexpr int VL = Lanes<W>::n;
    by_label<W, G, false>(tile, wanted.label, wanted.order, n, [&](int32_t label, const Vector<W>* sum) {
        W* to = share + label * G * VL;
        for (int g = 0; g < G; g++) store(to + g * VL, load(to + g * VL) + sum[g]);
    });
}

// The same where there are more labels than there is room on the way: straight into the result.
template <class W, int G>
void add_many_labels(const Weighed<W>& tile, const Labels& wanted, int n) {
    constexpr int VL = Lanes<W>::n;
    W* share = static_cast<W*>(wanted.share) + tile.row * wanted.n;
    by_label<W, G, false>(tile, wanted.label, wanted.order, n, [&](int32_t label, const Vector<W>* sum) {
        for (int lane = 0; lane < tile.rows; lane++) share[lane * wanted.n + label] += sum[lane / VL][lane % VL];
    });
}

// Which lanes of a block fall into which pixel row of its stripe.
constexpr int kFewPixels = 4;

template <class W>
struct PixelRows {
    int n;  // pixel rows of the block, from `first` on
    int64_t first;
    Mask<W> lanes[kFewPixels][kGroups];  // where they are few
    int32_t of[kMaxLanes];

    void begin(int64_t row0, int rows, int64_t stripe_row, int64_t height, int64_t n_q) {
        const int64_t stripe_first = stripe_row * height / n_q;
        first = row0 * height / n_q - stripe_first;
        for (int r = 0; r < kFewPixels; r++)
            for (int g = 0; g < kGroups; g++) lanes[r][g] = Mask<W>{};
        n = 0;
        for (int lane = 0; lane < rows; lane++) {
            of[lane] = int32_t((row0 + lane) * height / n_q - stripe_first - first);
            n = of[lane] + 1;
            if (of[lane] < kFewPixels) lanes[of[lane]][lane / Lanes<W>::n][lane % Lanes<W>::n] = -1;
        }
    }
};

template <bool kLargest>
QKV_INLINE void join_pixel(double& to, double x) {
    to = !kLargest ? to + x : x > to || x != x ? x : to;
}

template <class W, int G, bool kLargest>
void add_picture(const Weighed<W>& tile, const Picture& wanted, int n, const PixelRows<W>& rows, double* value) {
    constexpr int VL = Lanes<W>::n;
    value += rows.first * wanted.width;
    by_label<W, G, kLargest>(tile, wanted.label, wanted.order, n, [&](int32_t label, const Vector<W>* sum) {
        if (rows.n > kFewPixels || (kLargest && tile.any_nan)) {
            for (int lane = 0; lane < tile.rows; lane++)
                join_pixel<kLargest>(value[rows.of[lane] * wanted.width + label], double(sum[lane / VL][lane % VL]));
            return;
        }
        for (int r = 0; r < rows.n; r++) {
            Vector<W> whole{};
            for (int g = 0; g < G; g++) {
                const Vector<W> own = select<W>(rows.lanes[r][g], sum[g], Vector<W>{});
                whole = kLargest ? larger(whole, own) : whole + own;
            }
            join_pixel<kLargest>(value[r * wanted.width + label], double(kLargest ? largest_lane<W>(whole) : sum_of_lanes<W>(whole)));
        }
    });
}

constexpr int64_t kFar = 1 << 30;

// first, first + 1, …, kept within two bounds, as numbers that lanes hold.
template <class W>
QKV_INLINE Mask<W> places(int64_t first, int64_t least, int64_t most) {
    Mask<W> found;
    for (int lane = 0; lane < Lanes<W>::n; lane++) {
        const int64_t at = first + lane;
        found[lane] = at < least ? least : at > most ? most : at;
    }
    return found;
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

template <class W, int G>
void add_pairs(const Weighed<W>& tile, const Pairs& wanted, int64_t head, const Mask<W>* own, Vector<W>* mass) {
    constexpr int VL = Lanes<W>::n;
    const int64_t limit = tile.row0 + wanted.offset[head] + wanted.reach - tile.part.j0;  // of lane 0: keys below
    if (limit + tile.rows - 1 <= tile.part.a) return;
    const bool all_below = limit >= tile.part.b;
    const int32_t* key = wanted.key + wanted.key_at[head] + tile.part.j0;
    Mask<W> below[G];
    Vector<W> sum[G];
    for (int g = 0; g < G; g++) {
        below[g] = places<W>(limit + g * VL, -1, kScanTile);
        sum[g] = Vector<W>{};
    }
    for (int j = tile.part.a; j < tile.part.b; j++) {
        const Mask<W> token = Mask<W>{} + key[j];
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            const Mask<W> same = all_below ? own[g] == token : (own[g] == token) & (below[g] > j);
            sum[g] += select<W>(same, load(tile.weight + (j * G + g) * VL), Vector<W>{});
        }
    }
    for (int g = 0; g < G; g++) mass[g] += sum[g];
}

// The largest weights of each lane, sorted, in vectors: [top][lanes] weights and keys. Equal ones: the lower key first.
constexpr int kSorted = 16;

// Puts weights of one key where they belong in the lists of all lanes.
template <class W, int G>
void insert(Vector<W> w, Whole<W> key, int64_t top, W* best, Whole<W>* keys) {
    constexpr int64_t row = G * Lanes<W>::n;
    Mask<W> place = Mask<W>{} + key, moves{};  // what one displaces moves down, equal or not
    for (int64_t t = 0; t < top; t++) {
        const Vector<W> old = load(best + t * row);
        const Mask<W> old_key = load_whole<W>(keys + t * row), better = moves | (w > old);
        moves = better;
        store(best + t * row, select<W>(better, w, old));
        store_whole<W>(keys + t * row, better ? place : old_key);
        w = select<W>(better, old, w);
        place = better ? old_key : place;
    }
}

// The same for one lane.
template <class W, int G>
QKV_INLINE void insert_one(W w, Whole<W> key, int64_t top, W* best, Whole<W>* keys) {
    constexpr int64_t row = G * Lanes<W>::n;
    int64_t t = top - 1;
    for (; t > 0 && w > best[(t - 1) * row]; t--) {
        best[t * row] = best[(t - 1) * row];
        keys[t * row] = keys[(t - 1) * row];
    }
    best[t * row] = w;
    keys[t * row] = key;
}

template <class W, int G>
void add_top(const Weighed<W>& tile, int64_t top, W* best, Whole<W>* key) {
    constexpr int VL = Lanes<W>::n, few = 4;
    const Vector<W> hidden = all(W(-1));
    for (int g = 0; g < G; g++) {
        W* own = best + g * VL;
        Whole<W>* own_key = key + g * VL;
        Vector<W> least = load(own + (top - 1) * G * VL);
        for (int j = tile.part.a; j < tile.part.b; j++) {
            Vector<W> w = load(tile.weight + (j * G + g) * VL);
            if (tile.seen) w = select<W>(load(tile.seen + (j * G + g) * VL) != Vector<W>{}, w, hidden);
            uint32_t better = lane_bits(w > least);
            if (__builtin_expect(!better, 1)) continue;
            const Whole<W> now = Whole<W>(tile.part.j0 + j);
            if (__builtin_popcount(better) > few) {
                insert<W, G>(w, now, top, own, own_key);
            } else {
                for (; better; better &= better - 1) {
                    const int lane = __builtin_ctz(better);
                    insert_one<W, G>(w[lane], now, top, own + lane, own_key + lane);
                }
            }
            least = load(own + (top - 1) * G * VL);
        }
    }
}

// The same for longer lists, row by row in the result: (rows, top), each kept sorted.
template <class W, int G>
void add_long_top(const Weighed<W>& tile, int64_t top, W* weight, int64_t* key) {
    constexpr int lanes = G * Lanes<W>::n;
    for (int lane = 0; lane < tile.rows; lane++) {
        W* best = weight + (tile.row + lane) * top;
        int64_t* keys = key + (tile.row + lane) * top;
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
