// An exception of Python on its way through C++ code whose errors are statuses: it goes along as the status's detail.
//
// The caller holds the GIL, except for the destructor.
#pragma once

#include <arrow/status.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <utility>

#include "python/bindings/exception.h"

namespace paceline::python {

// A Python object that may be let go of on a thread without the GIL.
inline std::shared_ptr<pybind11::object> held(pybind11::object object) {
  return {new pybind11::object(std::move(object)), [](pybind11::object* last) {
            const pybind11::gil_scoped_acquire gil;
            delete last;
          }};
}

// An exception of a user's function on its way through the engine, whose errors are texts.
class __attribute__((visibility("hidden"))) RaisedStatus : public arrow::StatusDetail {
 public:
  explicit RaisedStatus(pybind11::object exception) : exception_(held(std::move(exception))) {}
  const char* type_id() const override { return kType; }
  std::string ToString() const override { return "an exception of Python"; }
  const pybind11::object& exception() const { return *exception_; }
  static constexpr char kType[] = "paceline::python::RaisedStatus";

 private:
  const std::shared_ptr<pybind11::object> exception_;
};

/// Cancelled for what is no error of a function: KeyboardInterrupt and its like.
inline arrow::Status status_of(const std::string& what, pybind11::object exception) {
  const bool is_error = PyObject_IsInstance(exception.ptr(), PyExc_Exception) == 1;
  return arrow::Status(is_error ? arrow::StatusCode::UnknownError : arrow::StatusCode::Cancelled, what,
                       std::make_shared<RaisedStatus>(std::move(exception)));
}

/// Null for a status without one.
inline const RaisedStatus* raised_in(const arrow::Status& status) {
  const bool has_one = status.detail() != nullptr && status.detail()->type_id() == RaisedStatus::kType;
  return has_one ? static_cast<const RaisedStatus*>(status.detail().get()) : nullptr;
}

}  // namespace paceline::python
