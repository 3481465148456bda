// SPDX-License-Identifier: Apache-2.0
// The module qkv._core: arrays and numbers from Python into a Problem, the GIL released, a kernel called. The arrays are
// checked, and brought into a form that the kernels read, by qkv/_kernel.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <deque>
#include <tuple>
#include <vector>

#include "../qkv/dispatch.h"
#include "array.h"
#include "scan.h"

namespace nb = nanobind;
using bind::Array;
using qkv::Cells;
using qkv::DType;
using qkv::Kernel;
using qkv::Rows;

namespace {

using Sizes = std::vector<int64_t>;

// The heads of a call among all that there are.
struct Heads {
    Sizes lead;    // sizes of the axes before n_q
    Sizes chosen;  // flat indices into them

    // Where each head begins, in steps of `unit` bytes, in an array whose axes before its `own` last ones broadcast to
    // `lead`; a shorter axis is shared by equal runs.
    Sizes offsets(const Array& array, int own, int64_t unit) const {
        Sizes found(array.there() ? chosen.size() : 0, 0);
        for (size_t h = 0; h < found.size(); h++) {
            int64_t rest = chosen[h];
            for (int axis = 1; axis + own <= array.axes(); axis++) {
                const int64_t all = lead[lead.size() - size_t(axis)], index = rest % all;
                rest /= all;
                found[h] += index / (all / array.size(axis + own)) * (array.step(axis + own) / unit);
            }
        }
        return found;
    }
};

// All heads of the axes `lead`.
Heads every_head(Sizes lead) {
    int64_t count = 1;
    for (const int64_t size : lead) count *= size;
    Heads heads{std::move(lead), Sizes(size_t(count))};
    for (int64_t h = 0; h < count; h++) heads.chosen[size_t(h)] = h;
    return heads;
}

// An array that is read head by head, and where each head begins in it.
struct ByHead {
    ByHead(nb::handle from, const Heads& heads, int own, int64_t unit = 1)
        : array(from), at(heads.offsets(array, own, unit)) {}

    Rows rows(DType dtype) const {
        return {array.data<const char>(), at.data(), array.step(2), array.step(1), array.size(1), dtype};
    }
    Cells cells(DType dtype) const { return {array.data<const char>(), at.data(), array.step(2), array.step(1), dtype}; }

    Array array;
    Sizes at;
};

// A qkv::Problem and what it points to.
class Problem {
  public:
    Problem(Sizes lead, Sizes chosen, int64_t n_q, int64_t n_k, int dtype, nb::handle q, nb::handle k, double factor,
            double softcap, nb::handle first, nb::handle last, nb::handle mask, nb::handle bias, int bias_dtype,
            nb::handle by_distance, nb::handle sinks, int64_t begin, int64_t end)
        : heads{std::move(lead), std::move(chosen)},
          q_(q, heads, 2),
          k_(k, heads, 2),
          first_(first, heads, 1, sizeof(int64_t)),
          mask_(mask, heads, 2),
          bias_(bias, heads, 2),
          by_distance_(by_distance, heads, 1, sizeof(double)),
          last_(last),
          sinks_(sinks) {
        problem.n_heads = int64_t(heads.chosen.size());
        problem.n_q = n_q;
        problem.n_k = n_k;
        problem.q = q_.rows(DType(dtype));
        problem.k = k_.rows(DType(dtype));
        problem.factor = factor;
        problem.softcap = softcap;
        problem.first = first_.array.data<const int64_t>();
        problem.last = last_.data<const int64_t>();
        problem.span_at = first_.at.data();
        problem.mask = mask_.cells(DType{});
        problem.bias = bias_.cells(DType(bias_dtype));
        problem.by_distance = by_distance_.array.data<const double>();
        problem.distance_at = by_distance_.at.data();
        problem.sinks = sinks_.data<const double>();
        problem.rows = {begin, end};
    }
    Problem(const Problem&) = delete;

    int64_t n_rows() const { return problem.n_heads * problem.rows.size(); }

    Heads heads;
    qkv::Problem problem{};

  private:
    ByHead q_, k_, first_, mask_, bias_, by_distance_;
    Array last_, sinks_;
};

// What a long call does now and then: signals, of which Ctrl-C sets an error, and whoever listens to its progress. An error
// ends the work and is raised afterwards.
bool tell(void* rows, double done) {
    nb::gil_scoped_acquire held;
    if (PyErr_Occurred() || PyErr_CheckSignals() != 0) return false;
    try {
        nb::module_::import_("qkv._progress").attr("reached")(done, *static_cast<const int64_t*>(rows));
    } catch (nb::python_error& error) {
        error.restore();
        return false;
    }
    return true;
}

// Calls run(kernel, how to run in parallel) without the GIL, over so many rows of the map.
template <class Run>
void without_gil(const std::string& name, int64_t rows, const Run& run) {
    const Kernel* kernel = qkv::find_kernel(name.c_str());
    if (!kernel || !kernel->runs_here()) throw nb::value_error("this kernel does not run here");
    int64_t lacking = 0;
    const qkv::Parallel parallel{qkv::thread_count(), tell, &rows, &lacking};
    {
        nb::gil_scoped_release released;
        run(*kernel, parallel);
    }
    if (!PyErr_Occurred() && lacking)
        PyErr_Format(PyExc_MemoryError, "a thread of the kernel needs %lld bytes of scratch memory, and there are none left; "
                     "qkv.set_num_threads(1) needs least", static_cast<long long>(lacking));
    if (PyErr_Occurred()) throw nb::python_error();
}

// Whether all of out is finite. v has heads of its own, all those of v_lead; rows are arrays in the order of RowResults.
bool apply(const std::string& name, const Problem& problem, nb::handle v, Sizes v_lead, nb::handle out, nb::tuple rows) {
    const ByHead values(v, every_head(std::move(v_lead)), 2);
    const Rows v_rows = values.rows(problem.problem.q.dtype);
    const auto into = [](nb::handle array) { return Array(array, PyBUF_STRIDED); };
    const Array means = into(out), peak = into(rows[0]), total = into(rows[1]), lse = into(rows[2]), entropy = into(rows[3]),
                max_score = into(rows[4]), max_key = into(rows[5]);
    const qkv::RowResults said{peak.data<void>(),    total.data<void>(),     lse.data<void>(),
                               entropy.data<void>(), max_score.data<void>(), max_key.data<int64_t>()};
    bool finite = true;
    without_gil(name, problem.n_rows(), [&](const Kernel& kernel, const qkv::Parallel& parallel) {
        finite = kernel.apply(problem.problem, values.array.there() ? &v_rows : nullptr, means.data<void>(), said, parallel);
    });
    return finite;
}

// What the weights are taken with, as apply gives it; None where only scores are asked for.
struct Sums {
    Sums(nb::handle peak, nb::handle total) : peak(peak), total(total) {}
    qkv::RowSums described() const { return {peak.data<const void>(), total.data<const void>()}; }

    Array peak, total;
};

void scan(const std::string& name, const Problem& problem, nb::handle peak, nb::handle total, const bind::Scan& wanted) {
    const Sums sums(peak, total);
    const qkv::Scan scan = wanted.described();
    without_gil(name, problem.n_rows(), [&](const Kernel& kernel, const qkv::Parallel& parallel) {
        kernel.scan(problem.problem, sums.described(), scan, parallel);
    });
}

void window(const std::string& name, const Problem& problem, nb::handle peak, nb::handle total, int stage, int64_t begin,
            int64_t end, nb::handle out) {
    const Sums sums(peak, total);
    const Array cells(out, PyBUF_STRIDED);
    without_gil(name, problem.n_rows(), [&](const Kernel& kernel, const qkv::Parallel& parallel) {
        kernel.window(problem.problem, sums.described(), qkv::Stage(stage), {begin, end}, cells.data<void>(), parallel);
    });
}

void apply_transposed(const std::string& name, const Problem& problem, nb::handle peak, nb::handle total, nb::handle x,
                      Sizes x_lead, nb::handle out) {
    const Sums sums(peak, total);
    const ByHead values(x, every_head(std::move(x_lead)), 2);
    const Rows rows = values.rows(problem.problem.q.dtype);
    const Array means(out, PyBUF_STRIDED);
    without_gil(name, problem.n_rows(), [&](const Kernel& kernel, const qkv::Parallel& parallel) {
        kernel.apply_transposed(problem.problem, sums.described(), rows, means.data<void>(), parallel);
    });
}

// out (…, d_v) of dtype and lse (…) of each part, and of the whole in the dtype of lse; all in C order.
void merge(const std::string& name, const std::vector<nb::object>& outs, const std::vector<nb::object>& lses, int dtype,
           nb::handle out, nb::handle lse) {
    std::deque<Array> held;
    std::vector<const void*> out_of, lse_of;
    for (const nb::object& each : outs) out_of.push_back(held.emplace_back(each).data<void>());
    for (const nb::object& each : lses) lse_of.push_back(held.emplace_back(each).data<void>());
    const Array whole(out, PyBUF_STRIDED), sums(lse, PyBUF_STRIDED);
    int64_t rows = 1;
    for (int axis = 1; axis <= sums.axes(); axis++) rows *= sums.size(axis);
    const qkv::Parts parts{int64_t(outs.size()), rows,           whole.size(1),   out_of.data(),
                           lse_of.data(),        DType(dtype),   sums.item() == 8};
    without_gil(name, rows, [&](const Kernel& kernel, const qkv::Parallel& parallel) {
        kernel.merge(parts, whole.data<void>(), sums.data<void>(), parallel);
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
        .def(nb::init<Sizes, Sizes, int64_t, int64_t, int, nb::handle, nb::handle, double, double, nb::handle, nb::handle,
                      nb::handle, nb::handle, int, nb::handle, nb::handle, int64_t, int64_t>(),
             nb::arg("lead"), nb::arg("heads"), nb::arg("n_q"), nb::arg("n_k"), nb::arg("dtype"), nb::arg("q"), nb::arg("k"),
             nb::arg("factor"), nb::arg("softcap"), nb::arg("first").none(), nb::arg("last").none(), nb::arg("mask").none(),
             nb::arg("bias").none(), nb::arg("bias_dtype"), nb::arg("by_distance").none(), nb::arg("sinks").none(),
             nb::arg("begin"), nb::arg("end"));
    m.def("apply", &apply, nb::arg("name"), nb::arg("problem"), nb::arg("v").none(), nb::arg("v_lead"),
          nb::arg("out").none(), nb::arg("rows"));
    m.def("environment", [](const char* name) { return std::getenv(name); });
    bind::Scan::declare(m);
    m.def("scan", &scan, nb::arg("name"), nb::arg("problem"), nb::arg("peak"), nb::arg("total"), nb::arg("wanted"));
    m.def("window", &window, nb::arg("name"), nb::arg("problem"), nb::arg("peak").none(), nb::arg("total").none(),
          nb::arg("stage"), nb::arg("begin"), nb::arg("end"), nb::arg("out"));
    m.def("apply_transposed", &apply_transposed, nb::arg("name"), nb::arg("problem"), nb::arg("peak"), nb::arg("total"),
          nb::arg("x"), nb::arg("x_lead"), nb::arg("out"));
    m.def("merge", &merge, nb::arg("name"), nb::arg("outs"), nb::arg("lses"), nb::arg("dtype"), nb::arg("out"), nb::arg("lse"));
    m.def("candidates", &candidates);
    m.def("thread_count", &qkv::thread_count);
    m.def("set_threads", &qkv::set_threads);
    m.def("leave_openmp", &qkv::leave_openmp);
    m.def("scratch_held", &qkv::scratch_held);
    m.def("thread_source", [] { return std::string(qkv::thread_source()); });
}
