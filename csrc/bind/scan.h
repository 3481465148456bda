// SPDX-License-Identifier: Apache-2.0
// A qkv::Scan as Python fills it in, one thing that is wanted after the other, and the arrays of it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "../qkv/scan.h"
#include "array.h"

namespace bind {

class Scan {
  public:
    explicit Scan(int64_t stripe) { scan_.stripe = stripe; }
    Scan(const Scan&) = delete;

    void rows(nanobind::handle mass, nanobind::handle squares, nanobind::handle slope, nanobind::handle largest) {
        scan_.mass = into<void>(mass);
        scan_.squares = into<void>(squares);
        scan_.slope = into<void>(slope);
        scan_.largest = into<void>(largest);
    }
    void received(nanobind::handle column) { scan_.received = into<void>(column); }
    void top(int64_t n, nanobind::handle weight, nanobind::handle key) {
        tops_.push_back({n, into<void>(weight), into<int64_t>(key)});
    }
    void labels(nanobind::handle label, nanobind::handle order, int64_t n, nanobind::handle share) {
        labels_.push_back({from<int32_t>(label), from<uint8_t>(order), n, into<void>(share)});
    }
    void picture(nanobind::handle edge, int64_t height, int64_t width, bool largest, nanobind::handle value, nanobind::handle carried) {
        pictures_.push_back({from<int64_t>(edge), height, width, largest, into<double>(value), into<double>(carried)});
    }
    void band(nanobind::handle offset, int64_t low, int64_t high, nanobind::handle mass) {
        bands_.push_back({from<int64_t>(offset), low, high, into<void>(mass)});
    }
    void pairs(nanobind::handle key, nanobind::handle key_at, nanobind::handle row, nanobind::handle row_at, nanobind::handle offset, int64_t reach,
               nanobind::handle mass) {
        pairs_.push_back({from<int32_t>(key), from<int64_t>(key_at), from<int32_t>(row), from<int64_t>(row_at),
                          from<int64_t>(offset), reach, into<void>(mass)});
    }
    void distances(nanobind::handle offset, bool absolute, nanobind::handle mean, nanobind::handle variance, nanobind::handle histogram, int64_t ahead,
                   int64_t back) {
        distances_.push_back({from<int64_t>(offset), absolute, into<double>(mean), into<double>(variance),
                              into<double>(histogram), ahead, back});
    }

    qkv::Scan described() const {
        qkv::Scan scan = scan_;
        scan.labels = labels_.data();
        scan.pictures = pictures_.data();
        scan.bands = bands_.data();
        scan.pairs = pairs_.data();
        scan.distances = distances_.data();
        scan.tops = tops_.data();
        scan.n_labels = int(labels_.size());
        scan.n_pictures = int(pictures_.size());
        scan.n_bands = int(bands_.size());
        scan.n_pairs = int(pairs_.size());
        scan.n_distances = int(distances_.size());
        scan.n_tops = int(tops_.size());
        return scan;
    }

    static void declare(nanobind::module_& m) {
        nanobind::class_<Scan>(m, "Scan")
            .def(nanobind::init<int64_t>())
            .def("rows", &Scan::rows, nanobind::arg().none(), nanobind::arg().none(), nanobind::arg().none(),
                 nanobind::arg().none())
            .def("received", &Scan::received)
            .def("top", &Scan::top)
            .def("labels", &Scan::labels)
            .def("picture", &Scan::picture)
            .def("band", &Scan::band)
            .def("pairs", &Scan::pairs)
            .def("distances", &Scan::distances);
    }

  private:
    template <class T>
    const T* from(nanobind::handle array) {
        return held_.emplace_back(std::make_unique<Array>(array))->data<const T>();
    }
    template <class T>
    T* into(nanobind::handle array) {
        return held_.emplace_back(std::make_unique<Array>(array, PyBUF_STRIDED))->data<T>();
    }

    std::vector<std::unique_ptr<Array>> held_;
    qkv::Scan scan_{};
    std::vector<qkv::Labels> labels_;
    std::vector<qkv::Picture> pictures_;
    std::vector<qkv::Band> bands_;
    std::vector<qkv::Pairs> pairs_;
    std::vector<qkv::Distances> distances_;
    std::vector<qkv::Top> tops_;
};

}  // namespace bind
