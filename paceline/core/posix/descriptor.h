// A file descriptor with one owner. Moving passes ownership; destruction closes. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <utility>

namespace paceline {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void reset();

  /// A second descriptor of the same open file, closed on exec.
  arrow::Result<Descriptor> duplicate() const;

 private:
  int number_ = -1;
};

/// IOError "WHAT: strerror(errno)" with errno as its detail; call right after the failing system call.
arrow::Status errno_status(const std::string& what);

}  // namespace paceline
