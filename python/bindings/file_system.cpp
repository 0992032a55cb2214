#include "python/bindings/file_system.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>
#include <pybind11/stl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/bindings/exception.h"

namespace paceline::python {
namespace {

namespace py = pybind11;
namespace afs = arrow::fs;
using arrow::Status;

Status io_status_of(const py::error_already_set& error) {
  const std::string text = utf8(error.type().attr("__name__")) + ": " + utf8(error.value());
  if (error.matches(PyExc_FileNotFoundError)) return arrow::internal::IOErrorFromErrno(ENOENT, text);
  if (error.matches(PyExc_PermissionError)) return arrow::internal::IOErrorFromErrno(EACCES, text);
  if (error.matches(PyExc_ConnectionError) || error.matches(PyExc_TimeoutError)) return Status::IOError(text);
  if (!error.matches(PyExc_OSError)) return Status::Invalid(text);
  const py::object number = error.value().attr("errno");
  return number.is_none() ? Status::IOError(text) : arrow::internal::IOErrorFromErrno(number.cast<int>(), text);
}

// What `call` gives, which is called with the GIL.
template <class Call>
auto in_python(const Call& call) {
  using Value = std::invoke_result_t<Call>;
  using Outcome = std::conditional_t<std::is_void_v<Value>, Status, arrow::Result<Value>>;
  const py::gil_scoped_acquire gil;
  try {
    if constexpr (std::is_void_v<Value>) {
      call();
      return Outcome(Status::OK());
    } else {
      return Outcome(call());
    }
  } catch (const py::error_already_set& error) {
    return Outcome(io_status_of(error));
  } catch (const std::exception& error) {  // a value of another type than pyarrow gives
    return Outcome(Status::Invalid(error.what()));
  }
}

// An object that is let go wherever C++ does so.
class Held {
 public:
  explicit Held(py::object object) : object_(std::move(object)) {}
  ~Held() {
    const py::gil_scoped_acquire gil;
    object_ = py::object();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  py::object operator[](const char* name) const { return object_.attr(name); }

 private:
  py::object object_;
};

class InputFile final : public arrow::io::RandomAccessFile {
 public:
  explicit InputFile(py::object file) : file_(std::move(file)) {}
  ~InputFile() override { (void)Close(); }

  Status Close() override {
    return in_python([this] { file_["close"](); });
  }
  bool closed() const override {
    return in_python([this] { return file_["closed"].cast<bool>(); }).ValueOr(true);
  }
  arrow::Result<int64_t> GetSize() override {
    return in_python([this] { return file_["size"]().cast<int64_t>(); });
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t count, void* out) override {
    return in_python([&] {
      const py::bytes bytes = file_["read_at"](count, position);
      const std::string_view content = bytes;
      std::memcpy(out, content.data(), std::min(content.size(), static_cast<size_t>(count)));
      return static_cast<int64_t>(content.size());
    });
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::ResizableBuffer> buffer, arrow::AllocateResizableBuffer(count));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, count, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Result<int64_t> Tell() const override { return Status::NotImplemented("a position"); }
  Status Seek(int64_t) override { return Status::NotImplemented("a position"); }
  arrow::Result<int64_t> Read(int64_t, void*) override { return Status::NotImplemented("a position"); }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t) override { return Status::NotImplemented("a position"); }

 private:
  Held file_;
};

class OutputFile final : public arrow::io::OutputStream {
 public:
  /// `discard` is what Abort() does with what was written: Python's files have no other end than close().
  OutputFile(py::object file, std::function<Status()> discard) : file_(std::move(file)), discard_(std::move(discard)) {}

  Status Close() override {
    return in_python([this] { file_["close"](); });
  }
  Status Abort() override {
    const Status closed = Close();
    const Status discarded = discard_();
    return closed.ok() ? discarded : closed;
  }
  bool closed() const override {
    return in_python([this] { return file_["closed"].cast<bool>(); }).ValueOr(true);
  }
  arrow::Result<int64_t> Tell() const override {
    return in_python([this] { return file_["tell"]().cast<int64_t>(); });
  }
  Status Flush() override {
    return in_python([this] { file_["flush"](); });
  }
  Status Write(const void* data, int64_t size) override {
    return in_python([&] { file_["write"](py::memoryview::from_memory(data, size)); });
  }

 private:
  Held file_;
  std::function<Status()> discard_;
};

class PythonFileSystem final : public afs::FileSystem {
 public:
  explicit PythonFileSystem(py::object system) : system_(std::move(system)) {}

  std::string type_name() const override { return "python"; }
  bool Equals(const FileSystem& other) const override { return this == &other; }

  using FileSystem::GetFileInfo;
  arrow::Result<std::vector<afs::FileInfo>> GetFileInfo(const afs::FileSelector& below) override {
    return in_python([&] {
      const py::object selector =
          py::module_::import("pyarrow.fs")
              .attr("FileSelector")(below.base_dir, py::arg("allow_not_found") = below.allow_not_found,
                                    py::arg("recursive") = below.recursive);
      std::vector<afs::FileInfo> found;
      for (const py::handle& one : system_["get_file_info"](selector)) {
        if (one.attr("is_file").cast<bool>()) found.push_back(info_of(one));  // nobody asks for folders
      }
      return found;
    });
  }
  Status CreateDir(const std::string& path, bool recursive) override {
    return in_python([&] { system_["create_dir"](path, py::arg("recursive") = recursive); });
  }
  Status DeleteDir(const std::string& path) override {
    return in_python([&] { system_["delete_dir"](path); });
  }
  Status DeleteFile(const std::string& path) override {
    return in_python([&] { system_["delete_file"](path); });
  }
  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> OpenInputFile(const std::string& path) override {
    return in_python([&]() -> std::shared_ptr<arrow::io::RandomAccessFile> {
      return std::make_shared<InputFile>(system_["open_input_file"](path));
    });
  }
  using FileSystem::OpenOutputStream;
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> OpenOutputStream(
      const std::string& path, const std::shared_ptr<const arrow::KeyValueMetadata>&) override {
    return in_python([&]() -> std::shared_ptr<arrow::io::OutputStream> {
      // Without compression, which pyarrow would choose by the end of the name.
      py::object file = system_["open_output_stream"](path, py::arg("compression") = py::none());
      return std::make_shared<OutputFile>(std::move(file), [this, path] { return DeleteFile(path); });
    });
  }

  arrow::Result<afs::FileInfo> GetFileInfo(const std::string& path) override {
    return in_python([&] { return info_of(system_["get_file_info"](path)); });
  }
  Status DeleteDirContents(const std::string&, bool) override { return not_needed(); }
  Status DeleteRootDirContents() override { return not_needed(); }
  Status Move(const std::string&, const std::string&) override { return not_needed(); }
  Status CopyFile(const std::string&, const std::string&) override { return not_needed(); }
  arrow::Result<std::shared_ptr<arrow::io::InputStream>> OpenInputStream(const std::string&) override {
    return not_needed();
  }
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> OpenAppendStream(
      const std::string&, const std::shared_ptr<const arrow::KeyValueMetadata>&) override {
    return not_needed();
  }

 private:
  // Of a pyarrow.fs.FileInfo. Some file systems do not say when a file was written.
  static afs::FileInfo info_of(const py::handle& one) {
    const bool is_file = one.attr("is_file").cast<bool>();
    const bool is_there = is_file || one.attr("type").attr("name").cast<std::string>() == "Directory";
    afs::FileInfo info(one.attr("path").cast<std::string>(), is_file    ? afs::FileType::File
                                                             : is_there ? afs::FileType::Directory
                                                                        : afs::FileType::NotFound);
    if (is_file) info.set_size(one.attr("size").cast<int64_t>());
    if (const py::object written = one.attr("mtime_ns"); !written.is_none()) {
      info.set_mtime(afs::TimePoint(std::chrono::nanoseconds(written.cast<int64_t>())));
    }
    return info;
  }
  static Status not_needed() { return Status::NotImplemented("Storage does not need it"); }

  Held system_;
};

}  // namespace

std::shared_ptr<arrow::fs::FileSystem> make_file_system(py::object system) {
  return std::make_shared<PythonFileSystem>(std::move(system));
}

}  // namespace paceline::python
