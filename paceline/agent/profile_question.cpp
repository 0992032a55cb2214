#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/profile_question_internal.h"
#include "paceline/agent/stack_collection_internal.h"
#include "paceline/agent/stack_helper_internal.h"

namespace paceline::agent {
namespace {

constexpr std::chrono::seconds kAnswerPatience{5};

}  // namespace

ProfileQuestion::ProfileQuestion(boost::asio::io_context& loop, rpc::ProfileRequest wanted, Host host, Done done)
    : loop_(loop), wanted_(std::move(wanted)), host_(std::move(host)), done_(std::move(done)), deadline_(loop) {}

void ProfileQuestion::start(const std::set<WorkerId>& to_ask) {
  due_ = to_ask;
  for (const WorkerId worker : to_ask) {
    host_.send_to_worker(worker, rpc::pack(rpc::Sample{.seconds = wanted_.seconds, .rate = wanted_.rate}));
  }
  if (due_.empty()) return take_profiles();
  deadline_.expires_after(kAnswerPatience);
  deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->is_taking_) return;
    for (const WorkerId worker : self->due_) {
      self->problems_[worker] = "the worker did not answer: it is stopped, or has just been started";
    }
    self->take_profiles();
  });
}

void ProfileQuestion::take(WorkerId worker, rpc::Envelope& sampling) {
  if (is_taking_ || due_.erase(worker) == 0) return;
  const auto said = rpc::unpack<rpc::Sampling>(sampling).ValueOr(rpc::Sampling{});
  if (!sampling.descriptors.empty()) {
    memories_[worker] = std::move(sampling.descriptors.front());
  } else {
    problems_[worker] = said.problem.empty() ? "the worker sent no samples" : said.problem;
  }
  if (due_.empty()) take_profiles();
}

void ProfileQuestion::lose(WorkerId worker) {
  if (is_taking_ || due_.erase(worker) == 0) return;
  problems_[worker] = "the process has ended";
  if (due_.empty()) take_profiles();
}

void ProfileQuestion::take_profiles() {
  is_taking_ = true;
  deadline_.cancel();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return done_("");
  const auto patience = std::chrono::seconds(static_cast<int>(std::ceil(wanted_.seconds)) + kProfileHelperSeconds + 5);
  const auto collection = std::make_shared<StackCollection>(
      loop_, Descriptor(ends[0]), patience,
      [self = shared_from_this()](std::string lines) { self->done_(std::move(lines)); });
  collection->start();
  TakeProfiles take{.workers = wanted_.workers, .seconds = wanted_.seconds, .rate = wanted_.rate};
  std::vector<Descriptor> descriptors;
  descriptors.push_back(Descriptor(ends[1]));
  for (const WorkerId worker : wanted_.workers) {
    const auto memory = memories_.find(worker);
    take.sampling.push_back(memory != memories_.end());
    take.problems.push_back(problems_[worker]);
    if (memory != memories_.end()) descriptors.push_back(std::move(memory->second));
  }
  rpc::Envelope envelope = rpc::pack(take);
  envelope.descriptors = std::move(descriptors);
  host_.send_to_guardian(std::move(envelope));
}

}  // namespace paceline::agent
