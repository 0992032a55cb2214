// What agents, workers and the command line say, turned into events and replies.

#include <algorithm>

#include "paceline/controller/run_loop_internal.h"

namespace paceline::controller {
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
  if (envelope.type == rpc::NodeFailed::kType) {
    return lose_agent(incoming.node, unpacked<rpc::NodeFailed>(envelope).error);
  }
  const Worker* worker = find(envelope.identity.worker);
  // Of a group that is gone: late, and of no concern.
  if (worker != nullptr && worker->stage != WorkerStage::gone) receive_from_process(*worker, envelope);
}

void RunLoop::receive_from_process(const Worker& worker, rpc::Envelope& envelope) {
  const std::string& type = envelope.type;
  if (type == rpc::Output::kType) {
    const std::string name = name_of(worker);
    for (const std::string& line : unpacked<rpc::Output>(envelope).lines) parts_.terminal.output(name, line);
  } else if (type == rpc::StoreRequest::kType) {
    send_replies(table_.handle(envelope, parts_.clock.now()));
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
    report_log_.add(std::move(group), state_.attempt, parts_.clock.now());
    if (has_files) feed(CheckpointReady{number});
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
                    last_report});
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
    const std::string name = checkpoint::checkpoint_name(incoming.report);
    report_log_.settle(incoming.report, name);
    parts_.terminal.checkpoint(name);
    feed(CheckpointPublished{{incoming.report, incoming.published->metrics, incoming.published->time}});
  }
  write_reports();
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
  if (incoming.request.type == rpc::StatusRequest::kType) ask_agents(incoming);
}

void RunLoop::receive(const OutputLeftOut& incoming) {
  parts_.log.warning(std::to_string(incoming.lines) +
                     " lines of the workers' output are not shown here: they came faster than they could be written; "
                     "all of them are in logs/");
}

// Step and phase stand in memory that the agents read.
void RunLoop::ask_agents(const FromCommandLine& incoming) {
  Question question{incoming.client, incoming.request.request, 0};
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
  rpc::Envelope reply = rpc::pack(rpc::StatusReply{status_json(state_, live_, parts_.request)});
  reply.reply_to = question.request;
  [[maybe_unused]] const arrow::Status sent = question.client->send(std::move(reply));  // it may have left
}

void RunLoop::send_replies(rpc::KeyValueTable::Replies replies) {
  for (rpc::Envelope& reply : replies) {
    const WorkerId worker = reply.identity.worker;
    send(worker, std::move(reply));
  }
}

}  // namespace paceline::controller
