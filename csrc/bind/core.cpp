// SPDX-License-Identifier: Apache-2.0
// The module qkv._core: numbers and addresses from Python into a Problem, the GIL released, a kernel called. The arrays
// behind the addresses are held, checked and described by qkv/_kernel.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <vector>

#include "../qkv/dispatch.h"

namespace nb = nanobind;
using qkv::Cells;
using qkv::DType;
using qkv::Kernel;
using qkv::Rows;

namespace {

using Sizes = std::vector<int64_t>;

template <class T>
T* at(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// An array as Python describes it: address, then sizes and steps of its axes before the last ones, then what those are.
// Steps are bytes, but of spans and distances numbers.
using RowsSpec = std::tuple<uintptr_t, Sizes, Sizes, int64_t, int64_t, int64_t, int>;  // … bytes a row, a column, width, dtype
using CellsSpec = std::tuple<uintptr_t, Sizes, Sizes, int64_t, int64_t, int>;          // … bytes a row, a key, dtype
using SpansSpec = std::tuple<uintptr_t, uintptr_t, Sizes, Sizes>;                      // first, last
using TableSpec = std::tuple<uintptr_t, Sizes, Sizes>;

// The heads of a call among all that there are.
struct Heads {
    Sizes lead;    // sizes of the axes before n_q
    Sizes chosen;  // flat indices into them

    // Where each head begins in an array whose axes broadcast to `lead`; a shorter axis is shared by equal runs.
    Sizes offsets(const Sizes& sizes, const Sizes& steps) const {
        Sizes found(chosen.size(), 0);
        const size_t missing = lead.size() - sizes.size();
        for (size_t h = 0; h < chosen.size(); h++) {
            int64_t rest = chosen[h];
            for (size_t axis = lead.size(); axis-- > missing;) {
                const int64_t index = rest % lead[axis], size = sizes[axis - missing];
                rest /= lead[axis];
                found[h] += index / (lead[axis] / size) * steps[axis - missing];
            }
        }
        return found;
    }
};

Rows rows(const RowsSpec& s, const Sizes& offsets) {
    return {at<const char>(std::get<0>(s)), offsets.data(), std::get<3>(s), std::get<4>(s), std::get<5>(s), DType(std::get<6>(s))};
}

// A qkv::Problem and the offsets that it points to.
class Problem {
  public:
    Problem(Sizes lead, Sizes chosen, int64_t n_q, int64_t n_k, const RowsSpec& q, const RowsSpec& k, double factor,
            double softcap, const std::optional<SpansSpec>& spans, const std::optional<CellsSpec>& mask,
            const std::optional<CellsSpec>& bias, const std::optional<TableSpec>& by_distance, uintptr_t sinks,
            std::tuple<int64_t, int64_t> span)
        : heads{std::move(lead), std::move(chosen)} {
        problem.n_heads = int64_t(heads.chosen.size());
        problem.n_q = n_q;
        problem.n_k = n_k;
        q_at = heads.offsets(std::get<1>(q), std::get<2>(q));
        k_at = heads.offsets(std::get<1>(k), std::get<2>(k));
        problem.q = rows(q, q_at);
        problem.k = rows(k, k_at);
        problem.factor = factor;
        problem.softcap = softcap;
        if (spans) {
            span_at = heads.offsets(std::get<2>(*spans), std::get<3>(*spans));
            problem.first = at<const int64_t>(std::get<0>(*spans));
            problem.last = at<const int64_t>(std::get<1>(*spans));
            problem.span_at = span_at.data();
        }
        problem.mask = cells(mask, mask_at);
        problem.bias = cells(bias, bias_at);
        if (by_distance) {
            distance_at = heads.offsets(std::get<1>(*by_distance), std::get<2>(*by_distance));
            problem.by_distance = at<const double>(std::get<0>(*by_distance));
            problem.distance_at = distance_at.data();
        }
        problem.sinks = at<const double>(sinks);
        problem.rows = {std::get<0>(span), std::get<1>(span)};
    }
    Problem(const Problem&) = delete;

    Heads heads;
    qkv::Problem problem{};

  private:
    Cells cells(const std::optional<CellsSpec>& s, Sizes& offsets) const {
        if (!s) return {};
        offsets = heads.offsets(std::get<1>(*s), std::get<2>(*s));
        return {at<const char>(std::get<0>(*s)), offsets.data(), std::get<3>(*s), std::get<4>(*s), DType(std::get<5>(*s))};
    }

    Sizes q_at, k_at, span_at, mask_at, bias_at, distance_at;
};

// Ctrl-C is noticed now and then: Python's handler sets an error, which ends the work and is raised afterwards.
bool no_signal(void*, int64_t, int64_t) {
    nb::gil_scoped_acquire held;
    return PyErr_CheckSignals() == 0;
}

// Calls run(kernel, how to run in parallel) without the GIL.
template <class Run>
void without_gil(const std::string& name, const Run& run) {
    const Kernel* kernel = qkv::find_kernel(name.c_str());
    if (!kernel || !kernel->runs_here()) throw nb::value_error("this kernel does not run here");
    {
        nb::gil_scoped_release released;
        run(*kernel, qkv::Parallel{qkv::thread_count(), no_signal, nullptr});
    }
    if (PyErr_Occurred()) throw nb::python_error();
}

using RowsInto = std::tuple<uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t>;

void apply(const std::string& name, const Problem& problem, const std::optional<RowsSpec>& v, Sizes v_lead, Sizes v_heads,
           uintptr_t out, const RowsInto& into) {
    Sizes v_at;
    Rows values{};
    if (v) {
        v_at = Heads{std::move(v_lead), std::move(v_heads)}.offsets(std::get<1>(*v), std::get<2>(*v));
        values = rows(*v, v_at);
    }
    const qkv::RowResults said{at<void>(std::get<0>(into)), at<void>(std::get<1>(into)), at<void>(std::get<2>(into)),
                               at<void>(std::get<3>(into)), at<void>(std::get<4>(into)), at<int64_t>(std::get<5>(into))};
    without_gil(name, [&](const Kernel& kernel, const qkv::Parallel& parallel) {
        kernel.apply(problem.problem, v ? &values : nullptr, at<void>(out), said, parallel);
    });
}

std::vector<std::tuple<std::string, bool, std::string>> candidates() {
    const Kernel* all[qkv::kMaxKernels];
    std::vector<std::tuple<std::string, bool, std::string>> said;
    for (int n = qkv::kernels(all), i = 0; i < n; i++) said.emplace_back(all[i]->name, all[i]->runs_here(), all[i]->needs);
    return said;
}

}  // namespace

NB_MODULE(_core, m) {
    nb::class_<Problem>(m, "Problem")
        .def(nb::init<Sizes, Sizes, int64_t, int64_t, const RowsSpec&, const RowsSpec&, double, double,
                      const std::optional<SpansSpec>&, const std::optional<CellsSpec>&, const std::optional<CellsSpec>&,
                      const std::optional<TableSpec>&, uintptr_t, std::tuple<int64_t, int64_t>>(),
             nb::arg("lead"), nb::arg("heads"), nb::arg("n_q"), nb::arg("n_k"), nb::arg("q"), nb::arg("k"), nb::arg("factor"),
             nb::arg("softcap"), nb::arg("spans").none(), nb::arg("mask").none(), nb::arg("bias").none(),
             nb::arg("by_distance").none(), nb::arg("sinks"), nb::arg("rows"));
    m.def("apply", &apply, nb::arg("name"), nb::arg("problem"), nb::arg("v").none(), nb::arg("v_lead"), nb::arg("v_heads"),
          nb::arg("out"), nb::arg("rows"));
    m.def("candidates", &candidates);
    m.def("thread_count", &qkv::thread_count);
    m.def("set_threads", &qkv::set_threads);
    m.def("leave_openmp", &qkv::leave_openmp);
    m.def("thread_source", [] { return std::string(qkv::thread_source()); });
}
