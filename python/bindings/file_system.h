// A file system written in Python as one of Arrow's. Threading: any thread, with or without the GIL; the functions take
// it themselves.
#pragma once

#include <arrow/filesystem/filesystem.h>
#include <pybind11/pybind11.h>

#include <memory>

namespace paceline::python {

/// `system` is a pyarrow.fs.FileSystem, of which only what Storage needs is called. FileNotFoundError becomes a missing
/// file, and what else OSError is an IOError: one without a number, ConnectionError and TimeoutError may pass. All
/// others are Invalid. Their texts are kept.
std::shared_ptr<arrow::fs::FileSystem> make_file_system(pybind11::object system);

}  // namespace paceline::python
