// A process that calls functions, as its pool sees it: what it knows already, one call at a time.
//
// Not thread-safe: of the call that has the process, except kill().
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "paceline/core/posix/descriptor.h"
#include "paceline/data/function/function_messages.h"
#include "paceline/data/function/function_processes.h"
#include "paceline/data/function/shared_regions.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::data {

/// How a call ended: the process may have ended instead of answering.
struct FunctionAnswer {
  struct Died {
    std::optional<ExitStatus> status;
    int64_t memory = 0;  // more than it may have: it was ended for that
  };
  std::variant<FunctionMade, FunctionRaised, Died> what;
  std::string bytes;  // of the message
};

/// What is looked at while a call is under way.
struct FunctionWatch {
  int64_t memory = 0;  ///< what the process may hold, 0 for any amount; looked at ten times a second and at the end
  std::chrono::milliseconds slow_after{0};  ///< after which is_slow is called, once
  std::function<void()> is_slow;
};

class FunctionConnection {
 public:
  explicit FunctionConnection(std::unique_ptr<FunctionProcess> process);

  pid_t pid() const { return process_->pid(); }
  void kill() { process_->kill(); }
  /// Whether it has ended between two calls.
  bool has_ended();
  /// Has it say where it is.
  void show_stack() { process_->show_stack(); }
  /// Calls a function, of which `code` is the sealed memory, and waits for the answer. Invalid where it sends nonsense.
  arrow::Result<FunctionAnswer> call(FunctionCall call, const Descriptor& code, const SharedRegion& input,
                                     const SharedRegion& output, const FunctionWatch& watch);
  bool knows_function(int64_t function) const { return functions_.contains(function); }
  const std::set<int64_t>& functions() const { return functions_; }
  const std::set<int64_t>& regions() const { return regions_; }

 private:
  template <class M>
  arrow::Status introduce(std::set<int64_t>& known, int64_t id, M message, const Descriptor& descriptor);
  arrow::Status send(FunctionCall call, const Descriptor& code, const SharedRegion& input, const SharedRegion& output);
  FunctionAnswer died(int64_t memory);
  arrow::Result<std::optional<int64_t>> wait_for_answer(const FunctionWatch& watch);

  const std::unique_ptr<FunctionProcess> process_;
  rpc::BlockingSocket socket_;
  std::set<int64_t> functions_;  // that it has got
  std::set<int64_t> regions_;
};

}  // namespace paceline::data
