// SPDX-License-Identifier: Apache-2.0
// Pictures: the weight of each pixel, from the sums or maxima of runs of keys.
#pragma once

#include "runs.h"

namespace qkv {
namespace QKV_ISA {
namespace {

template <bool kLargest, class V>
QKV_INLINE V join(V a, V b) {
    return kLargest ? larger(a, b) : a + b;
}
template <bool kLargest>
QKV_INLINE void join_pixel(double& to, double x) {
    to = !kLargest ? to + x : x > to || x != x ? x : to;
}

// As sum_lanes, of sums or of maxima.
template <class W, bool kLargest, int S>
QKV_INLINE void join_lanes(Vector<W>* rows) {
    if constexpr (S > 0) {
#pragma GCC unroll 8
        for (int i = 0; i < S; i++) {
            exchange<W, S>(rows[i], rows[i + S], typename Indices<Lanes<W>::n>::type{});
            rows[i] = join<kLargest>(rows[i], rows[i + S]);
        }
        join_lanes<W, kLargest, S / 2>(rows);
    }
}

constexpr int kPieces = 16;
constexpr int64_t kOpenKeys = 16 * kScanTile;  // are joined at most before they are given away, for float would lose digits

// What a block has of the pixels that its keys are at: as many as a vector has lanes, so that their lanes are joined at once.
template <class W>
struct PixelTally {
    static constexpr int VL = Lanes<W>::n;
    struct Piece {  // lanes of a vector that fall into one pixel row
        double* row;
        int g;
        Mask<W> lanes;
    };
    int n;  // of pieces; more than there is room for: lane by lane
    Piece piece[kPieces];
    double* of[kMaxLanes];
    int rows;
    int64_t width, first, chunk;  // first: of the open pixels, −1 for none
    Vector<W> open[VL][kGroups];

    // value: of the head; carried: what stands for it in the pixel row carried_row, or −1
    void begin(const Picture& wanted, int64_t row0, int n_rows, int64_t n_q, double* value, int64_t carried_row, double* carried) {
        n = 0, rows = n_rows, width = wanted.width;
        first = -1;
        for (int lane = 0; lane < rows; lane++) {
            const int64_t row = (row0 + lane) * wanted.height / n_q;
            const int g = lane / VL;
            of[lane] = row == carried_row ? carried : value + row * width;
            const bool same = n > 0 && n <= kPieces && piece[n - 1].row == of[lane] && piece[n - 1].g == g;
            if (!same && n <= kPieces && n++ < kPieces) piece[n - 1] = {of[lane], g, Mask<W>{}};
            if (n <= kPieces) piece[n - 1].lanes[lane % VL] = -1;
        }
    }

    template <bool kLargest>
    void give(bool by_lane) {
        if (first < 0) return;
        const int count = int(width - first < VL ? width - first : VL);
        for (int lane = 0; lane < (by_lane || n > kPieces ? rows : 0); lane++)
            for (int s = 0; s < count; s++) join_pixel<kLargest>(of[lane][first + s], double(open[s][lane / VL][lane % VL]));
        for (int i = 0; i < (by_lane || n > kPieces ? 0 : n); i++) {
            Vector<W> x[VL];
#pragma GCC unroll 16
            for (int s = 0; s < VL; s++) x[s] = select<W>(piece[i].lanes, open[s][piece[i].g], Vector<W>{});
            join_lanes<W, kLargest, VL / 2>(x);
            for (int s = 0; s < count; s++) join_pixel<kLargest>(piece[i].row[first + s], double(x[0][s]));
        }
        first = -1;
    }

    // Opens the pixels that this one is among.
    template <bool kLargest>
    __attribute__((always_inline)) Vector<W>* at(int64_t pixel, int64_t now, bool by_lane) {
        if (first < 0 || pixel >= first + VL || now != chunk) {
            give<kLargest>(by_lane);
            first = pixel / VL * VL;
            chunk = now;
            for (int s = 0; s < VL; s++)
                for (int g = 0; g < kGroups; g++) open[s][g] = Vector<W>{};
            for (int i = 0; i < n && n <= kPieces; i++)  // so that they are near when they are given
                for (int s = 0; s < VL; s += 8) __builtin_prefetch(piece[i].row + first + s, 1, 2);
        }
        return open[pixel - first];
    }
};

// Joins keys from <= j < to of a tile: whole runs where there are such.
template <class W, int G, bool kLargest>
QKV_INLINE void join_keys(const Weighed<W>& tile, int from, int to, Vector<W>* into) {
    constexpr int VL = Lanes<W>::n;
    Vector<W> found[G];
    for (int g = 0; g < G; g++) found[g] = into[g];
    for (int j = from; j < to;) {
        const bool whole = j % kRunKeys == 0 && j + kRunKeys <= to;
        const Vector<W>* run = kLargest ? tile.runs.largest[j / kRunKeys] : tile.runs.sum[j / kRunKeys];
#pragma GCC unroll 3
        for (int g = 0; g < G; g++)
            found[g] = join<kLargest>(found[g], whole ? run[g] : load(tile.weight + (j * G + g) * VL));
        j += whole ? kRunKeys : 1;
    }
    for (int g = 0; g < G; g++) into[g] = found[g];
}
// The largest, where NaN stays.
template <class W, int G>
void join_nan(const Weighed<W>& tile, int from, int to, Vector<W>* into) {
    for (int j = from; j < to; j++)
        for (int g = 0; g < G; g++) {
            const Vector<W> w = load(tile.weight + (j * G + g) * Lanes<W>::n);
            into[g] = select<W>((into[g] != into[g]) | (w != w), into[g] + w, larger(into[g], w));
        }
}

template <class W, int G, bool kLargest>
void add_picture(const Weighed<W>& tile, const Picture& wanted, int64_t n_k, int n, PixelTally<W>& tally) {
    const bool nan = kLargest && tile.any_nan;
    const int64_t j0 = tile.part.j0, chunk = j0 / kOpenKeys;
    int64_t pixel = j0 * wanted.width / n_k;
    for (int from = 0, to; from < n; from = to, pixel++) {
        to = int(wanted.edge[pixel + 1] - j0 < n ? wanted.edge[pixel + 1] - j0 : n);
        if (to <= tile.part.a || from >= tile.part.b) continue;
        Vector<W>* into = tally.template at<kLargest>(pixel, chunk, nan);
        if (nan)
            join_nan<W, G>(tile, from, to, into);
        else
            join_keys<W, G, kLargest>(tile, from, to, into);
    }
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
