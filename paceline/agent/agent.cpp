#include "paceline/agent/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/node.h"
#include "paceline/agent/packages_internal.h"
#include "paceline/agent/process_internal.h"
#include "paceline/agent/profile_question_internal.h"
#include "paceline/agent/sampling/sample_sender.h"
#include "paceline/agent/stack_collection_internal.h"
#include "paceline/agent/stack_helper_internal.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/core/posix/thread.h"
#include "paceline/rpc/sample_messages.h"
#include "paceline/rpc/socket_channel.h"
#include "paceline/stacks/heap_profiler.h"
#include "paceline/stacks/profile.h"
#include "paceline/stacks/stack.h"

namespace paceline::agent {
namespace {

// Of a process the agent holds a pidfd, two pipes, the channel twice, the log file, the progress word, the memory for
// its crash, two of the kernel's files about it, and the attachment until that is sent.
constexpr int64_t kDescriptorsPerProcess = 11;
// For what else the driver opens now and then.
constexpr int64_t kDescriptorsBeside = 48;

constexpr double kDataGraceSeconds = 1.0;

// Beyond the helper's own alarm: a guardian that is stopped starts none.
constexpr std::chrono::seconds kStackPatience{kStackHelperSeconds + 5};

class AgentThread final : public Agent, public ProcessHost {
 public:
  AgentThread(std::unique_ptr<rpc::Channel> controller, Descriptor guardian, AgentOptions options);
  ~AgentThread() override;
  void start();
  arrow::Status wait() override { return ended_.get_future().get(); }
  std::optional<rpc::Dismissed> dismissal() const override { return dismissal_; }
  void ask_for_stop(const std::string& reason) override;
  void end(const rpc::EndProcess& how) override;
  void announce_leaving(double seconds) override;

 private:
  void handle_controller(rpc::Envelope envelope);
  void take_attachment(rpc::Envelope& envelope);
  void start_process(rpc::Envelope envelope);
  bool end_held(const rpc::Envelope& envelope);
  void start_held();
  void refuse(const rpc::Envelope& start, const std::string& error, bool hopeless = false);
  void handle_guardian(rpc::Envelope envelope);
  void tell_progress(int64_t request);
  void tell_collectives(int64_t request);
  void tell_stacks(const rpc::Envelope& envelope);
  void answer_stacks(int64_t request, const std::vector<WorkerId>& asked, const std::string& lines);
  void tell_profiles(const rpc::Envelope& envelope);
  void answer_profiles(int64_t request, const std::vector<WorkerId>& asked, ProfileQuestion::Found found);
  void start_sampling();
  std::string why_not_told(WorkerId worker) const;
  void lose_guardian(const arrow::Status& why);
  void end_all(const rpc::EndProcess& how = {});
  void leave_if_done();
  void leave();

  void send_to_controller(rpc::Envelope envelope) override;
  void send_to_guardian(rpc::Envelope envelope) override;
  arrow::Result<std::vector<Descriptor>> attachment() const override;
  void connect_data(WorkerId worker, int64_t request) override;
  void take_sampling(WorkerId worker, rpc::Envelope sampling) override;
  void serve_data() override;
  void watch(WorkerId worker, pid_t pid, const Json& welcome) override;
  void watch_progress(WorkerId worker, std::shared_ptr<const ProgressReader> progress) override;
  void forget(WorkerId worker) override;

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ = make_work_guard(loop_);
  const AgentOptions options_;
  std::unique_ptr<rpc::Channel> controller_;
  std::unique_ptr<rpc::Channel> guardian_;
  std::map<WorkerId, std::shared_ptr<Process>> processes_;
  std::deque<std::pair<WorkerId, int64_t>> wait_for_data_;                 // workers and their requests
  std::map<int64_t, std::shared_ptr<ProfileQuestion>> profile_questions_;  // by the controller's requests
  Descriptor attachment_;                                                  // of every process; none for a run without
  std::vector<std::string> attachment_parts_;                              // that have come, where others follow
  std::string attachment_problem_;                                         // "" while there is none
  AgentPackages packages_;
  std::vector<rpc::Envelope> held_;  // to be started once the packages are there
  std::string guardian_problem_;     // "" while it is there
  boost::asio::steady_timer leave_timer_{loop_};
  std::unique_ptr<SampleSender> samples_;  // none where nobody wants them
  bool leaving_ = false;
  std::optional<arrow::Status> closed_;  // the controller's channel is, or is taken for it, for this reason
  std::optional<rpc::Dismissed> dismissal_;
  std::promise<arrow::Status> ended_;  // fulfilled once, when it has closed and no process is left
  bool has_ended_ = false;
  std::thread thread_;
};

AgentThread::AgentThread(std::unique_ptr<rpc::Channel> controller, Descriptor guardian, AgentOptions options)
    : options_(std::move(options)),
      controller_(std::move(controller)),
      guardian_(rpc::make_socket_channel(loop_, std::move(guardian))),
      packages_(
          loop_, options_.folder, [this](rpc::Envelope message) { send_to_controller(std::move(message)); },
          [this] { start_held(); }) {}

void AgentThread::start() {
  send_to_controller(rpc::pack(describe_node(options_.node)));
  if (options_.sample_interval_ms > 0) start_sampling();
  if (!options_.folder.empty()) send_to_guardian(rpc::pack(rpc::Leftovers{options_.folder, {}, {options_.folder}}));
  guardian_->start({.on_message = [this](rpc::Envelope message) { handle_guardian(std::move(message)); },
                    .on_close = [this](const arrow::Status& why) { lose_guardian(why); }});
  thread_ = start_thread([this] { loop_.run(); });
  controller_->start({.on_message =
                          [this](rpc::Envelope message) {
                            boost::asio::post(loop_, [this, message = std::move(message)]() mutable {
                              handle_controller(std::move(message));
                            });
                          },
                      .on_close =
                          [this](const arrow::Status& why) {
                            boost::asio::post(loop_, [this, why] {
                              closed_ = why;
                              end_all();
                              leave_if_done();
                            });
                          }});
}

AgentThread::~AgentThread() {
  boost::asio::post(loop_, [this] {
    samples_.reset();
    leaving_ = true;
    end_all();
    // Whoever waits for this must not wait for ever: a process may hang in the kernel, or be stopped while it starts.
    leave_timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(2 * options_.kill_patience_s)));
    leave_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) leave();
    });
    leave_if_done();
  });
  thread_.join();
  controller_.reset();
}

void AgentThread::handle_controller(rpc::Envelope envelope) {
  if (envelope.type == rpc::StartProcess::kType) return start_process(std::move(envelope));
  if (envelope.type == rpc::ProgressRequest::kType) return tell_progress(envelope.request);
  if (envelope.type == rpc::StacksRequest::kType) return tell_stacks(envelope);
  if (envelope.type == rpc::ProfileRequest::kType) return tell_profiles(envelope);
  if (envelope.type == rpc::CollectivesRequest::kType) return tell_collectives(envelope.request);
  if (envelope.type == rpc::Leftovers::kType) return send_to_guardian(std::move(envelope));
  if (envelope.type == rpc::Attachment::kType) return take_attachment(envelope);
  if (envelope.type == rpc::Packages::kType) {
    return packages_.take(rpc::unpack<rpc::Packages>(envelope).ValueOr(rpc::Packages{}));
  }
  if (envelope.type == rpc::PackagePart::kType) {
    return packages_.take(rpc::unpack<rpc::PackagePart>(envelope).ValueOr(rpc::PackagePart{}), envelope.bytes);
  }
  if (envelope.type == rpc::SamplesTaken::kType) {
    if (samples_ != nullptr) samples_->note_taken(envelope.reply_to);
    return;
  }
  if (envelope.type == rpc::Dismissed::kType) {
    dismissal_ = rpc::unpack<rpc::Dismissed>(envelope).ValueOr(rpc::Dismissed{});
    return;
  }
  if (envelope.type == rpc::EndProcess::kType && end_held(envelope)) return;
  const auto found = processes_.find(envelope.identity.worker);
  // A process that has ended meanwhile: the controller will read of it.
  if (found != processes_.end()) found->second->deliver(std::move(envelope));
}

void AgentThread::take_attachment(rpc::Envelope& envelope) {
  if (!envelope.descriptors.empty()) {
    attachment_ = std::move(envelope.descriptors.front());
    return;
  }
  attachment_parts_.push_back(std::move(envelope.bytes));
  if (rpc::unpack<rpc::Attachment>(envelope).ValueOr(rpc::Attachment{}).more) return;
  const std::vector<std::string> parts = std::exchange(attachment_parts_, {});
  auto memory = SealedMemory::create("paceline_attachment", {parts.begin(), parts.end()});
  attachment_problem_ = memory.ok() ? "" : "keeping the train loop and its configuration: " + memory.status().message();
  if (memory.ok()) attachment_ = *std::move(memory);
}

void AgentThread::refuse(const rpc::Envelope& start, const std::string& error, bool hopeless) {
  send_to_controller(rpc::pack(rpc::ProcessStartFailed{.error = error, .hopeless = hopeless}, start.identity));
}

void AgentThread::start_process(rpc::Envelope envelope) {
  auto settings = rpc::unpack<rpc::StartProcess>(envelope);
  if (!settings.ok()) return refuse(envelope, settings.status().message());
  if (leaving_ || closed_) return refuse(envelope, "the agent is ending");
  if (!guardian_problem_.empty()) return refuse(envelope, guardian_problem_);
  if (!attachment_problem_.empty()) return refuse(envelope, attachment_problem_);
  if (packages_.are_awaited()) return held_.push_back(std::move(envelope));
  if (!packages_.problem().empty()) return refuse(envelope, packages_.problem());
  if (settings->inherit) settings->environment.merge(own_environment());
  // c10d's reducer takes its buckets from memory that the backend shares, if it is told so before it is first used.
  settings->environment.try_emplace("DDP_DISABLE_COMM_MEM", "0");
  if (settings->heap_profile) {
    const arrow::Status status = stacks::preload_heap_profiler(settings->environment);
    if (!status.ok()) return refuse(envelope, status.message(), /*hopeless=*/true);
  }
  packages_.put_before(*settings);
  if (!options_.program.empty()) settings->arguments = options_.program;
  if (!options_.directory.empty()) settings->directory = options_.directory;
  if (!options_.folder.empty()) settings->environment[rpc::kNodeFolderVariable] = options_.folder;
  const auto starting = std::ranges::count_if(processes_, [](const auto& one) { return one.second->is_starting(); });
  const arrow::Status room = reserve_descriptors(kDescriptorsPerProcess * (starting + 1) + kDescriptorsBeside);
  if (!room.ok()) return refuse(envelope, room.message());
  auto& process = processes_[envelope.identity.worker];
  if (process != nullptr) {
    return refuse(envelope,
                  "there is a process with the id " + std::to_string(envelope.identity.worker.value) + " already");
  }
  process = std::make_shared<Process>(loop_, *this, envelope.identity, *std::move(settings), options_);
  process->start();
}

void AgentThread::start_held() {
  for (rpc::Envelope& start : std::exchange(held_, {})) start_process(std::move(start));
}

// Whether the process was not started yet.
bool AgentThread::end_held(const rpc::Envelope& envelope) {
  const auto held = std::ranges::find(held_, envelope.identity.worker,
                                      [](const rpc::Envelope& start) { return start.identity.worker; });
  if (held == held_.end()) return false;
  refuse(*held, "it was ended before the run's code had come to this node");
  held_.erase(held);
  return true;
}

void AgentThread::tell_progress(int64_t request) {
  rpc::ProgressReply reply;
  for (const auto& [worker, process] : processes_) reply.processes.push_back(process->progress());
  rpc::Envelope envelope = rpc::pack(reply);
  envelope.reply_to = request;
  send_to_controller(std::move(envelope));
}

void AgentThread::tell_collectives(int64_t request) {
  rpc::CollectivesReply reply;
  std::string bytes;
  for (const auto& [worker, process] : processes_) {
    const std::string records = process->collectives();
    reply.workers.push_back(worker);
    reply.sizes.push_back(std::ssize(records));
    bytes += records;
  }
  rpc::Envelope envelope = rpc::pack(reply);
  envelope.reply_to = request;
  envelope.bytes = std::move(bytes);
  send_to_controller(std::move(envelope));
}

void AgentThread::tell_stacks(const rpc::Envelope& envelope) {
  const int64_t request = envelope.request;
  const std::vector<WorkerId> workers = rpc::unpack<rpc::StacksRequest>(envelope).ValueOr(rpc::StacksRequest{}).workers;
  int ends[2];
  if (leaving_ || !guardian_problem_.empty() || ::pipe2(ends, O_CLOEXEC) != 0) {
    return answer_stacks(request, workers, "");
  }
  auto collection = std::make_shared<StackCollection>(
      loop_, Descriptor(ends[0]), kStackPatience,
      [this, request, workers](const std::string& lines) { answer_stacks(request, workers, lines); });
  collection->start();
  rpc::Envelope take = rpc::pack(TakeStacks{.workers = workers});
  take.descriptors.push_back(Descriptor(ends[1]));
  send_to_guardian(std::move(take));
}

void AgentThread::answer_stacks(int64_t request, const std::vector<WorkerId>& asked, const std::string& lines) {
  std::vector<stacks::WorkerStacks> found = stacks::decode_lines(lines);
  for (const WorkerId worker : asked) {
    if (std::ranges::any_of(found, [&](const auto& one) { return one.worker == worker.value; })) continue;
    found.push_back({.worker = worker.value, .stacks = {.problem = why_not_told(worker)}});
  }
  // Of a rank that runs a program of the user's that program comes first: it is what is asked about.
  std::ranges::stable_sort(found, {}, [this](const stacks::WorkerStacks& one) {
    const auto process = processes_.find(WorkerId{one.worker});
    const pid_t host = process == processes_.end() ? 0 : process->second->hosts_program();
    return std::pair(one.worker, host > 0 && host == one.stacks.pid);
  });
  rpc::Envelope reply = rpc::pack(rpc::StacksReply{});
  reply.reply_to = request;
  reply.bytes = stacks::encode_lines(found);
  send_to_controller(std::move(reply));
}

std::string AgentThread::why_not_told(WorkerId worker) const {
  if (!guardian_problem_.empty()) return guardian_problem_;
  if (!processes_.contains(worker)) return "the process has ended";
  return "the guardian's helper did not tell; the guardian may be stopped";
}

void AgentThread::tell_profiles(const rpc::Envelope& envelope) {
  const int64_t request = envelope.request;
  auto wanted = rpc::unpack<rpc::ProfileRequest>(envelope).ValueOr(rpc::ProfileRequest{});
  const std::vector<WorkerId> workers = wanted.workers;
  if (leaving_ || !guardian_problem_.empty()) return answer_profiles(request, workers, {});
  std::set<WorkerId> to_ask, programs;
  for (const WorkerId worker : workers) {
    const auto process = processes_.find(worker);
    if (process == processes_.end()) continue;
    std::set<WorkerId>& kind = process->second->hosts_program() == 0 ? to_ask : programs;
    kind.insert(worker);
  }
  const auto question = std::make_shared<ProfileQuestion>(
      loop_, std::move(wanted),
      ProfileQuestion::Host{
          .send_to_worker =
              [this, request](WorkerId worker, rpc::Envelope message) {
                message.request = request;
                const auto process = processes_.find(worker);
                if (process != processes_.end()) process->second->deliver(std::move(message));
              },
          .send_to_guardian = [this](rpc::Envelope message) { send_to_guardian(std::move(message)); }},
      [this, request, workers](ProfileQuestion::Found found) { answer_profiles(request, workers, std::move(found)); });
  profile_questions_[request] = question;
  question->start(to_ask, programs);
}

void AgentThread::take_sampling(WorkerId worker, rpc::Envelope sampling) {
  const auto found = profile_questions_.find(sampling.reply_to);
  if (found == profile_questions_.end()) return;  // it answers too late
  const std::shared_ptr<ProfileQuestion> question = found->second;
  question->take(worker, sampling);
}

void AgentThread::answer_profiles(int64_t request, const std::vector<WorkerId>& asked, ProfileQuestion::Found found) {
  profile_questions_.erase(request);
  stacks::Profiles profiles = stacks::decode_profiles(found.lines);
  for (const WorkerId worker : asked) {
    if (std::ranges::any_of(profiles, [&](const auto& one) { return one.worker == worker.value; })) continue;
    profiles.push_back(stacks::Profile{.worker = worker.value, .problems = {why_not_told(worker)}});
  }
  rpc::ProfileReply said;
  std::string behind;
  for (const stacks::Profile& profile : profiles) {
    const std::string& timeline = found.timelines[WorkerId{profile.worker}];
    if (!found.timelines.empty()) said.timelines.push_back(std::ssize(timeline));
    behind += timeline;
  }
  rpc::Envelope reply = rpc::pack(said);
  reply.reply_to = request;
  reply.bytes = stacks::encode_lines(profiles) + behind;
  send_to_controller(std::move(reply));
}

void AgentThread::start_sampling() {
  samples_ = std::make_unique<SampleSender>(
      loop_, std::chrono::milliseconds(options_.sample_interval_ms), options_.folder.empty() ? "driver" : "agent",
      SampleSender::Host{.is_connected = [this] { return !closed_ && controller_->is_connected(); },
                         .send = [this](rpc::Envelope message) { send_to_controller(std::move(message)); }});
}

void AgentThread::watch(WorkerId worker, pid_t pid, const Json& welcome) {
  if (samples_ == nullptr) return;
  samples_->watch({.worker = worker.value,
                   .role = welcome.value("role", ""),
                   .pid = pid,
                   .folder = welcome.value("run_folder", "")});
}

void AgentThread::watch_progress(WorkerId worker, std::shared_ptr<const ProgressReader> progress) {
  if (samples_ != nullptr) samples_->watch_progress(worker.value, std::move(progress));
}

void AgentThread::handle_guardian(rpc::Envelope envelope) {
  const auto found = processes_.find(envelope.identity.worker);
  if (found != processes_.end()) found->second->handle_guardian(std::move(envelope));
}

void AgentThread::lose_guardian(const arrow::Status& why) {
  guardian_problem_ = why.ok() ? "the guardian, which starts the workers, has ended; start the program again"
                               : "the connection to the guardian, which starts the workers, broke: " + why.message() +
                                     "; start the program again";
  send_to_controller(rpc::pack(rpc::NodeFailed{.error = guardian_problem_}));
  for (const auto& [worker, process] : processes_) process->lose_guardian();
}

void AgentThread::ask_for_stop(const std::string& reason) {
  send_to_controller(rpc::pack(rpc::StopRun{.reason = reason}));
}

void AgentThread::end(const rpc::EndProcess& how) {
  boost::asio::post(loop_, [this, how] {
    if (!closed_) closed_ = arrow::Status::OK();
    end_all(how);
    leave_if_done();
  });
}

void AgentThread::announce_leaving(double seconds) {
  boost::asio::post(loop_, [this, seconds] { send_to_controller(rpc::pack(rpc::NodeLeaving{.seconds = seconds})); });
}

void AgentThread::end_all(const rpc::EndProcess& how) {
  for (const rpc::Envelope& start : std::exchange(held_, {})) refuse(start, "the agent is ending");
  for (const auto& [worker, process] : processes_) {
    rpc::EndProcess end = how;
    // It ends by itself, once it has written what it has done.
    if (process->serves_data()) end.grace_s = std::max(end.grace_s, kDataGraceSeconds);
    process->deliver(rpc::pack(end));
  }
}

void AgentThread::leave_if_done() {
  if (!processes_.empty()) return;
  if (closed_ && !std::exchange(has_ended_, true)) ended_.set_value(*closed_);
  if (leaving_) leave();
}

void AgentThread::leave() {
  if (guardian_ == nullptr) return;  // the timer had come due already
  // From here on nothing is left for the guardian to tidy up.
  send_to_guardian(rpc::pack(rpc::Leftovers{}));
  guardian_.reset();
  leave_timer_.cancel();
  work_.reset();
  if (!processes_.empty()) loop_.stop();
}

void AgentThread::send_to_controller(rpc::Envelope envelope) {
  // Who leaves the run says so by going. That a process has ended would be heard first, be taken for the cause, and the
  // next attempt could begin here.
  if (closed_ && envelope.type == rpc::ProcessExited::kType) return;
  // A controller that has closed its end wants to hear no more.
  [[maybe_unused]] const arrow::Status sent = controller_->send(std::move(envelope));
}

void AgentThread::send_to_guardian(rpc::Envelope envelope) {
  if (guardian_ == nullptr) return;  // what the controller said when the agent had left
  // A guardian that has ended tells by its channel's end.
  [[maybe_unused]] const arrow::Status sent = guardian_->send(std::move(envelope));
}

arrow::Result<std::vector<Descriptor>> AgentThread::attachment() const {
  std::vector<Descriptor> descriptors;
  if (attachment_) {
    ARROW_ASSIGN_OR_RAISE(Descriptor duplicate, attachment_.duplicate());
    descriptors.push_back(std::move(duplicate));
  }
  return descriptors;
}

void AgentThread::connect_data(WorkerId worker, int64_t request) {
  wait_for_data_.emplace_back(worker, request);
  serve_data();
}

// Whoever waits is connected with the data process, if it is there. A process that dies over it closes the connection,
// and the worker asks again.
void AgentThread::serve_data() {
  const auto server = std::ranges::find_if(processes_, [](const auto& one) { return one.second->serves_data(); });
  if (server == processes_.end()) return;
  while (!wait_for_data_.empty()) {
    const auto [worker, request] = wait_for_data_.front();
    wait_for_data_.pop_front();
    const auto client = processes_.find(worker);
    if (client == processes_.end()) continue;
    rpc::Envelope reply = rpc::pack(rpc::DataConnection{});
    auto ends = make_socket_pair();
    if (ends.ok()) {
      rpc::Envelope told = rpc::pack(rpc::DataClient{});
      told.descriptors.push_back(std::move(ends->first));
      server->second->deliver(std::move(told));
      reply.descriptors.push_back(std::move(ends->second));
    } else {
      reply = rpc::pack(rpc::Refused{"no connection with the data process: " + ends.status().message()});
    }
    reply.reply_to = request;
    client->second->deliver(std::move(reply));
  }
}

void AgentThread::forget(WorkerId worker) {
  if (samples_ != nullptr) samples_->forget(worker.value);
  processes_.erase(worker);
  for (const auto& [request, question] : std::map(profile_questions_)) question->lose(worker);
  leave_if_done();
}

}  // namespace

arrow::Result<std::unique_ptr<Agent>> start_agent(std::unique_ptr<rpc::Channel> controller, const Guardian& guardian,
                                                  AgentOptions options) {
  ARROW_ASSIGN_OR_RAISE(Descriptor connection, guardian.connect());
  auto agent = std::make_unique<AgentThread>(std::move(controller), std::move(connection), std::move(options));
  agent->start();
  return agent;
}

}  // namespace paceline::agent
