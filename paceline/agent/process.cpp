#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/process_internal.h"
#include "paceline/agent/process_tree_internal.h"
#include "paceline/agent/stack_collection_internal.h"
#include "paceline/core/posix/process_usage.h"
#include "paceline/rpc/socket_channel.h"
#include "paceline/stacks/self_capture.h"
#include "paceline/stacks/stack.h"

namespace paceline::agent {
namespace {

using SteadyClock = std::chrono::steady_clock;
using boost::system::error_code;

// For the names of a crash's frames: what waits for them is the restart.
constexpr std::chrono::seconds kNamingPatience{5};
// A timer that comes so late says more about this process than about what it was set for.
constexpr std::chrono::milliseconds kStoodStill{500};

SteadyClock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
}

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool has_ended(int pidfd) {
  pollfd event{pidfd, POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

}  // namespace

Process::Process(boost::asio::io_context& loop, ProcessHost& host, const Identity& identity, rpc::StartProcess settings,
                 const AgentOptions& options)
    : loop_(loop),
      host_(host),
      identity_(identity),
      settings_(std::move(settings)),
      options_(options),
      pidfd_(loop),
      heartbeat_timer_(loop),
      grace_timer_(loop),
      kill_timer_(loop) {}

void Process::start() {
  auto log = RotatingLog::open(settings_.writes_log ? settings_.log_file : "",
                               {.file_bytes = settings_.log_file_bytes, .most_files = settings_.log_files});
  if (!log.ok()) return fail_to_start(log.status().message());
  log_ = *std::move(log);
  const Spawn request{.arguments = settings_.arguments,
                      .environment = settings_.environment,
                      .directory = settings_.directory,
                      .fork = settings_.fork,
                      .fork_server = settings_.fork_server,
                      .fork_server_key = settings_.fork_server_key};
  host_.send_to_guardian(rpc::pack(request, identity_));
}

void Process::fail_to_start(const std::string& error) {
  host_.send_to_controller(rpc::pack(rpc::ProcessStartFailed{.error = error}, identity_));
  become_forgotten();
}

void Process::handle_guardian(rpc::Envelope envelope) {
  if (envelope.type == Spawned::kType && state_ == State::starting) {
    begin(std::move(envelope));
  } else if (const auto suspended = rpc::unpack<Suspended>(envelope); suspended.ok()) {
    suspended_ = suspended->suspended;
  } else if (const auto exited = rpc::unpack<Exited>(envelope); exited.ok() && state_ == State::running) {
    finish(exited->status, exited->memory);
  }
}

void Process::begin(rpc::Envelope envelope) {
  const auto spawned = rpc::unpack<Spawned>(envelope);
  if (!spawned.ok()) return fail_to_start(spawned.status().message());
  if (!spawned->error.empty()) return fail_to_start(spawned->error);
  Descriptor channel = std::move(envelope.descriptors.at(3));
  auto channel_socket = channel.duplicate();
  auto attachment = host_.attachment();
  if (!channel_socket.ok() || !attachment.ok()) {
    host_.send_to_guardian(rpc::pack(KillTree{}, identity_));
    return fail_to_start((channel_socket.ok() ? attachment.status() : channel_socket.status()).message());
  }
  state_ = State::running;
  pid_ = static_cast<pid_t>(spawned->pid);
  pidfd_.assign(envelope.descriptors.at(0).release());
  channel_socket_ = *std::move(channel_socket);
  channel_ = rpc::make_socket_channel(loop_, std::move(channel));
  host_.send_to_controller(rpc::pack(rpc::ProcessStarted{.pid = pid_}, identity_));
  host_.watch(identity_.worker, pid_, settings_.welcome);
  standard_output_ = follow("stdout", std::move(envelope.descriptors.at(1)));
  standard_error_ = follow("stderr", std::move(envelope.descriptors.at(2)));
  channel_->start({.on_message = [this](rpc::Envelope message) { handle_message(std::move(message)); },
                   .on_close = [this](const arrow::Status&) { note_channel_end(); }});
  rpc::Envelope welcome;
  welcome.type = rpc::Welcome::kType;
  welcome.identity = identity_;
  welcome.body = settings_.welcome;
  welcome.descriptors = *std::move(attachment);
  // A process that is gone already cannot be told; its end will be.
  [[maybe_unused]] const arrow::Status sent = channel_->send(std::move(welcome));
  for (rpc::Envelope& waiting : std::exchange(waiting_, {})) deliver(std::move(waiting));
}

std::shared_ptr<OutputPipe> Process::follow(const char* stream, Descriptor pipe) {
  const bool waits = std::ranges::find(settings_.waiting_streams, stream) != settings_.waiting_streams.end();
  auto output = std::make_shared<OutputPipe>(loop_, std::move(pipe), stream, waits,
                                             [this](const rpc::Output& written) { take_output(written); });
  output->start();
  return output;
}

void Process::deliver(rpc::Envelope envelope) {
  if (state_ == State::starting) {
    waiting_.push_back(std::move(envelope));
  } else if (state_ == State::running && envelope.type == rpc::EndProcess::kType) {
    end(rpc::unpack<rpc::EndProcess>(envelope).ValueOr(rpc::EndProcess{}));
  } else if (state_ == State::running && envelope.type == rpc::OutputTaken::kType) {
    const auto taken = rpc::unpack<rpc::OutputTaken>(envelope).ValueOr(rpc::OutputTaken{});
    (taken.stream == "stdout" ? standard_output_ : standard_error_)->note_taken(taken.bytes);
  } else if (state_ == State::running) {
    [[maybe_unused]] const arrow::Status sent = channel_->send(std::move(envelope));
  }
}

void Process::end(const rpc::EndProcess& request) {
  if (request.grace_s <= 0) return kill();
  [[maybe_unused]] const arrow::Status sent =
      channel_->send(rpc::pack(rpc::Stop{.reason = request.reason, .signal = request.signal}, identity_));
  const auto deadline = SteadyClock::now() + to_duration(request.grace_s);
  if (ending_ && grace_timer_.expiry() <= deadline) return;
  ending_ = true;
  grace_timer_.expires_at(deadline);
  grace_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || self->state_ != State::running) return;
    if (!self->is_about_to_say_why()) return self->kill();
    self->grace_timer_.expires_after(to_duration(self->options_.failing_patience_s));
    self->grace_timer_.async_wait([self](const error_code& cancelled) {
      if (!cancelled && self->state_ == State::running) self->kill();
    });
  });
}

// The same exception on many ranks is one error with all the ranks, but looking up the names of a stack's frames may
// take longer on one than the grace that another's failure leaves it.
bool Process::is_about_to_say_why() const {
  return !heard_why_ && progress_ && progress_->read(clock_.monotonic()).phase == Phase::failing;
}

void Process::kill() {
  host_.send_to_guardian(rpc::pack(KillTree{}, identity_));
  if (std::exchange(killing_, true)) return;
  kill_timer_.expires_after(to_duration(options_.kill_patience_s));
  kill_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->state_ == State::running) self->kill_from_outside();
  });
}

// What left the process's tree stays: nobody but the guardian, its new parent, could find it.
void Process::kill_from_outside() {
  if (!has_ended(pidfd_.native_handle())) kill_tree_from_outside(pid_, pidfd_.native_handle());
  pidfd_.async_wait(pidfd_.wait_read, [self = shared_from_this()](const error_code& error) {
    // Its parent cannot say how it ended; most likely so.
    if (!error) self->finish({.signal = SIGKILL, .ended_by_paceline = true});
  });
}

void Process::handle_message(rpc::Envelope envelope) {
  // Whatever the process says of itself: it speaks for itself only.
  envelope.identity.worker = identity_.worker;
  if (envelope.type == rpc::Heartbeat::kType) return expect_heartbeat();
  if (envelope.type == rpc::ConnectData::kType) return host_.connect_data(identity_.worker, envelope.request);
  if (envelope.type == rpc::Sampling::kType) return host_.take_sampling(identity_.worker, std::move(envelope));
  if (envelope.type == rpc::Joined::kType) {
    join(envelope);
    if (serves_data()) host_.serve_data();
  }
  heard_why_ |= envelope.type == rpc::Failed::kType;
  if (envelope.type == rpc::Finished::kType) {  // its bars as they are now come before it
    standard_output_->settle();
    standard_error_->settle();
  }
  host_.send_to_controller(std::move(envelope));
}

void Process::join(rpc::Envelope& envelope) {
  std::vector<Descriptor> memories = std::exchange(envelope.descriptors, {});
  if (!memories.empty()) {
    auto progress = ProgressReader::open(std::move(memories[0]));
    if (progress.ok()) progress_ = std::make_shared<const ProgressReader>(*std::move(progress));
    if (progress_) host_.watch_progress(identity_.worker, progress_);
  }
  if (memories.size() > 1) crash_memory_ = std::move(memories[1]);
  expect_heartbeat();
}

void Process::expect_heartbeat() {
  if (state_ != State::running || silent_ || settings_.heartbeat_timeout_s <= 0) return;
  heartbeat_timer_.expires_after(to_duration(settings_.heartbeat_timeout_s));
  heartbeat_timer_.async_wait([self = shared_from_this()](const error_code& error) {
    const auto late = SteadyClock::now() - self->heartbeat_timer_.expiry();
    // A heartbeat may have moved the timer when this call was on its way already.
    if (error || late < SteadyClock::duration::zero()) return;
    // This process stood still itself (Ctrl-Z), and the heartbeats of that time are not read yet.
    if (late > kStoodStill) return self->expect_heartbeat();
    self->report_silence();
  });
}

void Process::report_silence() {
  if (state_ != State::running || silent_) return;
  silent_ = true;
  rpc::ProcessSilent message{.silent_s = settings_.heartbeat_timeout_s, .stopped = suspended_};
  fill_progress(message);
  host_.send_to_controller(rpc::pack(message, identity_));
}

void Process::take_output(const rpc::Output& output) {
  if (output.stream == "stdout" && !output.lines.empty()) standard_error_->release();  // a bar has ended before it
  log_->append(output.lines);
  for (const std::string& line : output.lines) {
    last_lines_.push_back(line);
    if (std::ssize(last_lines_) > options_.last_lines) last_lines_.pop_front();
  }
  host_.send_to_controller(rpc::pack(output, identity_));
}

void Process::lose_guardian() {
  if (state_ == State::starting) return fail_to_start("the guardian, which starts processes, has ended");
  if (state_ == State::running) kill_from_outside();
}

void Process::finish(const ExitStatus& status, const MemoryFacts& memory) {
  if (state_ != State::running) return;
  state_ = State::ended;
  status_ = status;
  ended_ = clock_.now();
  memory_ = memory;
  heartbeat_timer_.cancel();
  grace_timer_.cancel();
  kill_timer_.cancel();
  standard_output_->drain();
  standard_error_->drain();
  // What the process has sent is still read; then the channel ends, also when a stranger holds the other end.
  ::shutdown(channel_socket_.get(), SHUT_RD);
  read_crash();
  if (channel_ended_ && !naming_crash_) report_end();
}

// The end is told when the stack of a crash has its names, or without them when that takes too long.
void Process::read_crash() {
  if (!crash_memory_ || status_.signal == 0) return;
  auto crash = stacks::read_crash(crash_memory_.duplicate().ValueOr(Descriptor()));
  if (!crash.ok() || !*crash || (*crash)->signal != status_.signal) return;
  const stacks::ThreadSnapshot& thread = (*crash)->snapshot.threads.front();
  crash_ = {.code = (*crash)->code,
            .address = (*crash)->address,
            .stack_pointer = thread.registers[stacks::kStackPointer],
            .place = (*crash)->place,
            .thread = thread.name,
            .what = (*crash)->what};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  naming_crash_ = true;
  const auto collection = std::make_shared<StackCollection>(
      loop_, Descriptor(ends[0]), kNamingPatience, [self = shared_from_this()](const std::string& lines) {
        for (const stacks::WorkerStacks& found : stacks::decode_lines(lines)) {
          for (const stacks::ThreadStack& stack : found.stacks.threads) {
            for (const stacks::StackFrame& frame : stack.frames) self->crash_->frames.push_back(to_text(frame));
          }
        }
        self->naming_crash_ = false;
        if (self->channel_ended_) self->report_end();
      });
  collection->start();
  rpc::Envelope name = rpc::pack(NameCrash{}, identity_);
  name.descriptors.push_back(Descriptor(ends[1]));
  name.descriptors.push_back(std::move(crash_memory_));
  host_.send_to_guardian(std::move(name));
}

void Process::note_channel_end() {
  channel_ended_ = true;
  if (state_ == State::ended && !naming_crash_) report_end();
}

void Process::report_end() {
  ProcessEnd end{.status = status_,
                 .last_lines = {last_lines_.begin(), last_lines_.end()},
                 .log_file = settings_.log_file,
                 .memory = memory_,
                 .crash = crash_};
  fill_progress(end);
  rpc::Envelope exited = rpc::pack(rpc::ProcessExited{std::move(end)}, identity_);
  exited.bytes = collectives();
  host_.send_to_controller(std::move(exited));
  become_forgotten();
}

void Process::become_forgotten() {
  state_ = State::forgotten;
  boost::asio::post(loop_, [self = shared_from_this()] {
    self->channel_.reset();
    self->pidfd_.close();
    self->host_.forget(self->identity_.worker);
  });
}

pid_t Process::hosts_program() const {
  const bool hosts = progress_ && progress_->read(clock_.monotonic()).phase == Phase::program;
  return hosts ? pid_ : 0;
}

rpc::ProcessProgress Process::progress() const {
  rpc::ProcessProgress progress{.worker = identity_.worker};
  if (const auto usage = hosts_program() > 0 ? usage_below(pid_) : process_usage(pid_); usage.ok()) {
    progress.started = usage->started;
    progress.cpu_s = usage->cpu_s;
    progress.resident_bytes = usage->resident_bytes;
  }
  if (!progress_) return progress;
  const ProgressReading reading = progress_->read(clock_.monotonic());
  progress.step = reading.step;
  progress.phase = reading.phase;
  progress.phase_s = in_seconds(reading.in_phase);
  progress.idle_s = in_seconds(reading.idle);
  progress.marks = reading.marks;
  progress.longest_pause_s = in_seconds(reading.longest_pause);
  progress.steps_timed = reading.steps_timed;
  progress.step_s = in_seconds(reading.step_time);
  progress.spent = reading.spent;
  for (const GroupReading& group : reading.groups) {
    progress.groups.push_back(
        {.group = group.group, .begun = group.begun, .done = group.done, .collective = to_string(group.oldest)});
  }
  return progress;
}

// Machines have no monotonic clock in common.
std::string Process::collectives() const {
  if (!progress_) return "";
  const Time now = clock_.now(), taken = ended_ == Time() ? now : ended_;
  LedgerReading reading{.taken_ns = taken.time_since_epoch().count(),
                        .groups = progress_->members(),
                        .records = progress_->collectives()};
  if (reading.records.empty()) return "";
  std::erase_if(reading.groups, [&](const GroupMembers& members) {
    return std::ranges::find(reading.records, members.group, &CollectiveRecord::group) == reading.records.end();
  });
  const int64_t wall = (now.time_since_epoch() - clock_.monotonic()).count();
  for (CollectiveRecord& record : reading.records) {
    for (int64_t* const time : {&record.called_ns, &record.waited_ns, &record.end_ns}) {
      if (*time != 0) *time += wall;
    }
  }
  return encode_reading(reading);
}

template <class Message>
void Process::fill_progress(Message& message) const {
  if (!progress_) return;
  const ProgressReading reading = progress_->read(clock_.monotonic());
  message.step = reading.step;
  message.phase = reading.phase;
  if constexpr (requires { message.cut_off; }) message.cut_off = reading.cut_off;
  if constexpr (requires { message.spent; }) message.spent = reading.spent;
}

}  // namespace paceline::agent
