// The exception object of an error that Python code has raised, with its traceback: pybind11 keeps the two apart.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "paceline/rpc/messages.h"

namespace paceline::python {

/// What str() makes of anything, as UTF-8; lone surrogates, as names of files have them, become \udcff. Never throws:
/// where the object's own method does, a sentence. The caller holds the GIL.
inline std::string utf8(const pybind11::handle& object) {
  const auto text = pybind11::reinterpret_steal<pybind11::object>(PyObject_Str(object.ptr()));
  pybind11::object bytes;
  if (text) {
    bytes = pybind11::reinterpret_steal<pybind11::object>(
        PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  }
  if (bytes) return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
  PyErr_Clear();
  return "(its text cannot be made)";
}

/// The caller holds the GIL.
inline pybind11::object exception_of(const pybind11::error_already_set& error) {
  pybind11::object exception = error.value();
  // Not as an attribute: the exception's class may refuse those.
  if (error.trace()) PyException_SetTraceback(exception.ptr(), error.trace().ptr());
  return exception;
}

/// What the program (paceline._worker.Program) says of it; of an exception that it cannot describe, class and text. The
/// caller holds the GIL.
inline rpc::Failed failed_of(const pybind11::object& program, const pybind11::error_already_set& error) {
  try {
    const pybind11::object said = program.attr("describe")(exception_of(error));
    rpc::Failed failed{.kind = utf8(said["kind"]),
                       .text = utf8(said["text"]),
                       .stopped = said["stopped"].cast<bool>(),
                       .collateral = said["collateral"].cast<bool>()};
    for (const pybind11::handle frame : said["frames"]) failed.frames.push_back(utf8(frame));
    return failed;
  } catch (const pybind11::error_already_set& other) {
    return {.kind = utf8(error.type().attr("__qualname__")),
            .text = utf8(error.value()) + " (it cannot be described: " + utf8(other.value()) + ")"};
  }
}

}  // namespace paceline::python
