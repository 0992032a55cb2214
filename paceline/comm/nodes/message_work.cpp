#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "paceline/comm/callback_threads_internal.h"
#include "paceline/comm/nodes/message_work_internal.h"
#include "paceline/comm/shared_work_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using std::chrono::milliseconds;

// Outlives the work, which nobody need keep.
class Carriage {
 public:
  Carriage(Message of, c10::intrusive_ptr<c10d::Work> work, SharedCall call)
      : of_(std::move(of)),
        work_(std::move(work)),
        call_(std::move(call)),
        told_(make_told_work({of_.rank, of_.type, Collective::none, of_.operation, of_.results, of_.failures})) {}

  c10d::Work& told() const { return *told_.work; }
  void abort() const { work_->abort(); }

  // Waits for Gloo, once, and tells.
  void carry() {
    if (is_carried_.exchange(true)) return;
    std::exception_ptr failure;
    const auto deadline = std::chrono::steady_clock::now() + of_.timeout;
    try {
      wait();
      failure = of_.failures->failure_of([this] { call_.copy_back(); }, of_.operation);
    } catch (const std::exception& thrown) {
      failure = failure_for(thrown, deadline);
    }
    call_.release();
    const bool has_source = !failure && of_.type != c10d::OpType::SEND;
    told_.end(failure, has_source ? work_->sourceRank() : -1);
  }
  bool is_carried() const { return is_carried_; }

 private:
  void wait() const {
    const auto group = of_.relay.lock();
    milliseconds limit = of_.timeout;
    // Of a group that has failed what has come before counts. Gloo, which may not notice, waits for nothing else then.
    std::shared_ptr<void> watch;
    if (group && group->is_broken()) {
      limit = milliseconds(1);
    } else if (group) {
      watch = group->when_broken([work = work_](const std::exception_ptr&) { work->abort(); });
    }
    // One that was aborted may have come: then another wait for it is over at once.
    if (!work_->wait(limit) && !work_->wait(milliseconds(1)))
      throw CollectiveError("the group has ended", CollectiveCause::stopped);
  }

  std::exception_ptr failure_for(const std::exception& failure, std::chrono::steady_clock::time_point deadline) const {
    const auto group = of_.relay.lock();
    if (!group) return std::make_exception_ptr(CollectiveError(cause_of(failure), CollectiveCause::stopped));
    const std::vector<int64_t> missing = of_.peer < 0 ? std::vector<int64_t>() : std::vector<int64_t>{of_.peer};
    if (group->is_broken() || std::chrono::steady_clock::now() < deadline) {
      return group->fail(failure, of_.operation, /*is_certain=*/false, missing);
    }
    // Gloo ends all its connections for it: nothing goes on in the group.
    const CollectiveError late("it is not over after " + std::to_string(of_.timeout.count()) + " ms",
                               CollectiveCause::other_rank);
    return group->fail(late, of_.operation, /*is_certain=*/true, missing);
  }

  const Message of_;
  const c10::intrusive_ptr<c10d::Work> work_;
  SharedCall call_;
  const ToldWork told_;
  std::atomic<bool> is_carried_ = false;
};

// Gloo's receives neither have futures nor say by themselves that they are over, and a bounded wait for one would end
// all connections: then another thread waits.
class MessageWork final : public c10d::Work {
 public:
  MessageWork(const Message& of, std::shared_ptr<Carriage> carriage)
      : Work(of.rank, of.type), carriage_(std::move(carriage)) {}

  bool isCompleted() override { return carried_apart().isCompleted(); }
  bool isSuccess() const override { return carriage_->told().isSuccess(); }
  std::exception_ptr exception() const override { return carriage_->told().exception(); }
  int sourceRank() const override { return carriage_->told().sourceRank(); }
  std::vector<at::Tensor> result() override { return carriage_->told().result(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return carried_apart().getFuture(); }
  void synchronize() override {}
  void abort() override { carriage_->abort(); }
  bool wait(milliseconds timeout) override {
    if (timeout != kNoTimeout) return carried_apart().wait(timeout);
    carriage_->carry();
    return carriage_->told().wait(kNoTimeout);
  }

 private:
  c10d::Work& carried_apart() {
    if (!carriage_->is_carried()) call_apart([carriage = carriage_] { carriage->carry(); });
    return carriage_->told();
  }

  const std::shared_ptr<Carriage> carriage_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> make_message_work(const Message& of, c10::intrusive_ptr<c10d::Work> work,
                                                 SharedCall call) {
  auto carriage = std::make_shared<Carriage>(of, std::move(work), std::move(call));
  return c10::make_intrusive<MessageWork>(of, std::move(carriage));
}

}  // namespace paceline::comm
