// What agents, workers and the command line say, turned into events and replies.

#include <algorithm>

#include "paceline/controller/run_loop_internal.h"
#include "paceline/controller/worker_process.h"

namespace paceline::controller {

using namespace policy;
namespace {

// A message that does not fit its declaration says nothing: its default stands.
template <class M>
M unpacked(const rpc::Envelope& envelope) {
  return rpc::unpack<M>(envelope).ValueOr(M{});
}

}  // namespace

void RunLoop::receive(FromAgent& incoming) {
  rpc::Envelope& envelope = incoming.envelope;
  if (envelope.type == rpc::NodeReady::kType) {
    const auto ready = unpacked<rpc::NodeReady>(envelope);
    agent_of_node_.push_back(incoming.node);
    return feed(NodeJoined{{ready.node, ready.host, ready.pid, ready.cores, ready.gpus}});
  }
  if (envelope.type == rpc::ProgressReply::kType) return receive_progress(envelope);
  if (envelope.type == rpc::StacksReply::kType) return receive_stacks(envelope);
  if (envelope.type == rpc::NodeFailed::kType) {
    return lose_agent(incoming.node, unpacked<rpc::NodeFailed>(envelope).error);
  }
  const auto validation = validations_.find(envelope.identity.worker);
  if (validation != validations_.end()) return receive_from_validation(validation->first, validation->second, envelope);
  const Worker* worker = find(envelope.identity.worker);
  // Of a group that is gone: late, and of no concern.
  if (worker != nullptr && worker->stage != WorkerStage::gone) receive_from_process(*worker, envelope);
}

void RunLoop::receive_from_process(const Worker& worker, rpc::Envelope& envelope) {
  const std::string& type = envelope.type;
  if (type == rpc::Output::kType) {
    show_output(worker, unpacked<rpc::Output>(envelope));
  } else if (type == rpc::StoreRequest::kType) {
    send_replies(table_.handle(envelope, parts_.clock.now()));
  } else if (type == rpc::CheckpointsRequest::kType) {
    receive_checkpoints_request(worker, envelope);
  } else if (type == rpc::Report::kType) {
    receive_report(worker, envelope);
  } else if (type == rpc::Progress::kType) {
    const auto progress = unpacked<rpc::Progress>(envelope);
    if (worker.rank == 0) parts_.terminal.progress(progress.label, progress.done, progress.total, progress.rate);
  } else if (type == rpc::ProcessStarted::kType) {
    feed(WorkerStarted{worker.id, unpacked<rpc::ProcessStarted>(envelope).pid});
  } else if (type == rpc::ProcessStartFailed::kType) {
    feed(StartFailed{worker.id, unpacked<rpc::ProcessStartFailed>(envelope).error});
  } else if (type == rpc::Joined::kType) {
    feed(WorkerJoined{worker.id, unpacked<rpc::Joined>(envelope).pid});
  } else if (type == rpc::Finished::kType) {
    receive_finished(worker, envelope);
  } else if (type == rpc::Failed::kType) {
    receive_failed(worker, envelope);
  } else if (type == rpc::ProcessSilent::kType) {
    const auto silent = unpacked<rpc::ProcessSilent>(envelope);
    feed(WorkerSilent{worker.id, silent.silent_s, silent.stopped, silent.step, silent.phase});
  } else if (type == rpc::ProcessExited::kType) {
    receive_exit(worker, envelope);
  }
}

void RunLoop::show_output(const Worker& worker, const rpc::Output& output) {
  const TakeOutput& take = parts_.request.take_output;
  const std::string name = name_of(worker);
  for (const std::string& line : output.lines) {
    if (!take || !take(worker.rank, output.stream, line)) parts_.terminal.output(name, line);
  }
}

void RunLoop::receive_report(const Worker& worker, const rpc::Envelope& envelope) {
  const bool current = envelope.identity.attempt == state_.attempt && envelope.identity.generation == state_.generation;
  if (!book_ || !current) return;
  const auto report = unpacked<rpc::Report>(envelope);
  highest_report_ = std::max(highest_report_, report.index);
  auto completed = book_->add(worker.rank, report);
  if (!completed.ok()) {
    return feed(ReportRefused{state_.attempt, state_.generation, report.index, completed.status().message()});
  }
  for (GroupReport& group : *completed) {
    const int64_t number = group.report;
    const bool has_files = !group.parts.empty();
    CheckpointReady ready{.report = number};
    if (group.validation) ready.validation = with_defaults(*group.validation, parts_.request.validation_task);
    report_log_.add(std::move(group), state_.attempt, parts_.clock.now());
    if (has_files) feed(std::move(ready));
  }
  if (!completed->empty()) write_reports();
}

// The counts are looked at first: with the last worker's return the run may end.
void RunLoop::receive_finished(const Worker& worker, const rpc::Envelope& envelope) {
  const auto finished = unpacked<rpc::Finished>(envelope);
  const WorkerId id = worker.id;
  if (book_) {
    const arrow::Status counts = book_->finish(worker.rank);
    if (!counts.ok()) feed(ReportRefused{state_.attempt, state_.generation, 0, counts.message()});
  }
  feed(WorkerFinished{id, finished.reports, finished.return_value});
}

void RunLoop::receive_failed(const Worker& worker, const rpc::Envelope& envelope) {
  const auto failed = unpacked<rpc::Failed>(envelope);
  feed(WorkerFailed{worker.id, failed.kind, failed.text, failed.frames, failed.stopped, failed.collateral});
}

void RunLoop::receive_exit(const Worker& worker, const rpc::Envelope& envelope) {
  const auto exited = unpacked<rpc::ProcessExited>(envelope);
  const int64_t last_report = book_ && worker.rank >= 0 ? book_->last_report(worker.rank) : 0;
  feed(WorkerExited{worker.id, exited.status, exited.last_lines, exited.log_file, exited.step, exited.phase,
                    exited.memory, exited.crash, last_report});
}

void RunLoop::receive(AgentGone& incoming) {
  lose_agent(incoming.node, incoming.status.ok() ? "its agent has ended" : incoming.status.message());
}

void RunLoop::lose_agent(size_t agent, const std::string& why) {
  const auto node = std::ranges::find(agent_of_node_, agent);
  const auto position = static_cast<size_t>(node - agent_of_node_.begin());
  const std::string name = node == agent_of_node_.end() ? "" : state_.nodes[position].name;
  feed(NodeLost{name, why, highest_report_});
}

void RunLoop::receive(PublishDone& incoming) {
  if (!incoming.published.ok()) {
    report_log_.settle(incoming.report, "");
    feed(PublishFailed{incoming.report, incoming.published.status().message()});
  } else {
    const checkpoint::Published& published = *incoming.published;
    report_log_.settle(incoming.report, published.name);
    parts_.terminal.checkpoint(published.name);
    feed(CheckpointPublished{{incoming.report, published.name, published.metrics, published.time}});
  }
  write_reports();
  if (parts_.object_run != nullptr) {
    check(report_log_.flush());
    parts_.object_run->push();
  }
}

void RunLoop::receive(RemoveFailed& incoming) {
  parts_.log.warning("the checkpoint of report " + std::to_string(incoming.report) +
                     " could not be deleted: " + incoming.status.message());
}

void RunLoop::receive(FromCommandLine& incoming) {
  if (incoming.request.type == rpc::StopRun::kType) {
    const auto stop = unpacked<rpc::StopRun>(incoming.request);
    feed(StopRequested{stop.reason.empty() ? "asked for from the command line" : stop.reason});
    return answer({incoming.client, incoming.request.request, 0});
  }
  if (incoming.request.type == rpc::StatusRequest::kType) {
    ask_progress({.client = incoming.client, .request = incoming.request.request});
  }
  if (incoming.request.type == rpc::RunStacksRequest::kType) {
    const int64_t rank = unpacked<rpc::RunStacksRequest>(incoming.request).rank;
    ask_stacks(rank, [client = incoming.client, request = incoming.request.request](const auto& found) {
      rpc::Envelope reply = rpc::pack(rpc::StacksReply{});
      reply.reply_to = request;
      reply.bytes = stacks::encode_lines(found);
      [[maybe_unused]] const arrow::Status sent = client->send(std::move(reply));  // it may have left
    });
  }
}

void RunLoop::receive(const OutputLeftOut& incoming) {
  parts_.log.warning(std::to_string(incoming.lines) +
                     " lines of the workers' output are not shown here: they came faster than they could be written; "
                     "all of them are in logs/");
}

// Step and phase stand in memory that the agents read.
void RunLoop::ask_progress(Question question) {
  const int64_t number = ++last_question_;
  for (const std::unique_ptr<rpc::Channel>& agent : agents_) {
    rpc::Envelope envelope = rpc::pack(rpc::ProgressRequest{});
    envelope.request = number;
    if (agent->send(std::move(envelope)).ok()) ++question.answers_due;
  }
  if (question.answers_due == 0) return answer(question);
  questions_.emplace(number, std::move(question));
}

void RunLoop::receive_progress(const rpc::Envelope& envelope) {
  for (const rpc::ProcessProgress& process : unpacked<rpc::ProgressReply>(envelope).processes) {
    live_.progress[process.worker] = process;
  }
  const auto question = questions_.find(envelope.reply_to);
  if (question == questions_.end() || --question->second.answers_due > 0) return;
  answer(question->second);
  questions_.erase(question);
}

void RunLoop::answer(const Question& question) {
  if (question.client == nullptr) return watch();
  rpc::Envelope reply = rpc::pack(rpc::StatusReply{status_json(state_, live_, parts_.request)});
  reply.reply_to = question.request;
  [[maybe_unused]] const arrow::Status sent = question.client->send(std::move(reply));  // it may have left
}

// Of all workers that live, or of the one with that rank.
void RunLoop::ask_stacks(int64_t rank, std::function<void(std::vector<stacks::WorkerStacks>)> done) {
  std::map<size_t, std::vector<WorkerId>> workers_of_agent;
  for (const auto& [id, worker] : state_.workers) {
    if (worker.stage == WorkerStage::gone || (rank >= 0 && worker.rank != rank)) continue;
    workers_of_agent[agent_of_node_[static_cast<size_t>(worker.node)]].push_back(id);
  }
  StackQuestion question{.done = std::move(done)};
  const int64_t number = ++last_question_;
  for (auto& [agent, workers] : workers_of_agent) {
    rpc::Envelope envelope = rpc::pack(rpc::StacksRequest{.workers = std::move(workers)});
    envelope.request = number;
    if (agents_[agent]->send(std::move(envelope)).ok()) ++question.answers_due;
  }
  if (question.answers_due == 0) return question.done({});
  stack_questions_.emplace(number, std::move(question));
}

void RunLoop::receive_stacks(const rpc::Envelope& envelope) {
  const auto question = stack_questions_.find(envelope.reply_to);
  if (question == stack_questions_.end()) return;
  for (stacks::WorkerStacks& found : stacks::decode_lines(envelope.bytes)) {
    if (const Worker* worker = find(WorkerId{found.worker})) {
      found.rank = worker->rank;
      found.node = state_.nodes[static_cast<size_t>(worker->node)].name;
    }
    question->second.found.push_back(std::move(found));
  }
  if (--question->second.answers_due > 0) return;
  StackQuestion answered = std::move(question->second);
  stack_questions_.erase(question);
  std::ranges::sort(answered.found, {}, [](const auto& one) { return std::pair(one.rank, one.worker); });
  answered.done(std::move(answered.found));
}

void RunLoop::send_replies(rpc::KeyValueTable::Replies replies) {
  for (rpc::Envelope& reply : replies) {
    const WorkerId worker = reply.identity.worker;
    send(worker, std::move(reply));
  }
}

}  // namespace paceline::controller
