#include <atomic>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "paceline/comm/message_work_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using std::chrono::milliseconds;

class MessageWork final : public c10d::Work {
 public:
  MessageWork(Message of, c10::intrusive_ptr<c10d::Work> work, SharedCall call)
      : Work(of.rank, of.type), work_(std::move(work)), call_(std::move(call)), of_(std::move(of)) {}

  bool isCompleted() override { return is_over_; }
  bool isSuccess() const override { return is_over_ && !failure_; }
  std::exception_ptr exception() const override { return is_over_ ? failure_ : nullptr; }
  int sourceRank() const override { return work_->sourceRank(); }
  void synchronize() override {}
  void abort() override { work_->abort(); }
  bool wait(milliseconds timeout) override {
    const std::lock_guard lock(mutex_);
    if (!is_over_) {
      const auto begun = std::chrono::steady_clock::now();
      const milliseconds limit = timeout == kNoTimeout ? of_.timeout : timeout;
      try {
        end(limit);
      } catch (const std::exception& failure) {
        failure_ = of_.failures->as_thrown(of_.operation, failure_for(failure, begun + limit, limit));
      }
      call_.release();
      is_over_ = true;
    }
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  void end(milliseconds limit) {
    const auto group = of_.relay.lock();
    // Of a group that has failed what has come before counts. Gloo, which may not notice, waits for nothing else then.
    std::shared_ptr<void> watch;
    if (group && group->is_broken()) {
      limit = milliseconds(1);
    } else if (group) {
      watch = group->when_broken([work = work_](const std::exception_ptr&) { work->abort(); });
    }
    if (!work_->wait(limit)) throw CollectiveError("the group has ended", CollectiveCause::stopped);
    call_.copy_back();
  }

  std::exception_ptr failure_for(const std::exception& failure, std::chrono::steady_clock::time_point deadline,
                                 milliseconds limit) const {
    const auto group = of_.relay.lock();
    if (!group) return std::make_exception_ptr(CollectiveError(cause_of(failure), CollectiveCause::stopped));
    const std::vector<int64_t> missing = of_.peer < 0 ? std::vector<int64_t>() : std::vector<int64_t>{of_.peer};
    if (group->is_broken() || std::chrono::steady_clock::now() < deadline) {
      return group->fail(failure, of_.operation, /*is_certain=*/false, missing);
    }
    // Gloo ends all its connections for it: nothing goes on in the group.
    const CollectiveError late("it is not over after " + std::to_string(limit.count()) + " ms",
                               CollectiveCause::other_rank);
    return group->fail(late, of_.operation, /*is_certain=*/true, missing);
  }

  const c10::intrusive_ptr<c10d::Work> work_;
  SharedCall call_;
  const Message of_;
  std::mutex mutex_;
  std::exception_ptr failure_;  // before is_over_
  std::atomic<bool> is_over_ = false;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> make_message_work(Message of, c10::intrusive_ptr<c10d::Work> work, SharedCall call) {
  return c10::make_intrusive<MessageWork>(std::move(of), std::move(work), std::move(call));
}

}  // namespace paceline::comm
