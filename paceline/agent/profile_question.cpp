#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/profile_question_internal.h"
#include "paceline/agent/stack_collection_internal.h"
#include "paceline/agent/stack_helper_internal.h"
#include "paceline/core/bytes_text.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/rpc/channel.h"
#include "paceline/rpc/profile_kind.h"
#include "paceline/stacks/heap_dump.h"
#include "paceline/stacks/profile.h"

namespace paceline::agent {
namespace {

constexpr std::chrono::seconds kAnswerPatience{5};
// For what a worker has to do after it has profiled itself.
constexpr std::chrono::seconds kOwnPatience{60};
// Of all workers of the node: what is more is left out.
constexpr size_t kMostTimelineBytes = size_t{256} << 20;

constexpr const char* kNobodyInside =
    "a program under `paceline run` does not profile itself, as a TorchTrainer's workers do; it has stack traces, CPU "
    "profiles of its Python, and off-CPU profiles";

}  // namespace

ProfileQuestion::ProfileQuestion(boost::asio::io_context& loop, rpc::ProfileRequest wanted, Host host, Done done)
    : loop_(loop), wanted_(std::move(wanted)), host_(std::move(host)), done_(std::move(done)), deadline_(loop) {}

void ProfileQuestion::start(const std::set<WorkerId>& to_ask, const std::set<WorkerId>& programs) {
  if (rpc::shows_waits(wanted_.kind)) return take_profiles();
  if (!rpc::is_named_by_agent(wanted_.kind)) {
    for (const WorkerId worker : programs) problems_[worker] = kNobodyInside;
  }
  due_ = to_ask;
  for (const WorkerId worker : to_ask) {
    host_.send_to_worker(
        worker, rpc::pack(rpc::Sample{
                    .seconds = wanted_.seconds, .rate = wanted_.rate, .kind = wanted_.kind, .steps = wanted_.steps}));
  }
  if (due_.empty()) return finish();
  const auto own = std::chrono::seconds(static_cast<int>(std::ceil(wanted_.seconds))) + kOwnPatience;
  deadline_.expires_after(rpc::is_named_by_agent(wanted_.kind) ? kAnswerPatience : own);
  deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->is_taking_) return;
    for (const WorkerId worker : self->due_) {
      self->problems_[worker] = "the worker did not answer: it is stopped, or has just been started";
    }
    self->finish();
  });
}

void ProfileQuestion::take(WorkerId worker, rpc::Envelope& sampling) {
  if (is_taking_ || due_.erase(worker) == 0) return;
  const auto said = rpc::unpack<rpc::Sampling>(sampling).ValueOr(rpc::Sampling{});
  if (!sampling.descriptors.empty() && !rpc::is_named_by_agent(wanted_.kind)) {
    take_own(worker, std::move(sampling.descriptors.front()));
  } else if (!sampling.descriptors.empty()) {
    memories_[worker] = std::move(sampling.descriptors.front());
  } else {
    problems_[worker] = said.problem.empty() ? "the worker sent no samples" : said.problem;
  }
  if (due_.empty()) finish();
}

// A profile that the worker has made itself.
void ProfileQuestion::take_own(WorkerId worker, Descriptor memory) {
  const auto read = SealedMemory::open(memory);
  if (!read.ok()) {
    problems_[worker] = read.status().message();
    return;
  }
  const std::string_view bytes = read->bytes();
  if (stacks::is_heap_dump(bytes)) {  // which the helper names
    memories_[worker] = std::move(memory);
    return;
  }
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  stacks::Profiles profiles = stacks::decode_profiles(std::string(bytes.substr(0, end)) + "\n");
  std::string timeline(end < bytes.size() ? bytes.substr(end + 1) : "");
  size_t others = 0;
  for (const auto& [other, taken] : found_.timelines) others += taken.size();
  for (stacks::Profile& profile : profiles) {
    profile.worker = worker.value;
    if (others + timeline.size() <= kMostTimelineBytes) continue;
    profile.ways.clear();
    profile.problems.push_back("its timeline has " + bytes_text(std::ssize(timeline)) +
                               ", which is too much beside the others': ask for a shorter one, or for one rank");
    timeline.clear();
  }
  found_.lines += stacks::encode_lines(profiles);
  if (!timeline.empty()) found_.timelines[worker] = std::move(timeline);
}

void ProfileQuestion::lose(WorkerId worker) {
  if (is_taking_ || due_.erase(worker) == 0) return;
  problems_[worker] = "the process has ended";
  if (due_.empty()) finish();
}

void ProfileQuestion::finish() {
  if (rpc::is_named_by_agent(wanted_.kind)) return take_profiles();
  is_taking_ = true;
  deadline_.cancel();
  for (const auto& [worker, problem] : problems_) {
    found_.lines += stacks::encode_lines({stacks::Profile{.worker = worker.value, .problems = {problem}}});
  }
  memories_.empty() ? done_(std::move(found_)) : take_profiles();
}

void ProfileQuestion::take_profiles() {
  is_taking_ = true;
  deadline_.cancel();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return done_(std::move(found_));
  const auto patience = std::chrono::seconds(static_cast<int>(std::ceil(wanted_.seconds)) + kProfileHelperSeconds + 5);
  const auto collection = std::make_shared<StackCollection>(loop_, Descriptor(ends[0]), patience,
                                                            [self = shared_from_this()](const std::string& lines) {
                                                              self->found_.lines += lines;
                                                              self->done_(std::move(self->found_));
                                                            });
  collection->start();
  send_to_guardian(Descriptor(ends[1]));
}

// In messages of as many workers as have room for their memories, and the last for the pipe.
void ProfileQuestion::send_to_guardian(Descriptor pipe) {
  const auto begin = [this] {
    return TakeProfiles{.seconds = wanted_.seconds, .rate = wanted_.rate, .kind = wanted_.kind, .is_last = false};
  };
  TakeProfiles take = begin();
  std::vector<Descriptor> descriptors;
  const auto send = [&] {
    rpc::Envelope envelope = rpc::pack(take);
    envelope.descriptors = std::exchange(descriptors, {});
    host_.send_to_guardian(std::move(envelope));
    take = begin();
  };
  for (const WorkerId worker : wanted_.workers) {
    if (descriptors.size() + 1 == rpc::kMaxDescriptors) send();
    const auto memory = memories_.find(worker);
    take.workers.push_back(worker);
    take.sampling.push_back(memory != memories_.end());
    take.problems.push_back(problems_[worker]);
    if (memory != memories_.end()) descriptors.push_back(std::move(memory->second));
  }
  take.is_last = true;
  descriptors.push_back(std::move(pipe));
  send();
}

}  // namespace paceline::agent
