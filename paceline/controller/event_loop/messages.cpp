// What agents, workers and the command line say, turned into events and replies.

#include <algorithm>
#include <utility>

#include "paceline/controller/event_loop/run_loop_internal.h"
#include "paceline/controller/worker_process.h"
#include "paceline/rpc/report_bytes.h"
#include "paceline/rpc/sample_messages.h"

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
  const size_t agent = incoming.agent;
  if (agents_[agent].lost) return;  // late, and of no concern
  if (envelope.type == rpc::NodeReady::kType) return join(agent, unpacked<rpc::NodeReady>(envelope));
  if (envelope.type == rpc::NodeLeaving::kType) return note_leaving(agent, unpacked<rpc::NodeLeaving>(envelope));
  if (envelope.type == rpc::ProgressReply::kType) return receive_progress(agent, envelope);
  if (envelope.type == rpc::StacksReply::kType) return receive_stacks(agent, envelope);
  if (envelope.type == rpc::ProfileReply::kType) return receive_profiles(agent, envelope);
  if (envelope.type == rpc::CollectivesReply::kType) return receive_collectives(agent, envelope);
  if (envelope.type == rpc::NodeFailed::kType) return lose_agent(agent, unpacked<rpc::NodeFailed>(envelope).error);
  if (envelope.type == rpc::StopRun::kType) return stop_for(agent, unpacked<rpc::StopRun>(envelope));
  if (envelope.type == rpc::NodeSampled::kType) return receive_samples(agent, envelope);
  if (envelope.type == rpc::PackageRead::kType) {
    (void)agents_[agent].channel->send(packages_.read(unpacked<rpc::PackageRead>(envelope)));
    return;
  }
  if (!speaks_for(agent, envelope.identity.worker)) return;
  note_output(envelope);
  const auto validation = validations_.find(envelope.identity.worker);
  if (validation != validations_.end()) return receive_from_validation(validation->first, validation->second, envelope);
  if (data_processes_.contains(envelope.identity.worker)) {
    return receive_from_data_process(envelope.identity.worker, envelope);
  }
  const Worker* worker = find(envelope.identity.worker);
  // Of a group that is gone: late, and of no concern.
  if (worker != nullptr && worker->stage != WorkerStage::gone) receive_from_process(*worker, envelope);
}

void RunLoop::receive_from_process(const Worker& worker, rpc::Envelope& envelope) {
  const std::string& type = envelope.type;
  if (type == rpc::Output::kType) {
    show_output(worker.id, worker.rank, name_of(worker), unpacked<rpc::Output>(envelope));
  } else if (type == rpc::StoreRequest::kType) {
    send_replies(table_.handle(envelope, parts_.clock.now()));
  } else if (type == rpc::CheckpointsRequest::kType) {
    receive_checkpoints_request(worker, envelope);
  } else if (type == rpc::Report::kType) {
    receive_report(worker, envelope);
  } else if (type == rpc::CheckpointPlace::kType) {
    if (is_current(envelope)) receive_checkpoint_place(worker, unpacked<rpc::CheckpointPlace>(envelope));
  } else if (type == rpc::CheckpointUploaded::kType) {
    if (is_current(envelope)) books_.uploaded(worker.rank, unpacked<rpc::CheckpointUploaded>(envelope));
  } else if (type == rpc::ProgressBar::kType) {
    const auto progress = unpacked<rpc::ProgressBar>(envelope);
    if (worker.rank == 0) books_.terminal().progress(progress.label, progress.done, progress.total, progress.rate);
  } else if (type == rpc::ProcessStarted::kType) {
    if (const auto coming = coming_.find(worker.id); coming != coming_.end()) {
      coming->second = std::chrono::duration<double>(parts_.clock.now() - group_begun_).count();
    }
    feed(WorkerStarted{worker.id, unpacked<rpc::ProcessStarted>(envelope).pid});
  } else if (type == rpc::ProcessStartFailed::kType) {
    const auto failed = unpacked<rpc::ProcessStartFailed>(envelope);
    feed(StartFailed{worker.id, failed.error, failed.hopeless});
  } else if (type == rpc::Joined::kType) {
    const auto joined = unpacked<rpc::Joined>(envelope);
    const std::string problem =
        versions_.add("node " + state().nodes[static_cast<size_t>(worker.node)].name, joined.versions);
    if (problem.empty()) return feed(WorkerJoined{worker.id, joined.pid});
    feed(StartFailed{worker.id, problem, /*hopeless=*/true});
  } else if (type == rpc::Finished::kType) {
    books_.finish(worker, unpacked<rpc::Finished>(envelope));
  } else if (type == rpc::Failed::kType) {
    receive_failed(worker, envelope);
  } else if (type == rpc::ProcessSilent::kType) {
    const auto silent = unpacked<rpc::ProcessSilent>(envelope);
    feed(WorkerSilent{worker.id, silent.silent_s, silent.stopped, silent.step, silent.phase});
  } else if (type == rpc::ProcessExited::kType) {
    receive_exit(worker, envelope);
  }
}

void RunLoop::receive_samples(size_t agent, rpc::Envelope& envelope) {
  const std::optional<int64_t> node = agents_[agent].node;
  if (node) books_.keep_samples(state().nodes[static_cast<size_t>(*node)].name, std::move(envelope.bytes));
  rpc::Envelope taken = rpc::pack(rpc::SamplesTaken{});
  taken.reply_to = envelope.request;
  (void)agents_[agent].channel->send(std::move(taken));  // an agent that is gone says so by its channel's end
}

bool RunLoop::is_current(const rpc::Envelope& envelope) const {
  return envelope.identity.attempt == state().attempt && envelope.identity.generation == state().generation;
}

void RunLoop::receive_report(const Worker& worker, const rpc::Envelope& envelope) {
  if (!is_current(envelope)) return;
  const auto report = unpacked<rpc::Report>(envelope);
  const WorkerId id = worker.id;  // what the report causes may take the worker away
  books_.report(worker.rank, report);
  int64_t& bytes = unanswered_bytes_[id];
  bytes += rpc::bytes_of(envelope.body);
  if (report.index % rpc::kReportsBetweenAnswers != 0 && bytes < rpc::kReportBytesBetweenAnswers) return;
  taken_[id] = report.index;
  bytes = 0;
}

// While somebody has to catch up nobody is told: ranks wait in report().
void RunLoop::tell_taken() {
  if (taken_.empty() || !books_.held_up_by().empty()) return;
  for (const auto& [id, index] : std::exchange(taken_, {})) {
    if (find(id) != nullptr) send(id, rpc::pack(rpc::ReportsTaken{index}, identity_of(id)));
  }
}

void RunLoop::receive_failed(const Worker& worker, const rpc::Envelope& envelope) {
  const auto failed = unpacked<rpc::Failed>(envelope);
  const AwaitedReport awaited = books_.awaited_of(worker.rank, /*is_gone=*/false);
  if (failed.collateral) note_unreachable_nodes();
  if (request_.take_exception && !envelope.bytes.empty()) request_.take_exception(worker.rank, envelope.bytes);
  feed(WorkerFailed{.worker = worker.id,
                    .exception = failed.kind,
                    .text = failed.text,
                    .frames = failed.frames,
                    .stopped = failed.stopped,
                    .collateral = failed.collateral,
                    .awaited_report = awaited.report,
                    .awaits_checkpoint = awaited.has_checkpoint});
}

void RunLoop::receive_exit(const Worker& worker, const rpc::Envelope& envelope) {
  const auto exited = unpacked<rpc::ProcessExited>(envelope);
  keep_collectives(worker, envelope.bytes, /*has_ended=*/true);
  lose_for_checkpoint(worker);
  note_time_spent(worker, exited.end.spent);
  const ReportBook* const book = books_.book();
  const int64_t last_report = book != nullptr && worker.rank >= 0 ? book->last_report(worker.rank) : 0;
  const AwaitedReport awaited = books_.awaited_of(worker.rank, /*is_gone=*/true);
  // Of a program that shows no phases nothing else says that it ended for want of another.
  if (exited.end.phase == Phase::program && !exited.end.status.ended_by_paceline) note_unreachable_nodes();
  feed(WorkerExited{worker.id, exited.end, last_report, awaited.report, awaited.has_checkpoint});
}

// Written with each: that costs less than starting a worker did.
void RunLoop::note_time_spent(const Worker& worker, TimeSpent spent) {
  spent.starting_s += coming_of(worker.id);
  if (worker.rank < 0 || !books_.is_ours()) return;
  if (!times_) times_ = run::read_time_spent(request_.run_folder);  // of earlier drivers
  if (const auto live = live_.progress.find(worker.id); live != live_.progress.end()) live->second.spent = {};
  run::add(state().attempt.value, spent, *times_);
  const arrow::Status kept = run::keep_time_spent(request_.run_folder, *times_);
  if (!kept.ok()) books_.log().warning(kept.message());
}

double RunLoop::coming_of(WorkerId worker) const {
  const auto coming = coming_.find(worker);
  return coming == coming_.end() ? 0 : coming->second;
}

void RunLoop::receive(PublishDone& incoming) {
  books_.settle(incoming.report, incoming.published);
}

void RunLoop::receive(RemoveFailed& incoming) {
  books_.note_removal_failed(incoming.report, incoming.status);
}

void RunLoop::receive(FromCommandLine& incoming) {
  const Client client{.channel = incoming.client, .request = incoming.request.request};
  if (incoming.request.type == rpc::StopRun::kType) {
    const auto stop = unpacked<rpc::StopRun>(incoming.request);
    feed(StopRequested{.reason = stop.reason, .cause = StopCause::command_line});
    return answer_status(client);
  }
  if (incoming.request.type == rpc::StatusRequest::kType) ask_progress([this, client] { answer_status(client); });
  if (incoming.request.type == rpc::WatchRun::kType) add_watcher(unpacked<rpc::WatchRun>(incoming.request), client);
  if (incoming.request.type == rpc::CollectivesRequest::kType) {
    ask_collectives({.client = incoming.client, .request = incoming.request.request});
  }
  if (incoming.request.type == rpc::RunProfileRequest::kType) {
    ask_profiles(unpacked<rpc::RunProfileRequest>(incoming.request),
                 {.answers = {.client = incoming.client, .request = incoming.request.request}});
  }
  if (incoming.request.type == rpc::RunCheckpointRequest::kType) {
    ask_for_checkpoint(unpacked<rpc::RunCheckpointRequest>(incoming.request), client);
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

// What lies in a folder that another driver has now is not left over when this one dies.
void RunLoop::receive(const LeaseLost& incoming) {
  if (!books_.is_ours()) {
    for (const Agent& agent : agents_) (void)agent.channel->send(rpc::pack(rpc::Leftovers{}));
  }
  feed(StorageFailed{incoming.why});
}

// Step and phase stand in memory that the agents read.
void RunLoop::ask_progress(std::function<void()> done) {
  Question question{.done = std::move(done)};
  const int64_t number = ++last_question_;
  for (size_t agent = 0; agent < agents_.size(); ++agent) {
    rpc::Envelope envelope = rpc::pack(rpc::ProgressRequest{});
    envelope.request = number;
    if (!agents_[agent].lost && agents_[agent].channel->send(std::move(envelope)).ok()) question.due.insert(agent);
  }
  if (question.due.empty()) return question.done();
  questions_.emplace(number, std::move(question));
}

void RunLoop::receive_progress(size_t agent, const rpc::Envelope& envelope) {
  for (rpc::ProcessProgress& process : unpacked<rpc::ProgressReply>(envelope).processes) {
    if (node_of(process.worker) != agents_[agent].node) continue;
    process.spent.starting_s += coming_of(process.worker);
    live_.progress[process.worker] = std::move(process);
  }
  const auto question = questions_.find(envelope.reply_to);
  if (question == questions_.end()) return;
  question->second.due.erase(agent);
  if (!question->second.due.empty()) return;
  const Question answered = std::move(question->second);
  questions_.erase(question);
  answered.done();
}

Json RunLoop::current_status() {
  live_.metrics = books_.shown_metrics();
  live_.last_report = books_.shown_report();
  live_.waits_for = books_.waits_for();
  return status_json(state(), live_, request_);
}

void RunLoop::answer_status(const Client& client) {
  rpc::Envelope reply = rpc::pack(rpc::StatusReply{current_status()});
  reply.reply_to = client.request;
  [[maybe_unused]] const arrow::Status sent = client.channel->send(std::move(reply));  // it may have left
}

// Of all workers that live, or of the one with that rank.
void RunLoop::ask_stacks(int64_t rank, std::function<void(std::vector<stacks::WorkerStacks>)> done) {
  std::map<size_t, std::vector<WorkerId>> workers_of_agent;
  for (const auto& [id, worker] : state().workers) {
    if (worker.stage == WorkerStage::gone || (rank >= 0 && worker.rank != rank)) continue;
    workers_of_agent[agent_of_node_[static_cast<size_t>(worker.node)]].push_back(id);
  }
  StackQuestion question{.done = std::move(done)};
  const int64_t number = ++last_question_;
  for (auto& [agent, workers] : workers_of_agent) {
    rpc::Envelope envelope = rpc::pack(rpc::StacksRequest{.workers = std::move(workers)});
    envelope.request = number;
    if (agents_[agent].channel->send(std::move(envelope)).ok()) question.due.insert(agent);
  }
  if (question.due.empty()) return question.done({});
  stack_questions_.emplace(number, std::move(question));
}

void RunLoop::receive_stacks(size_t agent, const rpc::Envelope& envelope) {
  const auto question = stack_questions_.find(envelope.reply_to);
  if (question == stack_questions_.end()) return;
  for (stacks::WorkerStacks& found : stacks::decode_lines(envelope.bytes)) {
    if (is_placed(found, agent)) question->second.found.push_back(std::move(found));
  }
  question->second.due.erase(agent);
  if (!question->second.due.empty()) return;
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
