// SPDX-License-Identifier: Apache-2.0
// A scan with something drawn of every kind, held to plain loops in double; and what the checks of all passes share.
#pragma once

#include <algorithm>
#include <numeric>

#include "cases.h"

namespace {

// The largest error of a pass, relative to what rounding may come to; NaN is the worst of all.
struct Worst {
    double error = 0;
    const char* of = "";
    void take(double found, double wanted, double size, const char* name) {
        const double e = found == wanted ? 0 : std::fabs(found - wanted) / (1 + size);
        if (!(e <= error)) error = std::isnan(e) ? INFINITY : e, of = name;
    }
    void hold(bool so, const char* name) { take(so ? 0 : INFINITY, 0, 0, name); }
};

// What a pass wrote, and whether the same bits on both numbers of threads.
template <class W>
struct Twice {
    std::vector<W> one, four;
    explicit Twice(int64_t n, W before = W(NAN)) : one(size_t(n), before), four(one) {}
    W* at(int threads) { return threads == 1 ? one.data() : four.data(); }
    bool same() const { return one.empty() || std::memcmp(one.data(), four.data(), sizeof(W) * one.size()) == 0; }
};

constexpr int kThreads[] = {1, 4};
Parallel on(int threads) { return {threads, nullptr, nullptr}; }

// A label of each key as a scan takes it: whole tiles, and of each tile its keys in the order of their labels, the last of each
// marked.
struct ByTile {
    std::vector<int32_t> label;
    std::vector<uint8_t> order;

    template <class Label>
    ByTile(int64_t n_k, const Label& label_of)
        : label(size_t((n_k + kScanTile - 1) / kScanTile * kScanTile), INT32_MAX), order(label.size()) {
        for (int64_t j = 0; j < n_k; j++) label[size_t(j)] = int32_t(label_of(j));
        for (size_t j0 = 0; j0 < label.size(); j0 += kScanTile) {
            std::iota(order.begin() + long(j0), order.begin() + long(j0) + kScanTile, uint8_t(0));
            std::stable_sort(order.begin() + long(j0), order.begin() + long(j0) + kScanTile,
                             [&](uint8_t a, uint8_t b) { return label[j0 + a] < label[j0 + b]; });
            for (size_t x = j0; x < j0 + kScanTile; x++)
                if (x + 1 == j0 + kScanTile || label[j0 + order[x]] != label[j0 + order[x + 1]]) order[x] |= kLastOfLabel;
        }
    }
};

// A scan with something drawn of every kind, its results on both numbers of threads, and what they are to be.
template <class W>
struct Everything {
    const Made& made;
    const Truth& truth;
    Worst& worst;
    const Problem& p = made.problem;
    const int64_t heads = p.n_heads, rows = truth.rows, n_k = truth.n_k, all = heads * rows;
    const int64_t stripe = 48 * (1 + below(3)), stripes = (rows + stripe - 1) / stripe;
    const int64_t few = 1 + below(9), many = 4097 + below(200);
    const int64_t height = 1 + below(below(2) ? 8 : p.n_q), width = 1 + below(12);
    const int64_t low = below(19) - 12, high = low + below(9), reach = below(3) - 1, tops[2] = {3, 20};
    int64_t ahead = 0, back = 0;
    std::vector<int64_t> offset, key_at, row_at;
    std::vector<int32_t> key, own;
    ByTile labels[2] = {{n_k, [&](int64_t) { return below(few + 1) - 1; }},
                        {n_k, [&](int64_t) { return below(many + 1) - 1; }}};
    std::vector<int64_t> edge;
    Twice<W> mass{all}, squares{all}, slope{all}, largest{all}, band{all}, pair{all};
    Twice<W> received{heads * stripes * n_k, 0}, shares[2] = {Twice<W>(all * few, 0), Twice<W>(all * many, 0)};
    Twice<W> best[2] = {Twice<W>(all * tops[0], -1), Twice<W>(all * tops[1], -1)};
    Twice<int64_t> best_key[2] = {Twice<int64_t>(all * tops[0], -1), Twice<int64_t>(all * tops[1], -1)};
    Twice<double> pictures[2] = {Twice<double>(heads * height * width, 0), Twice<double>(pictures[0])};
    Twice<double> carried[2] = {Twice<double>(heads * stripes * width, 0), Twice<double>(carried[0])};
    Twice<double> means[2] = {Twice<double>(all), Twice<double>(all)}, variances[2] = {means[0], means[1]};
    std::vector<Twice<double>> histograms;

    Everything(const Made& made, const Truth& truth, Worst& worst) : made(made), truth(truth), worst(worst) {
        const int64_t far = below(4) ? 20 : 3000;
        int64_t least = INT64_MAX, most = INT64_MIN;
        for (int64_t h = 0; h < heads; h++) {
            offset.push_back(n_k - p.n_q + below(2 * far) - far);
            least = std::min(least, offset.back());
            most = std::max(most, offset.back());
            key_at.push_back(n_k * h);
            row_at.push_back(p.n_q * h);
        }
        for (int64_t n = 0; n < heads * n_k; n++) key.push_back(int32_t(below(5) - 1));
        for (int64_t n = 0; n < heads * p.n_q; n++) own.push_back(below(4) ? int32_t(below(4)) : -2);
        for (int64_t span = std::max<int64_t>(0, n_k - 1 - least); span; span /= 2) ahead++;
        for (int64_t span = std::max<int64_t>(0, most + p.n_q - 1); span; span /= 2) back++;
        histograms = {Twice<double>(heads * stripes * (ahead + 1 + back), 0),
                      Twice<double>(heads * stripes * (1 + std::max(ahead, back)), 0)};
        for (int64_t pixel = 0; pixel <= width; pixel++) edge.push_back((pixel * n_k + width - 1) / width);
        for (auto* each : {&offset, &key_at, &row_at, &edge}) each->shrink_to_fit();
        for (auto* each : {&key, &own}) each->shrink_to_fit();
    }

    int64_t pixel(int64_t row) const { return (p.rows.begin + row) * height / p.n_q; }
    bool is_carried(int64_t row) const {  // began its pixel row in a stripe before that of the row
        const int64_t first = row / stripe * stripe;
        return first && pixel(row) == pixel(first - 1);
    }

    void run(const Kernel& kernel, const RowSums& sums, int t) {
        const Labels asked_labels[] = {{labels[0].label.data(), labels[0].order.data(), few, shares[0].at(t)},
                                       {labels[1].label.data(), labels[1].order.data(), many, shares[1].at(t)}};
        const auto picture = [&](bool max) {
            return Picture{edge.data(), height, width, max, pictures[max].at(t), carried[max].at(t)};
        };
        const Picture asked_pictures[] = {picture(false), picture(true)};
        const Band asked_bands[] = {{offset.data(), low, high, band.at(t)}};
        const Pairs asked_pairs[] = {
            {key.data(), key_at.data(), own.data(), row_at.data(), offset.data(), reach, pair.at(t)}};
        const Distances asked_distances[] = {
            {offset.data(), false, means[0].at(t), variances[0].at(t), histograms[0].at(t), ahead, back},
            {offset.data(), true, means[1].at(t), variances[1].at(t), histograms[1].at(t), 0, std::max(ahead, back)}};
        const Top asked_tops[] = {{tops[0], best[0].at(t), best_key[0].at(t)}, {tops[1], best[1].at(t), best_key[1].at(t)}};
        const Scan scan{stripe,        mass.at(t),      squares.at(t), slope.at(t),     largest.at(t), received.at(t),
                        asked_labels,  asked_pictures,  asked_bands,   asked_pairs,     asked_distances, asked_tops,
                        2, 2, 1, 1, 2, 2};
        kernel.scan(p, sums, scan, on(t));
    }

    void check() {
        check_bits();
        check_sums();
        for (int64_t r = 0; r < all; r++) {
            check_row(r);
            check_top(r, 0);
            check_top(r, 1);
        }
    }
    void check_bits() const {
        for (auto* each : {&mass, &squares, &slope, &largest, &band, &pair, &received, &shares[0], &shares[1], &best[0],
                           &best[1]})
            worst.hold(each->same(), "bits of a scan");
        for (auto* each : {&pictures[0], &pictures[1], &carried[0], &carried[1], &means[0], &means[1], &variances[0], &variances[1], &histograms[0],
                           &histograms[1]})
            worst.hold(each->same(), "bits of a scan in double");
        for (const auto& each : best_key) worst.hold(each.same(), "bits of keys");
    }
    // What a head has as a whole, and the shares of labels: sums of cells, each found where it belongs.
    void check_sums() {
        std::vector<double> columns(received.one.size(), 0), share[2], picture[2], rest[2], bins[2];
        for (int n : {0, 1}) {
            share[n].assign(shares[n].one.size(), 0);
            picture[n].assign(pictures[n].one.size(), 0);
            rest[n].assign(carried[n].one.size(), 0);
            bins[n].assign(histograms[n].one.size(), 0);
        }
        for (int64_t n = 0; n < all * n_k; n++) {
            const int64_t r = n / n_k, j = n % n_k, h = r / rows, row = r % rows, place = h * stripes + row / stripe;
            const double w = truth.weight[size_t(n)];
            columns[size_t(place * n_k + j)] += w;
            for (int l : {0, 1}) {
                const int64_t label = labels[l].label[size_t(j)];
                if (label >= 0) share[l][size_t(r * (l ? many : few) + label)] += w;
            }
            const int64_t across = j * width / n_k;
            auto& into = is_carried(row) ? rest : picture;
            const size_t at = size_t((is_carried(row) ? place : h * height + pixel(row)) * width + across);
            into[0][at] += w;
            into[1][at] = std::fmax(into[1][at], w);
            const int64_t d = p.rows.begin + row + offset[size_t(h)] - j;
            int64_t power = 0;
            for (int64_t size = std::abs(d); size; size /= 2) power++;
            bins[0][size_t(place * (ahead + 1 + back) + ahead + (d < 0 ? -power : power))] += w;
            bins[1][size_t(place * (1 + std::max(ahead, back)) + power)] += w;
        }
        hold(received.one, columns, "received");
        for (int n : {0, 1}) {
            hold(shares[n].one, share[n], "a label");
            hold(pictures[n].one, picture[n], "a pixel");
            hold(carried[n].one, rest[n], "a pixel of another stripe");
            hold(histograms[n].one, bins[n], "a histogram");
        }
    }
    template <class T>
    void hold(const std::vector<T>& found, const std::vector<double>& wanted, const char* name) {
        for (size_t n = 0; n < found.size(); n++) worst.take(double(found[n]), wanted[n], wanted[n], name);
    }
    void check_row(int64_t r) {
        const int64_t h = r / rows, i = p.rows.begin + r % rows, at = i + offset[size_t(h)];
        double sum = 0, square = 0, rest = 0, most = 0, near = 0, same = 0, first[2] = {0, 0}, second[2] = {0, 0};
        for (int64_t j = 0; j < n_k; j++) {
            const double w = truth.weight[size_t(r * n_k + j)];
            sum += w;
            square += w * w;
            rest += w * (1 - w);
            most = std::fmax(most, w);
            near += j >= at + low && j <= at + high ? w : 0;
            same += j < at + reach && key[size_t(h * n_k + j)] == own[size_t(h * p.n_q + i)] ? w : 0;
            first[0] += w * double(at - j);
            first[1] += w * double(std::abs(at - j));
        }
        for (int n : {0, 1}) first[n] = sum > 0 ? first[n] / sum : 0;
        for (int64_t j = 0; sum > 0 && j < n_k; j++)
            for (int n : {0, 1}) {
                const double away = double(n ? std::abs(at - j) : at - j) - first[n];
                second[n] += truth.weight[size_t(r * n_k + j)] * away * away / sum;
            }
        const size_t to = size_t(r);
        worst.take(mass.one[to], sum, 0, "mass");
        worst.take(squares.one[to], square, 0, "squares");
        worst.take(slope.one[to], rest, 0, "slope");
        worst.take(largest.one[to], most, 0, "largest");
        worst.take(band.one[to], near, 0, "a band");
        worst.take(pair.one[to], same, 0, "pairs");
        if (sum > 0 && sum < 1e-30) return;  // float has no such weights
        for (int n : {0, 1}) {
            worst.take(means[n].one[to], first[n], double(n_k) + std::fabs(first[n]), "a mean distance");
            worst.take(variances[n].one[to], second[n], double(n_k * n_k), "a variance");
        }
    }
    void check_top(int64_t r, int which) {
        const int64_t n = tops[which];
        const W* weight = best[which].one.data() + r * n;
        const int64_t* keys = best_key[which].one.data() + r * n;
        std::vector<double> sorted;
        for (int64_t j = 0; j < n_k; j++)
            if (truth.score[size_t(r * n_k + j)] > -INFINITY) sorted.push_back(truth.weight[size_t(r * n_k + j)]);
        std::sort(sorted.rbegin(), sorted.rend());
        for (int64_t t = 0; t < n; t++) {
            const bool there = t < int64_t(sorted.size());
            worst.take(weight[t], there ? sorted[size_t(t)] : -1, 0, "a top weight");
            worst.hold(there ? keys[t] >= 0 && keys[t] < n_k : keys[t] == -1, "a top key");
            if (there && keys[t] >= 0 && keys[t] < n_k)
                worst.take(weight[t], truth.weight[size_t(r * n_k + keys[t])], 0, "the weight of a top key");
            const bool equal = t && weight[t] == weight[t - 1];
            if (there && t) worst.hold(equal ? keys[t] > keys[t - 1] : weight[t] < weight[t - 1], "the order of a top");
        }
    }
};

}  // namespace
