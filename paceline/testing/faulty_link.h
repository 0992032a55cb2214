// Connections in memory that misbehave on demand: the reference implementation of transport::Link, with what networks
// do.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "paceline/transport/link.h"

namespace paceline::testing {

/// What happens to one connection.
struct Faults {
  /// So long a frame is on its way.
  std::chrono::microseconds delay{0};
  /// The connection breaks when so many frames have been written at both ends; those on their way are lost. 0: never.
  int cut_after = 0;
  /// From so many frames on everything disappears, and neither end is told. 0: never.
  int silent_after = 0;
};

/// Both directions of one connection.
class FaultyWire {
 public:
  explicit FaultyWire(Faults faults) : faults_(faults) {}

  arrow::Status write(int end, std::string frame) {
    std::unique_lock lock(mutex_);
    Way& way = ways_[end];
    changed_.wait(lock, [&] { return cut_ || way.frames.size() < kWindow; });
    if (cut_) return arrow::Status::IOError("the connection was cut");
    ++written_;
    if (faults_.cut_after > 0 && written_ >= faults_.cut_after) {
      cut_ = true;
    } else if (faults_.silent_after == 0 || written_ < faults_.silent_after) {
      way.frames.emplace_back(Clock::now() + faults_.delay, std::move(frame));
    }
    changed_.notify_all();
    return arrow::Status::OK();
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> read(int end) {
    std::unique_lock lock(mutex_);
    Way& way = ways_[1 - end];
    while (true) {
      if (cut_) return arrow::Status::IOError("the connection was cut");
      if (!way.frames.empty()) {
        if (changed_.wait_until(lock, way.frames.front().first, [&] { return cut_; })) continue;
        std::string frame = std::move(way.frames.front().second);
        way.frames.pop_front();
        changed_.notify_all();
        return arrow::Buffer::FromString(std::move(frame));
      }
      if (way.finished) return nullptr;
      changed_.wait(lock);
    }
  }

  void finish(int end) {
    const std::lock_guard lock(mutex_);
    ways_[end].finished = true;
    changed_.notify_all();
  }

  /// Breaks the connection at both ends.
  void cut() {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    changed_.notify_all();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kWindow = 8;  // frames on their way before a writer waits
  struct Way {
    std::deque<std::pair<Clock::time_point, std::string>> frames;
    bool finished = false;
  };

  const Faults faults_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Way ways_[2];
  int written_ = 0;
  bool cut_ = false;
};

class FaultyLink final : public transport::Link {
 public:
  FaultyLink(std::shared_ptr<FaultyWire> wire, int end) : wire_(std::move(wire)), end_(end) {}

  arrow::Result<std::shared_ptr<arrow::Buffer>> read() override { return wire_->read(end_); }
  arrow::Status write(std::string frame) override { return wire_->write(end_, std::move(frame)); }
  void finish_writing() override { wire_->finish(end_); }
  void close() override { wire_->cut(); }

 private:
  std::shared_ptr<FaultyWire> wire_;
  const int end_;
};

inline std::pair<std::shared_ptr<FaultyLink>, std::shared_ptr<FaultyLink>> make_faulty_links(Faults faults = {}) {
  const auto wire = std::make_shared<FaultyWire>(faults);
  return {std::make_shared<FaultyLink>(wire, 0), std::make_shared<FaultyLink>(wire, 1)};
}

}  // namespace paceline::testing
