#include "paceline/controller/launcher/started_agents.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "paceline/core/posix/sealed_memory.h"
#include "paceline/core/posix/thread.h"
#include "paceline/rpc/memory_channel.h"
#include "paceline/rpc/messages.h"

namespace paceline::controller {
namespace {

constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{30};
// Of commands whose agents have been told that the run is over.
constexpr std::chrono::seconds kTimeToEnd{5};
// Commands have no heartbeat.
constexpr double kNever = 1e9;

std::string text_of(const ProcessEnd& end) {
  std::string text = describe(end.status);
  for (const std::string& line : end.last_lines) text += "\n  " + line;
  return text;
}

}  // namespace

StartedAgents::StartedAgents(const LaunchParts& parts, std::string listen, std::vector<AgentStart> starts)
    : guardian_(parts.guardian),
      listener_({.listen = std::move(listen),
                 .token_file = "",
                 .nodes = parts.scaling.nodes.value_or(std::ssize(starts)),
                 .lease_s = parts.failure.node_timeout_s,
                 .on_name = [this](const std::string& name) { note_come(name); }}) {
  for (AgentStart& start : starts) places_.push_back({.start = std::move(start)});
}

StartedAgents::~StartedAgents() {
  close();
  if (thread_.joinable()) thread_.join();
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTimeToEnd, [this] {
      return std::ranges::none_of(places_, [](const Place& place) { return place.runs && place.has_come; });
    });
  }
  agent_.reset();
  channel_.reset();
}

arrow::Result<Launch> StartedAgents::launch(LaunchEvents events) {
  on_failure_ = std::move(events.on_failure);
  ARROW_ASSIGN_OR_RAISE(Launch launch, listener_.launch({std::move(events.on_agent), {}}));
  launch.one_agent_each = true;
  ARROW_ASSIGN_OR_RAISE(trust_, SealedMemory::create("paceline_trust", {listener_.trust_text()}));
  auto [own_end, agent_end] = rpc::make_memory_channels();
  channel_ = std::move(own_end);
  channel_->start({.on_message = [this](const rpc::Envelope& message) { receive(message); },
                   .on_close = [](const arrow::Status&) {}});
  ARROW_ASSIGN_OR_RAISE(agent_, agent::start_agent(std::move(agent_end), guardian_));
  {
    const std::lock_guard lock(mutex_);
    for (size_t place = 0; place < places_.size(); ++place) start(place);
  }
  thread_ = start_thread([this] { start_again(); });
  return launch;
}

void StartedAgents::close() {
  listener_.close();
  const std::lock_guard lock(mutex_);
  closed_ = true;
  on_failure_ = nullptr;
  changed_.notify_all();
}

// The shell opens the driver's memory as a file: no secret is in an argument, an environment or on a disk.
void StartedAgents::start(size_t number) {
  Place& place = places_[number];
  place.runs = true;
  place.has_come = false;
  place_of_[++last_process_] = number;
  rpc::StartProcess message{.inherit = true, .writes_log = false, .heartbeat_timeout_s = kNever};
  message.directory = std::filesystem::current_path();  // the guardian has the one of its own start
  message.arguments = {"/bin/sh", "-c", "exec env -u PACELINE_CHANNEL \"$@\" < \"$0\"",
                       "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(trust_.get())};
  message.arguments.insert(message.arguments.end(), place.start.command.begin(), place.start.command.end());
  (void)channel_->send(rpc::pack(message, {.worker = WorkerId{last_process_}}));
}

void StartedAgents::receive(const rpc::Envelope& message) {
  const int64_t process = message.identity.worker.value;
  if (const auto exited = rpc::unpack<rpc::ProcessExited>(message); exited.ok()) {
    note_end(process, text_of(exited->end));
  } else if (const auto failed = rpc::unpack<rpc::ProcessStartFailed>(message); failed.ok()) {
    note_end(process, failed->error);
  } else if (const auto lost = rpc::unpack<rpc::NodeFailed>(message); lost.ok()) {
    std::vector<int64_t> processes;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [number, place] : place_of_) processes.push_back(number);
    }
    for (const int64_t number : processes) note_end(number, lost->error);
  }
}

void StartedAgents::note_come(const std::string& node) {
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::find(places_, node, [](const Place& one) { return one.start.node; });
  if (place == places_.end()) return;
  place->has_come = place->is_decided = true;
  place->pause = kFirstPause;
}

void StartedAgents::note_end(int64_t process, const std::string& how) {
  const std::lock_guard lock(mutex_);
  const auto found = place_of_.find(process);
  if (found == place_of_.end()) return;
  Place& place = places_[found->second];
  place_of_.erase(found);
  place.runs = false;
  place.next = std::chrono::steady_clock::now() + place.pause;
  place.pause = std::min(2 * place.pause, kLongestPause);
  changed_.notify_all();
  if (std::exchange(place.is_decided, true) || !on_failure_) return;
  const auto to_come = std::ranges::count_if(places_, [](const Place& one) { return !one.is_decided; });
  on_failure_({place.start.node, place.start.command.front() + " " + how, to_come});  // before close() returns
}

void StartedAgents::start_again() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    SteadyTime next = SteadyTime::max();
    const SteadyTime now = std::chrono::steady_clock::now();
    for (size_t place = 0; place < places_.size(); ++place) {
      if (places_[place].runs) continue;
      if (places_[place].next <= now) {
        start(place);
      } else {
        next = std::min(next, places_[place].next);
      }
    }
    if (next == SteadyTime::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next);
    }
  }
}

}  // namespace paceline::controller
