// CheckpointRequest: how the train loops of all ranks hear, at the same of their calls, that somebody wants a
// checkpoint.
//
// Ranks are at different places when somebody asks. Each says how many calls it has made and makes its next one wait;
// the controller takes a call that nobody has made yet, and tells all. That costs a loop a message there and back, only
// when somebody asks, and no collective. Thread-safe: next_call() belongs to the loop, the others to any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>

namespace paceline::worker {

class CheckpointRequest {
 public:
  /// Somebody asks, for the time of that number: gives how many calls there were, -1 where no loop has begun, and the
  /// next waits for decide().
  int64_t ask(int64_t number);
  /// `call`: which one hears of it, counted from 1; 0: none does. Of another number than the last it says nothing.
  void decide(int64_t number, int64_t call);
  /// One call: whether a checkpoint is wanted.
  bool next_call();
  /// A train loop begins, which has made no call; what was asked of the one before is of no concern.
  void begin();
  /// Calls wait no more.
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t calls_ = -1;
  int64_t number_ = 0;
  bool is_open_ = false;  // asked and not decided
  bool is_stopped_ = false;
  std::set<int64_t> wanted_at_;  // calls still to be made: ranks that are behind have not heard of the one before
};

}  // namespace paceline::worker
