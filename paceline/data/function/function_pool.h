// Processes that call functions of users, so that several blocks are worked on at once, and a crash is not ours.
//
// A call takes a process that is free, starts one where fewer than allowed are there, or waits. Threads get processes
// in the order in which they have lined up, which is that in which blocks are wanted: one that is ready for its call
// leaves a process to a thread that came before it and is still reading its block. When a process ends instead of
// answering, the call is made once more in a new one, with the same key, so that the function meets the same chance;
// when that one ends too, the call fails. Processes stay until the pool goes, or has no function any more.
//
// Thread-safe. The pool is of the process that made it: in a fork of that, calls are errors. A pool that a fork may
// inherit is made by make_shared_at_home(), so that it does not end there.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/forks.h"
#include "paceline/data/function/function_processes.h"
#include "paceline/data/function/shared_regions.h"

namespace paceline::data {

class FunctionConnection;
struct FunctionCall;

/// An exception that a function raised, as its process described it: detail of the status of a call.
class FunctionRaisedDetail : public arrow::StatusDetail {
 public:
  FunctionRaisedDetail(std::string pickled_exception, std::string traceback_text)
      : pickled(std::move(pickled_exception)), traceback(std::move(traceback_text)) {}
  const char* type_id() const override { return kType; }
  std::string ToString() const override { return traceback; }
  static constexpr char kType[] = "paceline::data::FunctionRaisedDetail";

  const std::string pickled;  ///< "" where it could not be pickled
  const std::string traceback;
};

struct FunctionPoolOptions {
  /// Of each process: variables of its environment. As many as there may be processes, at least one.
  std::vector<std::map<std::string, std::string>> variables = {{}};
  /// Bytes that a process may hold for itself; one that holds more is ended. 0: any amount.
  int64_t memory = 0;
  /// After which a call that is under way is told of, with what the process writes of where it is.
  std::chrono::milliseconds slow_after = std::chrono::minutes(1);
};

class FunctionPool {
 public:
  FunctionPool(std::shared_ptr<FunctionProcesses> processes, FunctionPoolOptions options);
  /// Ends the processes. Calls that are under way fail, and are waited for.
  ~FunctionPool();
  FunctionPool(const FunctionPool&) = delete;
  FunctionPool& operator=(const FunctionPool&) = delete;

  /// Takes over a function, pickled; each process gets it with the first call. Returns its number. `name` is for
  /// errors.
  arrow::Result<int64_t> add(std::string name, std::string_view code);
  /// Forgets a function: the objects that it has made go with the next call in each process.
  void remove(int64_t function);

  /// What the function makes of a block. `key` seeds what it does by chance. Errors: UnknownError with a
  /// FunctionRaisedDetail for an exception; ExecutionError where its process ended twice; OutOfMemory beyond
  /// FunctionPoolOptions::memory; Cancelled when the pool goes; IOError when no process can be started.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> call(int64_t function,
                                                          const std::shared_ptr<arrow::RecordBatch>& block,
                                                          uint64_t key);

  /// Puts this thread behind those that have lined up and not called yet, until what is given goes. A null pointer
  /// where the thread stands there already. A call without it lines up when it is made.
  static std::shared_ptr<const void> line_up(const std::shared_ptr<FunctionPool>& pool);

  /// How many calls can be under way at once.
  size_t size() const { return seats_.size(); }
  /// Of the processes that live now.
  std::vector<pid_t> pids() const;

 private:
  // The place of a process.
  struct Seat {
    std::map<std::string, std::string> variables;
    std::shared_ptr<FunctionConnection> connection;
    bool is_taken = false;
  };
  struct Function {
    std::string name;
    Descriptor code;
  };
  // Of a thread that is to call a function, or has.
  struct Turn {
    bool is_coming = true;    // has not called so far
    bool is_waiting = false;  // for a seat
  };
  using Turns = std::list<Turn>;  // the first to get a seat at the front
  class Place;

  arrow::Result<Seat*> take_seat(int64_t function);
  bool is_my_turn(Turns::iterator mine, bool is_patient) const;
  std::chrono::nanoseconds patience() const;
  void leave(Seat& seat, bool lives);
  void tell_slow(const Function& function, const arrow::RecordBatch& block, FunctionConnection& connection) const;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> try_twice(int64_t number, const Function& function,
                                                               const arrow::RecordBatch& block, uint64_t key);
  void note_what_is_gone(const FunctionConnection& connection, FunctionCall& call) const;

  const std::shared_ptr<FunctionProcesses> processes_;
  const int64_t memory_;
  const std::chrono::milliseconds slow_after_;
  const HomeProcess home_;
  SharedRegions regions_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  Turns turns_;
  std::chrono::nanoseconds called_for_{0};  // all calls together
  int64_t called_ = 0;
  std::map<int64_t, std::shared_ptr<const Function>> functions_;
  int64_t last_function_ = 0;
  int64_t calls_ = 0;  // under way
  bool stopped_ = false;
};

}  // namespace paceline::data
