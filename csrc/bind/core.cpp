// SPDX-License-Identifier: Apache-2.0
// The module qkv._core: numbers and addresses from Python into a Problem, the GIL released, a kernel called. The arrays
// behind the addresses are held, checked and described by qkv/_kernel.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "../qkv/dispatch.h"

namespace nb = nanobind;
using qkv::Cells;
using qkv::DType;
using qkv::Kernel;
using qkv::Problem;
using qkv::Rows;

namespace {

template <class T>
const T* at(uintptr_t address) {
    return reinterpret_cast<const T*>(address);
}

// (address, address of the byte offsets of the heads, bytes a row, bytes a column, width, dtype)
using RowsSpec = std::tuple<uintptr_t, uintptr_t, int64_t, int64_t, int64_t, int>;
// (address, address of the byte offsets of the heads, bytes a row, bytes a key, dtype)
using CellsSpec = std::tuple<uintptr_t, uintptr_t, int64_t, int64_t, int>;

Rows rows(const RowsSpec& s) {
    return {at<char>(std::get<0>(s)), at<int64_t>(std::get<1>(s)), std::get<2>(s), std::get<3>(s), std::get<4>(s),
            DType(std::get<5>(s))};
}
Cells cells(const CellsSpec& s) {
    return {at<char>(std::get<0>(s)), at<int64_t>(std::get<1>(s)), std::get<2>(s), std::get<3>(s), DType(std::get<4>(s))};
}

// Ctrl-C is noticed between tasks: Python's handler sets an error, which ends the work and is raised afterwards.
bool no_signal(void*) {
    nb::gil_scoped_acquire held;
    return PyErr_CheckSignals() == 0;
}

void apply(const std::string& name, std::tuple<int64_t, int64_t, int64_t> sizes, const RowsSpec& q, const RowsSpec& k,
           const RowsSpec& v, double factor, double softcap, std::tuple<uintptr_t, uintptr_t, uintptr_t> spans,
           const CellsSpec& mask, const CellsSpec& bias, std::tuple<uintptr_t, uintptr_t> by_distance, uintptr_t sinks,
           std::tuple<uintptr_t, uintptr_t, uintptr_t> results) {
    const Kernel* kernel = qkv::find_kernel(name.c_str());
    if (!kernel || !kernel->runs_here()) throw nb::value_error("this kernel does not run here");
    const auto [n_heads, n_q, n_k] = sizes;
    const Problem problem{n_heads,
                          n_q,
                          n_k,
                          rows(q),
                          rows(k),
                          rows(v),
                          factor,
                          softcap,
                          at<int64_t>(std::get<0>(spans)),
                          at<int64_t>(std::get<1>(spans)),
                          at<int64_t>(std::get<2>(spans)),
                          cells(mask),
                          cells(bias),
                          at<double>(std::get<0>(by_distance)),
                          at<int64_t>(std::get<1>(by_distance)),
                          at<double>(sinks)};
    const qkv::Results into{reinterpret_cast<void*>(std::get<0>(results)), reinterpret_cast<void*>(std::get<1>(results)),
                            reinterpret_cast<void*>(std::get<2>(results))};
    {
        nb::gil_scoped_release released;
        kernel->apply(problem, into, qkv::Parallel{qkv::thread_count(), no_signal, nullptr});
    }
    if (PyErr_Occurred()) throw nb::python_error();
}

std::vector<std::tuple<std::string, bool, std::string>> candidates() {
    const Kernel* all[qkv::kMaxKernels];
    std::vector<std::tuple<std::string, bool, std::string>> said;
    for (int n = qkv::kernels(all), i = 0; i < n; i++) said.emplace_back(all[i]->name, all[i]->runs_here(), all[i]->needs);
    return said;
}

}  // namespace

NB_MODULE(_core, m) {
    m.def("apply", &apply);
    m.def("candidates", &candidates);
    m.def("thread_count", &qkv::thread_count);
    m.def("set_threads", &qkv::set_threads);
    m.def("leave_openmp", &qkv::leave_openmp);
    m.def("thread_source", [] { return std::string(qkv::thread_source()); });
}
