#include "paceline/worker/connection.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/priority.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/core/posix/thread.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/key_value_client.h"
#include "paceline/rpc/profile_kind.h"
#include "paceline/rpc/report_bytes.h"
#include "paceline/stacks/capture.h"
#include "paceline/stacks/sampler.h"
#include "paceline/stacks/self_capture.h"
#include "paceline/worker/checkpoint_request.h"
#include "paceline/worker/outbox.h"
#include "paceline/worker/pending_requests.h"

namespace paceline::worker {
namespace {

using Steady = std::chrono::steady_clock;

// On standard error, unless that would wait: who reads it may be gone or stand still.
void say(const std::string& line) {
  pollfd event{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&event, 1, 0) != 1 || (event.revents & POLLOUT) == 0) return;
  (void)!::write(STDERR_FILENO, line.data(), std::min(line.size(), size_t{PIPE_BUF}));
}

/// What the two threads and the callers share. It belongs to the process that has the threads.
class AgentLink {
 public:
  AgentLink(Descriptor socket, ConnectionOptions options)
      : socket_(std::move(socket)),
        options_(std::move(options)),
        requests_(
            std::make_shared<PendingRequests>([this](rpc::Envelope request) { outbox_.push(std::move(request)); })) {
    if (!options_.on_lost_agent) options_.on_lost_agent = [] { ::_exit(kLostAgent); };
  }

  ~AgentLink() {
    closing_ = true;
    requests_->close("the connection to the agent is closed");
    outbox_.close();
    if (sender_.joinable()) sender_.join();
    socket_.shut_down();
    if (control_.joinable()) control_.join();
    if (profiling_.joinable()) profiling_.join();
  }

  arrow::Status begin(const Clock& clock) {
    ARROW_ASSIGN_OR_RAISE(std::optional<rpc::Envelope> first, socket_.receive());
    if (!first) return arrow::Status::IOError("the agent closed the channel before it said what this process is for");
    ARROW_ASSIGN_OR_RAISE(welcome_, rpc::unpack<rpc::Welcome>(*first));
    ARROW_RETURN_NOT_OK(take_attachment(first->descriptors));
    identity_ = first->identity;
    // The guardian's helper reads this process's stacks; Yama lets only ancestors do so by themselves.
    stacks::allow_capture(::getppid());
    ARROW_ASSIGN_OR_RAISE(Progress progress, Progress::create(clock));
    progress_.emplace(std::move(progress));
    rpc::Envelope joined =
        rpc::pack(rpc::Joined{.pid = ::getpid(), .host = host_name(), .versions = options_.versions}, identity_);
    ARROW_ASSIGN_OR_RAISE(Descriptor memory, progress_->memory().descriptor().duplicate());
    joined.descriptors.push_back(std::move(memory));
    if (options_.note_crashes) {
      ARROW_ASSIGN_OR_RAISE(Descriptor crash, stacks::note_crashes());
      joined.descriptors.push_back(std::move(crash));
    }
    ARROW_RETURN_NOT_OK(socket_.send(std::move(joined)));
    sender_ = start_thread([this] {
      never_preempt();  // otherwise one report() in a hundred costs the training thread 5 ms instead of 10 µs
      if (const arrow::Status status = outbox_.run(socket_); !status.ok()) lose_agent(status);
    });
    control_ = start_thread([this] { lose_agent(control()); });
    return arrow::Status::OK();
  }

  const rpc::Welcome& welcome() const { return welcome_; }
  std::string_view attachment() const { return attachment_.bytes().substr(static_cast<size_t>(welcome_.config_bytes)); }
  Progress& progress() { return *progress_; }

  arrow::Result<std::optional<Assignment>> next_assignment() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_reason_ || lost_ || !assignments_.empty(); });
    if (stop_reason_) return std::nullopt;
    if (lost_) return arrow::Status::IOError("the agent is gone");
    std::optional<Assignment> assignment = std::move(assignments_.front());
    assignments_.pop_front();
    identity_ = assignment->identity;
    reports_taken_ = assignment->assign.first_report - 1;
    sent_.clear();
    bytes_ahead_ = 0;
    checkpoint_request_.begin();
    return assignment;
  }

  void send(rpc::Envelope envelope, bool may_wait) {
    envelope.identity = identity();
    if (envelope.type == rpc::Report::kType) note_sent(envelope.body);
    outbox_.push(std::move(envelope), may_wait);
  }

  arrow::Result<rpc::Envelope> call(rpc::Envelope request, std::chrono::milliseconds limit) {
    request.identity = identity();
    return requests_->call(std::move(request), std::min(limit, kLongestWait));
  }

  arrow::Status flush() { return outbox_.flush(); }
  bool checkpoint_requested() { return checkpoint_request_.next_call(); }

  bool has_room_for(int64_t report) const {
    return report <= reports_taken_ + rpc::kReportsAhead && bytes_ahead_ < rpc::kReportBytesAhead;
  }

  arrow::Status wait_for_room(int64_t report) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_told_ || lost_ || has_room_for(report); });
    if (has_room_for(report)) return arrow::Status::OK();
    return arrow::Status::IOError(stop_reason_ ? "the worker was told to stop: " + *stop_reason_ : "the agent is gone");
  }

  std::optional<std::string> stop_reason() const {
    const std::lock_guard lock(mutex_);
    return stop_reason_;
  }

  void set_on_stop(std::function<void(const rpc::Stop&)> on_stop) {
    const std::lock_guard lock(callback_mutex_);
    on_stop_ = std::move(on_stop);
    if (on_stop_ && last_stop_) on_stop_(*last_stop_);
  }

  void set_on_checkpoint(std::function<void(const rpc::CheckpointCommitted&)> on_checkpoint) {
    const std::lock_guard lock(callback_mutex_);
    on_checkpoint_ = std::move(on_checkpoint);
  }

  void set_on_profile(std::function<arrow::Result<Descriptor>(const rpc::Sample&)> on_profile) {
    const std::lock_guard lock(callback_mutex_);
    on_profile_ = std::move(on_profile);
  }

  arrow::Result<Descriptor> connect_data() {
    ARROW_ASSIGN_OR_RAISE(rpc::Envelope reply, call(rpc::pack(rpc::ConnectData{}), std::chrono::milliseconds::max()));
    if (reply.type == rpc::Refused::kType) {
      return arrow::Status::IOError(rpc::unpack<rpc::Refused>(reply).ValueOr(rpc::Refused{}).error);
    }
    ARROW_RETURN_NOT_OK(rpc::unpack<rpc::DataConnection>(reply));
    if (reply.descriptors.empty()) return arrow::Status::IOError("the agent sent no socket to the data process");
    return std::move(reply.descriptors.front());
  }

  void set_on_data_client(std::function<void(Descriptor)> on_data_client) {
    const std::lock_guard lock(callback_mutex_);
    on_data_client_ = std::move(on_data_client);
    if (!on_data_client_) return;
    for (Descriptor& client : std::exchange(data_clients_, {})) on_data_client_(std::move(client));
  }

  std::shared_ptr<rpc::KeyValueClient> store() {
    return rpc::make_key_value_client(
        [requests = requests_, grace = options_.store_grace](rpc::Envelope request, std::chrono::milliseconds timeout) {
          // A wait without end must not overflow the sum.
          return requests->call(std::move(request), std::min(timeout, kLongestWait) + grace);
        },
        identity());
  }

 private:
  static constexpr std::chrono::milliseconds kLongestWait = std::chrono::hours(24 * 365);

  Identity identity() const {
    const std::lock_guard lock(mutex_);
    return identity_;
  }

  arrow::Status take_attachment(const std::vector<Descriptor>& descriptors) {
    if (descriptors.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(attachment_, SealedMemory::open(descriptors.front()));
    const std::string_view bytes = attachment_.bytes();
    const auto config_bytes = static_cast<size_t>(welcome_.config_bytes);
    if (config_bytes > bytes.size()) {
      return arrow::Status::Invalid("the run's attachment is too small: wanted ", config_bytes, " bytes, got ",
                                    bytes.size());
    }
    if (config_bytes > 0) {
      ARROW_ASSIGN_OR_RAISE(welcome_.train_loop_config, decode_json(bytes.substr(0, config_bytes)));
    }
    return arrow::Status::OK();
  }

  // The control thread: commands as they come, a heartbeat whenever one is due. Returns why it ended.
  arrow::Status control() {
    const auto interval = std::chrono::duration_cast<Steady::duration>(
        std::chrono::duration<double>(std::clamp(welcome_.heartbeat_interval_s, 0.001, 3600.0)));
    auto next_heartbeat = Steady::now() + interval;
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_heartbeat - Steady::now());
      ARROW_ASSIGN_OR_RAISE(const bool arrived, socket_.wait(std::max(left, std::chrono::milliseconds(0))));
      if (Steady::now() >= next_heartbeat) {
        send(rpc::pack(rpc::Heartbeat{}), /*may_wait=*/false);
        next_heartbeat = Steady::now() + interval;
      }
      if (!arrived) continue;
      ARROW_ASSIGN_OR_RAISE(std::optional<rpc::Envelope> envelope, socket_.receive());
      if (!envelope) return arrow::Status::IOError("the agent closed the channel");
      ARROW_RETURN_NOT_OK(obey(std::move(*envelope)));
    }
  }

  arrow::Status obey(rpc::Envelope envelope) {
    if (is_outdated(envelope.identity.epoch)) return arrow::Status::OK();
    if (envelope.reply_to != 0) {
      requests_->complete(std::move(envelope));
    } else if (envelope.type == rpc::Assign::kType) {
      ARROW_ASSIGN_OR_RAISE(auto assign, rpc::unpack<rpc::Assign>(envelope));
      const std::lock_guard lock(mutex_);
      assignments_.push_back({envelope.identity, std::move(assign)});
      changed_.notify_all();
    } else if (envelope.type == rpc::Stop::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto stop, rpc::unpack<rpc::Stop>(envelope));
      receive_stop(stop);
    } else if (envelope.type == rpc::CheckpointCommitted::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto committed, rpc::unpack<rpc::CheckpointCommitted>(envelope));
      const std::lock_guard lock(callback_mutex_);
      if (on_checkpoint_) on_checkpoint_(committed);
    } else if (envelope.type == rpc::AskForCheckpoint::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto ask, rpc::unpack<rpc::AskForCheckpoint>(envelope));
      const rpc::CheckpointPlace place{.number = ask.number, .calls = checkpoint_request_.ask(ask.number)};
      outbox_.push(rpc::pack(place, envelope.identity));
    } else if (envelope.type == rpc::CheckpointDecided::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto decided, rpc::unpack<rpc::CheckpointDecided>(envelope));
      checkpoint_request_.decide(decided.number, decided.call);
    } else if (envelope.type == rpc::DataClient::kType) {
      const std::lock_guard lock(callback_mutex_);
      for (Descriptor& client : envelope.descriptors) {
        on_data_client_ ? on_data_client_(std::move(client)) : data_clients_.push_back(std::move(client));
      }
    } else if (envelope.type == rpc::Sample::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto sample, rpc::unpack<rpc::Sample>(envelope));
      if (!rpc::is_named_by_agent(sample.kind)) return profile(sample, envelope.request);
      rpc::Envelope sampling = begin_sampling(sample);
      sampling.reply_to = envelope.request;
      outbox_.push(std::move(sampling));
    } else if (envelope.type == rpc::ReportsTaken::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto taken, rpc::unpack<rpc::ReportsTaken>(envelope));
      const std::lock_guard lock(mutex_);
      note_taken(taken.index);
      changed_.notify_all();
    }
    // Commands of a later minor version are ignored, as unknown fields are.
    return arrow::Status::OK();
  }

  // On the control thread; the samples then come without it.
  rpc::Envelope begin_sampling(const rpc::Sample& wanted) {
    if (sampler_ && sampler_->has_ended()) sampler_.reset();
    auto sampler =
        stacks::Sampler::start({.rate = wanted.rate, .length = std::chrono::duration<double>(wanted.seconds)});
    if (!sampler.ok()) return rpc::pack(rpc::Sampling{.problem = sampler.status().message()}, identity());
    auto memory = (*sampler)->memory().duplicate();
    if (!memory.ok()) return rpc::pack(rpc::Sampling{.problem = memory.status().message()}, identity());
    sampler_ = *std::move(sampler);
    rpc::Envelope sampling = rpc::pack(rpc::Sampling{}, identity());
    sampling.descriptors.push_back(*std::move(memory));
    return sampling;
  }

  // One at a time: they would be in each other.
  arrow::Status profile(const rpc::Sample& wanted, int64_t request) {
    std::function<arrow::Result<Descriptor>(const rpc::Sample&)> take;
    {
      const std::lock_guard lock(callback_mutex_);
      take = on_profile_;
    }
    const auto answer = [this, request](rpc::Envelope sampling) {
      sampling.reply_to = request;
      outbox_.push(std::move(sampling));
    };
    std::string problem;
    if (!take) problem = "the process takes no profile of this kind: it runs no train loop";
    if (is_profiling_) problem = "another profile is being taken";
    if (!problem.empty()) {
      answer(rpc::pack(rpc::Sampling{.problem = problem}, identity()));
      return arrow::Status::OK();
    }
    if (profiling_.joinable()) profiling_.join();
    is_profiling_ = true;
    profiling_ = start_thread([this, wanted, take, answer] {
      auto taken = take(wanted);
      rpc::Envelope sampling =
          rpc::pack(rpc::Sampling{.problem = taken.ok() ? "" : taken.status().message()}, identity());
      if (taken.ok()) sampling.descriptors.push_back(*std::move(taken));
      is_profiling_ = false;  // who has the answer may ask again
      answer(std::move(sampling));
    });
    return arrow::Status::OK();
  }

  void note_sent(const Json& report) {
    const int64_t bytes = rpc::bytes_of(report);
    const std::lock_guard lock(mutex_);
    sent_.push_back({report.value("index", int64_t{0}), bytes});
    bytes_ahead_ += bytes;
  }

  // Under the mutex: the reports up to that number.
  void note_taken(int64_t report) {
    reports_taken_ = std::max(report, reports_taken_.load());
    for (; !sent_.empty() && sent_.front().report <= report; sent_.pop_front()) bytes_ahead_ -= sent_.front().bytes;
  }

  // What a controller sent that another has replaced. Epoch 0 is the agent's own.
  bool is_outdated(ControllerEpoch epoch) {
    if (epoch.value == 0) return false;
    if (epoch < epoch_) return true;
    epoch_ = epoch;
    return false;
  }

  void receive_stop(const rpc::Stop& stop) {
    // Under the callbacks' lock, so that set_on_stop() either sees the reason or its callback is called here.
    const std::lock_guard callback_lock(callback_mutex_);
    {
      const std::lock_guard lock(mutex_);
      if (!stop_reason_) stop_reason_ = stop.reason;
      changed_.notify_all();
    }
    last_stop_ = stop;
    checkpoint_request_.stop();
    if (on_stop_) on_stop_(stop);
    {
      const std::lock_guard lock(mutex_);
      stop_told_ = true;
      changed_.notify_all();
    }
    // Last: whoever waits for a key and fails now sees that it was told to stop.
    requests_->close("the worker was told to stop: " + stop.reason);
  }

  void lose_agent(const arrow::Status& why) {
    if (closing_ || losing_.exchange(true)) return;
    if (progress_) progress_->note_cut_off();
    say("paceline: process " + std::to_string(::getpid()) +
        " ends, because its channel to the agent is gone: " + why.message() + "\n");
    options_.on_lost_agent();
    requests_->close("the agent is gone");
    checkpoint_request_.stop();
    const std::lock_guard lock(mutex_);
    lost_ = true;
    changed_.notify_all();
  }

  rpc::BlockingSocket socket_;
  ConnectionOptions options_;
  Outbox outbox_;
  const std::shared_ptr<PendingRequests> requests_;
  rpc::Welcome welcome_;
  SealedMemory attachment_;
  std::optional<Progress> progress_;
  CheckpointRequest checkpoint_request_;
  ControllerEpoch epoch_;                     // the control thread's
  std::unique_ptr<stacks::Sampler> sampler_;  // likewise

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Identity identity_;
  std::deque<Assignment> assignments_;
  std::optional<std::string> stop_reason_;
  bool stop_told_ = false;  // to the callback too
  bool lost_ = false;
  struct SentReport {
    int64_t report = 0;
    int64_t bytes = 0;
  };
  std::deque<SentReport> sent_;             // that the controller has not taken
  std::atomic<int64_t> bytes_ahead_ = 0;    // of all of them
  std::atomic<int64_t> reports_taken_ = 0;  // number of the last that the controller has taken

  std::mutex callback_mutex_;  // held while a callback runs
  std::optional<rpc::Stop> last_stop_;
  std::function<void(const rpc::Stop&)> on_stop_;
  std::function<void(const rpc::CheckpointCommitted&)> on_checkpoint_;
  std::function<arrow::Result<Descriptor>(const rpc::Sample&)> on_profile_;
  std::function<void(Descriptor)> on_data_client_;
  std::vector<Descriptor> data_clients_;  // that wait for the callback

  std::atomic<bool> closing_ = false;
  std::atomic<bool> losing_ = false;
  std::atomic<bool> is_profiling_ = false;
  std::thread profiling_;  // the control thread's
  std::thread sender_;
  std::thread control_;
};

class SocketConnection final : public Connection {
 public:
  explicit SocketConnection(std::unique_ptr<AgentLink> link) : link_(std::move(link)), process_(::getpid()) {}

  ~SocketConnection() override {
    // A forked child has a copy, but not the threads: joining them or shutting the socket down would be the parent's.
    if (::getpid() == process_) return;
    [[maybe_unused]] const AgentLink* const kept = link_.release();
  }

  const rpc::Welcome& welcome() const override { return link_->welcome(); }
  std::string_view attachment() const override { return link_->attachment(); }
  arrow::Result<std::optional<Assignment>> next_assignment() override { return link_->next_assignment(); }
  Progress& progress() override { return link_->progress(); }
  void send(rpc::Envelope envelope) override { link_->send(std::move(envelope), /*may_wait=*/false); }
  void send_soon(rpc::Envelope envelope) override { link_->send(std::move(envelope), /*may_wait=*/true); }
  arrow::Result<rpc::Envelope> call(rpc::Envelope request, std::chrono::milliseconds limit) override {
    return link_->call(std::move(request), limit);
  }
  arrow::Status flush() override { return link_->flush(); }
  arrow::Result<Descriptor> connect_data() override { return link_->connect_data(); }
  bool has_room_for(int64_t report) const override { return link_->has_room_for(report); }
  arrow::Status wait_for_room(int64_t report) override { return link_->wait_for_room(report); }
  std::optional<std::string> stop_reason() const override { return link_->stop_reason(); }
  void on_stop(std::function<void(const rpc::Stop&)> on_stop) override { link_->set_on_stop(std::move(on_stop)); }
  void on_checkpoint(std::function<void(const rpc::CheckpointCommitted&)> on_checkpoint) override {
    link_->set_on_checkpoint(std::move(on_checkpoint));
  }
  void on_profile(std::function<arrow::Result<Descriptor>(const rpc::Sample&)> on_profile) override {
    link_->set_on_profile(std::move(on_profile));
  }
  bool checkpoint_requested() override { return link_->checkpoint_requested(); }
  void on_data_client(std::function<void(Descriptor)> on_data_client) override {
    link_->set_on_data_client(std::move(on_data_client));
  }
  std::shared_ptr<rpc::KeyValueClient> store() override { return link_->store(); }

 private:
  std::unique_ptr<AgentLink> link_;
  const pid_t process_;
};

// Nobody is left who would end what this process has started: its group goes with it.
void end_group() {
  if (::getpgrp() == ::getpid()) ::kill(0, SIGKILL);
  ::_exit(kLostAgent);
}

// The socket that the variable's text names.
arrow::Result<Descriptor> take_descriptor(const std::string& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    return arrow::Status::Invalid(rpc::kChannelVariable,
                                  " is set by Paceline for the processes that it starts: wanted ",
                                  "the number of a descriptor, got \"", text, "\"");
  }
  int domain = 0;
  socklen_t size = sizeof domain;
  if (::getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) {
    return arrow::Status::Invalid(rpc::kChannelVariable, " names descriptor ", number,
                                  ", which is no Unix socket: Paceline sets the variable for the processes that it ",
                                  "starts; unset it to run this program by itself");
  }
  Descriptor socket(number);
  if (::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return errno_status("taking the agent's channel");
  return socket;
}

}  // namespace

bool Connection::offered() {
  return std::getenv(rpc::kChannelVariable) != nullptr;
}

arrow::Result<std::unique_ptr<Connection>> Connection::connect(const Clock& clock, rpc::StringMap versions) {
  const char* variable = std::getenv(rpc::kChannelVariable);
  if (variable == nullptr) {
    return arrow::Status::Invalid(rpc::kChannelVariable, " is not set: no agent has started this process");
  }
  const std::string text = variable;
  ::unsetenv(rpc::kChannelVariable);
  ARROW_ASSIGN_OR_RAISE(Descriptor socket, take_descriptor(text));
  ConnectionOptions options;
  options.on_lost_agent = end_group;
  options.note_crashes = true;
  options.versions = std::move(versions);
  return connect_over(std::move(socket), clock, std::move(options));
}

arrow::Result<std::unique_ptr<Connection>> connect_over(Descriptor socket, const Clock& clock,
                                                        ConnectionOptions options) {
  auto link = std::make_unique<AgentLink>(std::move(socket), std::move(options));
  ARROW_RETURN_NOT_OK(link->begin(clock));
  return std::make_unique<SocketConnection>(std::move(link));
}

}  // namespace paceline::worker
