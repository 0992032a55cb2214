// The declarations of gloo that c10d's ProcessGroupGloo.hpp and comm/gloo.cpp need.
//
// LibTorch holds gloo inside libtorch_cpu but ships none of its headers. Nothing here is ever defined, constructed or
// derived from: the symbols are LibTorch's own, and only non-virtual members are called. Linking a second gloo beside
// it would mix the two. Exceptions are caught by type, which compares the names of types.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gloo {

// The base of all that gloo throws.
struct Exception : std::runtime_error {
  using runtime_error::runtime_error;
};

namespace transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};

class Pair {
 public:
  virtual ~Pair() = 0;
};

namespace tcp {

class Pair : public transport::Pair {
 public:
  // Makes every operation that waits on this connection fail with `message` and closes it.
  std::exception_ptr signalExceptionExternal(const std::string& message);
};

}  // namespace tcp
}  // namespace transport

namespace rendezvous {

class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};

}  // namespace rendezvous

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  // Null for this process's own rank.
  std::unique_ptr<transport::Pair>& getPair(int rank);
};

}  // namespace gloo
