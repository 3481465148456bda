// SPDX-License-Identifier: Apache-2.0
// An array of Python's, whatever its library.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace bind {

// An array of Python's as the buffer protocol shows it, of any strides, held for as long as this is; None is no array.
class Array {
  public:
    explicit Array(nanobind::handle from, int access = PyBUF_STRIDED_RO) {
        if (!from.is_none() && PyObject_GetBuffer(from.ptr(), &view_, access) != 0) throw nanobind::python_error();
    }
    ~Array() { PyBuffer_Release(&view_); }
    Array(const Array&) = delete;

    bool there() const { return view_.obj; }
    template <class T>
    T* data() const {
        return static_cast<T*>(view_.buf);
    }
    // Axes are counted from the last one, 1; one that is missing has size 1. Steps are bytes.
    int axes() const { return view_.ndim; }
    int64_t size(int axis) const { return axis <= axes() ? view_.shape[axes() - axis] : 1; }
    int64_t item() const { return view_.itemsize; }
    int64_t step(int axis) const { return size(axis) == 1 ? 0 : view_.strides[axes() - axis]; }

  private:
    Py_buffer view_{};
};

}  // namespace bind
