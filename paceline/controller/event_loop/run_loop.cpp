#include <unistd.h>

#include <algorithm>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/controller/worker_process.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/core/run_layout.h"

namespace paceline::controller {

using namespace policy;
namespace {

constexpr std::chrono::seconds kPatienceWithReader{2};

// Somebody who sits before a terminal may want to look; a batch job shall go on. What can never go on need not wait.
bool fails_on_hang(const DebugConfig& config) {
  return config.hang_action == "fail" || (config.hang_action == "auto" && ::isatty(STDERR_FILENO) == 0);
}

// Whoever reads a pipe or a file gets every line, so writers wait; a terminal that stands still (Ctrl-S) stops nobody.
rpc::Strings waiting_streams(const RunRequest& request) {
  if (request.standard_error || ::isatty(STDERR_FILENO) == 0) return {"stdout", "stderr"};
  if (request.standard_output || ::isatty(STDOUT_FILENO) == 0) return {"stdout"};
  return {};
}

}  // namespace

RunLoop::RunLoop(RunParts parts)
    : parts_(parts),
      books_(parts.books),
      request_(parts.books.request()),
      environment_(worker_environment(request_.run_config)),
      waiting_streams_(waiting_streams(request_)),
      profile_keeper_(request_.run_folder, request_.run_config.name.value_or(""),
                      [this](const std::string& line) { books_.log().warning(line); }),
      hang_watch_(request_.run_config.debug_config),
      fails_on_hang_(fails_on_hang(request_.run_config.debug_config)),
      fails_on_deadlock_(fails_on_hang_ || request_.run_config.debug_config.hang_action == "auto") {}

arrow::Status RunLoop::run(const arrow::Result<Launch>& launch) {
  // Otherwise both are the terminal, whose live line has to go before a line is written.
  if (!waiting_streams_.empty()) standard_output_.emplace(parts_.inbox, request_.standard_output);
  const std::string config = encode_json(request_.train_loop_config);
  config_bytes_ = std::ssize(config);
  auto attachment = SealedMemory::create("paceline_attachment", {config, request_.attachment});
  if (!attachment.ok()) {
    return attachment.status().WithMessage("handing the train loop and its configuration to the workers: ",
                                           attachment.status().message());
  }
  attachment_ = *std::move(attachment);
  if (launch.ok() && launch->others_may_come) {
    ARROW_ASSIGN_OR_RAISE(packages_, Packages::collect(request_));
    versions_.add("the driver's machine", request_.versions);
  }
  RunOptions options = options_of(request_, request_.scaling_config.num_workers.max);
  options.nodes = launch.ok() ? launch->agents : 1;
  options.nodes_may_come = launch.ok() && launch->others_may_come;
  one_agent_each_ = launch.ok() && launch->one_agent_each;
  // On one machine workers may share cores, with a warning.
  if (options.nodes_may_come) ask_of_nodes(request_.scaling_config, options);
  ARROW_RETURN_NOT_OK(books_.begin(options, *this));
  const std::string unused =
      options.nodes_may_come || !launch.ok() ? "" : settings_of_other_nodes(request_.scaling_config);
  if (!packages_.text().empty()) books_.log().info("to nodes that lack it goes " + packages_.text());
  if (!unused.empty()) books_.log().warning("ScalingConfig: no effect on one machine: " + unused);
  if (!launch.ok()) feed(NodeLost{.error = "no agent could be launched: " + launch.status().message()});
  while (!is_terminal(state().state)) {
    parts_.inbox.wait(parts_.stop.descriptor(), next_deadline(), parts_.clock);
    for (uint64_t count = take_count(parts_.stop.descriptor()); count > 0; --count) {
      feed(StopRequested{.reason = parts_.stop.reason(), .cause = parts_.stop.cause()});
    }
    for (Incoming& incoming : parts_.inbox.take()) {
      std::visit([this](auto& kind) { receive(kind); }, incoming);
    }
    meet_deadlines();
    tell_taken();
    answer_checkpoints(parts_.clock.now());
    tell_watchers(parts_.clock.now());
  }
  tell_watchers(parts_.clock.now(), /*is_last=*/true);
  watchers_.clear();
  dismiss_all();
  books_.wait_at_end_for("the workers' last lines, to write " + request_.run_folder + "/" + run_layout::kLogs);
  agents_.clear();
  books_.wait_at_end_for("profiles, to write " + request_.run_folder + "/" + run_layout::kProfiles);
  profile_keeper_.finish();
  books_.wait_at_end_for("");  // a reader is waited for otherwise
  finish_output();
  return arrow::Status::OK();
}

// Whoever reads slowly gets every line. Whoever does not read holds up no driver that was asked to stop.
void RunLoop::finish_output() {
  std::optional<Time> deadline;
  if (state().state == State::aborted) deadline = parts_.clock.now() + kPatienceWithReader;
  while (standard_output_ && standard_output_->is_behind()) {
    parts_.inbox.wait(parts_.stop.descriptor(), deadline, parts_.clock);
    const bool asked = take_count(parts_.stop.descriptor()) > 0;
    parts_.inbox.take();
    if (!asked && (!deadline || parts_.clock.now() < *deadline)) continue;
    books_.log().warning("the reader of standard output does not read: the workers' last lines are in logs/ only");
    break;
  }
  standard_output_.reset();
}

std::optional<Time> RunLoop::next_deadline() const {
  std::optional<Time> next;
  const auto consider = [&next](std::optional<Time> time) {
    if (time && (!next || *time < *next)) next = time;
  };
  if (timer_) consider(timer_->at);
  consider(table_.next_deadline());
  if (is_watching()) consider(next_watch_);
  for (const auto& [id, process] : validations_) consider(process.deadline);
  for (const CheckpointsQuestion& question : checkpoints_questions_) consider(question.deadline);
  if (checkpoint_request_) consider(checkpoint_request_->deadline);
  consider(next_news());
  consider(books_.next_deadline());
  return next;
}

void RunLoop::meet_deadlines() {
  const Time now = parts_.clock.now();
  if (timer_ && timer_->at <= now) {
    const int64_t turn = timer_->turn;
    timer_.reset();
    feed(TimerDue{turn, books_.highest_report()});
  }
  std::vector<ValidationOverdue> overdue;
  for (auto& [id, process] : validations_) {
    if (!process.deadline || *process.deadline > now) continue;
    process.deadline.reset();
    overdue.push_back({process.report, id, ""});
  }
  for (const ValidationOverdue& event : overdue) feed(event);
  send_replies(table_.expire(now));
  watch_if_due(now);
  meet_checkpoint_deadline(now);
  books_.meet_deadlines();
}

}  // namespace paceline::controller
