// SPDX-License-Identifier: Apache-2.0
// What is done to the scores of a tile between the product and the softmax: softcap, biases, masks. Tiles that everybody
// may see and that have none of these never come here.
#pragma once

#include "block.h"
#include "simd/widen.h"

namespace qkv {
namespace QKV_ISA {
namespace {

// What is added to the score of one cell, in nats; −inf where the mask or a bias hides it.
template <class W>
QKV_INLINE W added(const Problem& problem, int64_t head, int64_t i, int64_t key) {
    const W hidden = W(-__builtin_inf());
    W x = 0;
    if (problem.mask.data) {
        const Cells& mask = problem.mask;
        if (!mask.data[mask.at[head] + i * mask.row + key * mask.key]) return hidden;
    }
    if (problem.bias.data) {
        const Cells& bias = problem.bias;
        const double value = widen<double>(bias.data + bias.at[head] + i * bias.row + key * bias.key, bias.dtype);
        // a finite bias, however large, hides nothing
        const double limit = sizeof(W) == 4 ? 3.4028234663852886e38 : 1.7976931348623157e308;
        const bool finite = value - value == 0;
        const double bounded = value < -limit ? -limit : value > limit ? limit : value;
        x = W(finite ? bounded : value);
    }
    if (problem.by_distance && x != hidden)
        x += W(problem.by_distance[problem.distance_at[head] + key - i + problem.n_q - 1]);
    return x;
}

// The same of a tile: [key][lanes].
template <class A>
void gather_cells(const Problem& problem, int64_t head, const Block<A>& block, const Part& part, Work<A>* extra) {
    typedef Work<A> W;
    const int lanes = block.groups * Lanes<W>::n;
    for (int lane = 0; lane < lanes; lane++) {
        const int64_t i = block.row0 + (lane < block.rows ? lane : 0);
        for (int j = part.a; j < part.b; j++) extra[j * lanes + lane] = added<W>(problem, head, i, part.j0 + j);
    }
}

// c · tanh(x / c) of scores, by the C library: exact to its last bits, and rare.
template <class A, int G>
void cap(const Part& part, double softcap, Work<A>* scores) {
    typedef Work<A> W;
    for (int n = part.a * G * Lanes<W>::n; n < part.b * G * Lanes<W>::n; n++)
        scores[n] = W(softcap * __builtin_tanh(double(scores[n]) / softcap));
}

// Adds, hides, says what is seen (1 or 0, where asked), and finds the largest anew. Lanes that see NaN or an infinite score
// are odd; hidden ones are not looked at.
template <class A, int G>
void finish_scores(const Block<A>& block, const Part& part, const Work<A>* extra, Work<A>* seen, Work<A>* scores,
                   Vector<Work<A>>* largest, Mask<Work<A>>* odd) {
    typedef Work<A> W;
    constexpr int VL = Lanes<W>::n;
    const Vector<W> hidden = all(W(-__builtin_inf()));
    Mask<W> first[G], last[G];
    for (int g = 0; g < G; g++) {
        largest[g] = hidden;
        odd[g] = Mask<W>{};
        for (int lane = 0; lane < VL; lane++) {
            const int64_t from = block.first[g * VL + lane] - part.j0, to = block.last[g * VL + lane] - part.j0;
            first[g][lane] = from < 0 ? 0 : from > kTile<A> ? kTile<A> : from;
            last[g][lane] = to < 0 ? 0 : to > kTile<A> ? kTile<A> : to;
        }
    }
    for (int j = part.a; j < part.b; j++) {
        for (int g = 0; g < G; g++) {
            W* at = scores + (j * G + g) * VL;
            Vector<W> x = load(at);
            Mask<W> sees = (first[g] <= j) & (last[g] > j);
            if (extra) {
                const Vector<W> more = load(extra + (j * G + g) * VL);
                sees &= more != hidden;
                x += more;
            }
            odd[g] |= sees & (x - x != Vector<W>{});
            if (seen) store(seen + (j * G + g) * VL, select<W>(sees, all(W(1)), Vector<W>{}));
            x = select<W>(sees, x, hidden);
            largest[g] = larger(largest[g], x);
            store(at, x);
        }
    }
}

}  // namespace
}  // namespace QKV_ISA
}  // namespace qkv
