// How a failure of c10d becomes one of Paceline's: operation, rank, world size and what the backend said.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace paceline::comm {

/// The message of `failure` without LibTorch's C++ stack, on one line.
std::string cause_of(const std::exception& failure);

/// What failures of a group's collectives are thrown as.
enum class ThrownAs {
  collective_error,
  /// c10::DistBackendError, which Python gets as torch.distributed.DistBackendError. Of a CollectiveError that passes
  /// through autograd Python keeps nothing but the text.
  torch_error
};

/// Says and throws what has failed on this rank of a group. Thread-safe.
class FailureReporter {
 public:
  FailureReporter(int64_t rank, int64_t world_size, ThrownAs thrown_as = ThrownAs::collective_error)
      : rank_(rank), world_size_(world_size), thrown_as_(thrown_as) {}

  /// This rank is told to stop: what fails from now on fails for that reason. Says whether this was the first call.
  bool stop() { return !stopped_.exchange(true); }

  /// Runs `body`; its exceptions become "all_reduce failed on rank 1 of 4: …", with advice unless this rank was told to
  /// stop. Paceline's own errors pass unchanged, but that those whose cause is another rank are thrown as this reporter
  /// throws.
  void run(const std::string& operation, const std::function<void()>& body) const;
  /// What run() would throw where its body threw `failure`: for futures.
  std::exception_ptr as_thrown(const std::string& operation, const std::exception_ptr& failure) const;
  /// What is to be thrown where `body` throws, of what this rank does for itself: nobody else is the cause. Null where
  /// it does not.
  std::exception_ptr failure_of(const std::function<void()>& body, const std::string& operation) const;
  /// Throws such a failure at once when this rank was told to stop.
  void throw_if_stopped(const std::string& operation) const;

 private:
  [[noreturn]] void fail(const std::string& operation, const std::string& cause) const;

  const int64_t rank_;
  const int64_t world_size_;
  const ThrownAs thrown_as_;
  std::atomic<bool> stopped_{false};
};

}  // namespace paceline::comm
