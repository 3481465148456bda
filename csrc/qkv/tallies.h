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

    // Always the mass; what else comes by is taken where it is wanted.
    template <int G>
    void add(const Weighed<W>& tile, const Scan& scan) {
        sum<G, false>(tile, mass, [](Vector<W> w) { return w; });
        if (scan.squares) sum<G, false>(tile, squares, [](Vector<W> w) { return w * w; });
        if (scan.slope) sum<G, false>(tile, slope, [](Vector<W> w) { return w - w * w; });
        if (scan.largest) sum<G, true>(tile, largest, [](Vector<W> w) { return w; });
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

  private:
    // Sums, or maxima, of something of each weight. Of even and odd keys apart, for each sum waits for the one before.
    template <int G, bool kLargest, class Of>
    QKV_INLINE void sum(const Weighed<W>& tile, Vector<W>* into, const Of& of) {
        constexpr int VL = Lanes<W>::n;
        const auto join = [](Vector<W> a, Vector<W> b) { return kLargest ? larger(a, b) : a + b; };
        Vector<W> found[2][G] = {};
        int j = tile.part.a;
        for (; j + 1 < tile.part.b; j += 2)
#pragma GCC unroll 6
            for (int n = 0; n < 2 * G; n++) {
                Vector<W>& to = found[n / G][n % G];
                to = join(to, of(load(tile.weight + (j * G + n) * VL)));
            }
        for (int g = 0; g < G; g++) {
            if (j < tile.part.b) found[0][g] = join(found[0][g], of(load(tile.weight + (j * G + g) * VL)));
            into[g] = join(into[g], join(found[0][g], found[1][g]));
        }
    }
};

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

// The largest weights of each lane and their keys, sorted. Equal ones: the lower key first.
constexpr int kSorted = 16;

template <class W>
struct TopTally {
    int64_t top, row;  // row: up to whole vectors
    W* best;           // [lanes][row]; null where the list is long
    Whole<W>* key;     // [lanes][row]
    W* least;          // [lanes]: what a weight has to exceed

    static int64_t row_of(int64_t top) { return up_to(top, Lanes<W>::n); }
    void begin() {
        for (int64_t at = 0; at < kGroups * Lanes<W>::n * row; at++) best[at] = -1, key[at] = -1;
        for (int lane = 0; lane < kGroups * Lanes<W>::n; lane++) least[lane] = -1;
    }

    // Puts a weight where it belongs; what it displaces moves down, equal or not. Without a branch, for none could be foretold.
    void insert(int lane, W weight, Whole<W> at) {
        constexpr int VL = Lanes<W>::n;
        typedef typename Indices<VL>::type Each;
        Vector<W> above = all(weight);
        Mask<W> above_key = Mask<W>{} + at, above_stays = ~Mask<W>{};
        for (int64_t n = lane * row; n < (lane + 1) * row; n += VL) {
            const Vector<W> old = load(best + n), moved = behind<Vector<W>>(above, old, Each{});
            const Mask<W> old_key = load_whole<W>(key + n), moved_key = behind<Mask<W>>(above_key, old_key, Each{});
            const Mask<W> stays = old >= all(weight), before_stays = behind<Mask<W>>(above_stays, stays, Each{});
            store(best + n, select<W>(stays, old, select<W>(before_stays, all(weight), moved)));
            store_whole<W>(key + n, stays ? old_key : before_stays ? Mask<W>{} + at : moved_key);
            above = old, above_key = old_key, above_stays = stays;
        }
        least[lane] = best[lane * row + top - 1];
    }

  private:
    // All lanes of x but the last, behind the last one of `above`.
    template <class V, int... I>
    QKV_INLINE V behind(V above, V x, Index<I...>) {
        constexpr int n = sizeof...(I);
        return __builtin_shufflevector(above, x, (I + n - 1)...);
    }
};

template <class W, int G>
void add_top(const Weighed<W>& tile, TopTally<W>& tally) {
    constexpr int VL = Lanes<W>::n, lanes = G * VL;
    static_assert(lanes <= 64, "a bit for each lane");
    Vector<W> least[G];
    for (int g = 0; g < G; g++) least[g] = load(tally.least + g * VL);
    uint64_t better[kScanTile];
    int key[kScanTile], found = 0;  // few keys have a weight for a list: they are found first, and nothing waits for a branch
    for (int j = tile.part.a; j < tile.part.b; j++) {
        uint64_t bits = 0;
#pragma GCC unroll 3
        for (int g = 0; g < G; g++) {
            uint32_t more = bits_above(load(tile.weight + (j * G + g) * VL), least[g]);
            if (tile.seen) more &= bits_above(load(tile.seen + (j * G + g) * VL), Vector<W>{});
            bits |= uint64_t(more) << (g * VL);
        }
        better[found] = bits;
        key[found] = j;
        found += bits != 0;
    }
    for (int n = 0; n < found; n++)
        for (uint64_t bits = better[n]; bits; bits &= bits - 1) {
            const int lane = __builtin_ctzll(bits);
            const W weight = tile.weight[key[n] * lanes + lane];
            if (weight > tally.least[lane]) tally.insert(lane, weight, Whole<W>(tile.part.j0 + key[n]));
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
