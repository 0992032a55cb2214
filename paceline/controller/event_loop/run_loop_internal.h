// RunLoop: the shell around decide(), on the calling thread: events in, actions out.
//
// What every run keeps, and the order of decision, journal and actions, is RunBooks'. run_loop.cpp: the loop itself.
// agents.cpp: agents that come and are lost.
// output.cpp: what workers write. messages.cpp: what agents, workers and the command line say.
// actions.cpp: what decide() wants done with workers. validation.cpp: processes that validate
// checkpoints, and workers that ask for all checkpoints. data_process.cpp: processes that read datasets.
// collectives.cpp: the last collectives of the ranks. profiles.cpp: what their time goes into. watch.cpp: hangs and
// slow ranks. status_watch.cpp: who watches the run's status.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/controller/controller.h"
#include "paceline/controller/inbox.h"
#include "paceline/controller/packages.h"
#include "paceline/controller/profile_keeper.h"
#include "paceline/controller/publisher.h"
#include "paceline/controller/run_books.h"
#include "paceline/controller/standard_output.h"
#include "paceline/controller/status.h"
#include "paceline/controller/version_check.h"
#include "paceline/core/rotating_log.h"
#include "paceline/policy/hang_detection.h"
#include "paceline/rpc/key_value_table.h"
#include "paceline/rpc/watch_messages.h"
#include "paceline/run/kept_profiles.h"
#include "paceline/run/time_spent.h"
#include "paceline/stacks/profile.h"
#include "paceline/stacks/stack.h"

namespace paceline::controller {

/// What a loop works with; all of it outlives the loop.
struct RunParts {
  RunBooks& books;
  const Clock& clock;
  StopSignal& stop;
  Inbox& inbox;
  Publisher& publisher;
  /// What shall not remain should this process die.
  const rpc::Leftovers& leftovers;
};

class RunLoop final : private Crew {
 public:
  explicit RunLoop(RunParts parts);

  /// Takes the run and runs on the agents that come to a final state. An error means that nothing was journaled.
  arrow::Status run(const arrow::Result<Launch>& launch);

 private:
  struct Timer {
    int64_t turn = 0;
    Time at;
  };
  struct Agent {
    std::unique_ptr<rpc::Channel> channel;
    /// Its position in RunState::nodes; none before it has announced itself.
    std::optional<int64_t> node;
    bool lost = false;

    bool is_elsewhere() const { return !channel->carries_descriptors(); }
  };
  using Agents = std::set<size_t>;
  // A question for the ranks' progress that waits for the agents' answers; `done` when LiveStatus has them.
  struct Question {
    Agents due;
    std::function<void()> done;
  };

  // A question for stacks, likewise; `done` gets them with ranks and nodes.
  struct StackQuestion {
    std::vector<stacks::WorkerStacks> found;
    Agents due;
    std::function<void(std::vector<stacks::WorkerStacks>)> done;
  };
  // A question for profiles, likewise; the keeper reads the answers.
  struct ProfileQuestion {
    ProfileAnswers answers;
    Agents due;
  };
  // A question for the last collectives, likewise.
  struct CollectivesQuestion {
    std::shared_ptr<rpc::Channel> client;
    int64_t request = 0;
    Agents due;
  };
  // Who waits for an answer.
  struct Client {
    std::shared_ptr<rpc::Channel> channel;
    int64_t request = 0;
  };
  // Who is told what becomes of the status.
  struct Watcher {
    Client client;
    Duration interval;
    Time next;
    Json told = Json::object();
    Time last_told;
  };
  // A checkpoint that is wanted now, until it is decided when the ranks hear of it.
  struct CheckpointRequest {
    int64_t number = 0;
    std::vector<Client> clients;
    std::set<WorkerId> due;
    int64_t last_call = 0;         // of those who have answered
    std::optional<Time> deadline;  // once the ranks are asked
  };
  // A process that validates a checkpoint, and what it has said.
  struct ValidationProcess {
    int64_t report = 0;
    std::optional<Time> deadline;
    std::optional<Json> metrics;
    std::string error;
  };
  // A worker that waits for all checkpoints.
  struct CheckpointsQuestion {
    WorkerId worker;
    int64_t request = 0;
    rpc::CheckpointsRequest wanted;
    std::optional<Time> deadline;
  };

  // run_loop.cpp
  void feed(policy::Event event) { books_.feed(std::move(event)); }
  const policy::RunState& state() const { return books_.state(); }
  void finish_output();
  arrow::Status send_attachment(const Agent& agent);
  std::optional<Time> next_deadline() const;
  void meet_deadlines();

  // output.cpp
  void receive(const OutputWritten& incoming);
  void receive(const OutputLeftOut& incoming);
  void note_output(const rpc::Envelope& envelope);
  void show_output(WorkerId worker, int64_t rank, const std::string& name, const rpc::Output& output);
  void show_bar(const std::string& name, const rpc::Output& output);
  bool is_output_held_up() const { return standard_output_ && standard_output_->is_behind(); }

  // agents.cpp
  void receive(AgentCame& incoming);
  void receive(const AgentFailed& incoming);
  void receive(AgentGone& incoming);
  void join(size_t agent, const rpc::NodeReady& ready);
  std::string why_not(const rpc::NodeReady& ready) const;
  void dismiss(Agent& agent, const rpc::Dismissed& how);
  void dismiss_all();
  void stop_for(size_t agent, const rpc::StopRun& stop);
  std::string unused_name(const std::string& name) const;
  void note_leaving(size_t agent, const rpc::NodeLeaving& leaving);
  void lose_agent(size_t agent, const std::string& why);
  void note_unreachable_nodes();
  bool speaks_for(size_t agent, WorkerId worker) const;
  void settle_questions(size_t agent);

  // messages.cpp
  void receive(FromAgent& incoming);
  void receive(PublishDone& incoming);
  void receive(RemoveFailed& incoming);
  void receive(FromCommandLine& incoming);
  void receive(const CommandLineGone& incoming) { remove_watcher(incoming.client.get()); }
  void receive(const LeaseLost& incoming);
  void receive(const HistoryWritten&) { books_.note_history(); }
  bool is_current(const rpc::Envelope& envelope) const;
  void receive_report(const policy::Worker& worker, const rpc::Envelope& envelope);
  void tell_taken();
  void receive_failed(const policy::Worker& worker, const rpc::Envelope& envelope);
  void receive_exit(const policy::Worker& worker, const rpc::Envelope& envelope);
  void note_time_spent(const policy::Worker& worker, TimeSpent spent);
  double coming_of(WorkerId worker) const;
  void receive_from_process(const policy::Worker& worker, rpc::Envelope& envelope);
  void receive_samples(size_t agent, rpc::Envelope& envelope);
  void receive_progress(size_t agent, const rpc::Envelope& envelope);
  void ask_progress(std::function<void()> done);
  Json current_status();
  void answer_status(const Client& client);
  void ask_stacks(int64_t rank, std::function<void(std::vector<stacks::WorkerStacks>)> done);
  void receive_stacks(size_t agent, const rpc::Envelope& envelope);
  void send_replies(rpc::KeyValueTable::Replies replies);

  // profiles.cpp
  void ask_profiles(const rpc::RunProfileRequest& wanted, ProfileQuestion question);
  void receive_profiles(size_t agent, rpc::Envelope& envelope);
  void note_places(ProfileAnswers& answers) const;
  void answer_profiles(ProfileQuestion question);

  // status_watch.cpp
  void add_watcher(const rpc::WatchRun& wanted, const Client& client);
  void remove_watcher(const rpc::Channel* client);
  std::optional<Time> next_news() const;
  void tell_watchers(Time now, bool is_last = false);
  bool tell(Watcher& watcher, const Json& status, Time now);

  // checkpoint_request.cpp
  void ask_for_checkpoint(const rpc::RunCheckpointRequest& wanted, Client client);
  void receive_checkpoint_place(const policy::Worker& worker, const rpc::CheckpointPlace& place);
  void lose_for_checkpoint(const policy::Worker& worker);
  void meet_checkpoint_deadline(Time now);
  void decide_checkpoint(int64_t call, const std::string& problem);

  // collectives.cpp
  void ask_collectives(CollectivesQuestion question);
  void receive_collectives(size_t agent, const rpc::Envelope& envelope);
  void keep_collectives(const policy::Worker& worker, std::string_view bytes, bool has_ended);
  void answer_collectives(const CollectivesQuestion& question);

  // validation.cpp
  void execute(const policy::StartValidation& action) override;
  void execute(const policy::EndValidation& action) override;
  void receive_from_validation(WorkerId id, ValidationProcess& process, const rpc::Envelope& envelope);
  void end_validation(WorkerId id, const ValidationProcess& process, const std::string& otherwise);
  void receive_checkpoints_request(const policy::Worker& worker, const rpc::Envelope& envelope);
  bool is_asked_for_validations() const;
  bool is_settled(const rpc::CheckpointsRequest& wanted) const;
  void answer_checkpoints(Time now);

  // data_process.cpp
  void execute(const policy::StartDataProcess& action) override;
  void receive_from_data_process(WorkerId id, const rpc::Envelope& envelope);
  void end_data_process(WorkerId id, const std::string& how);

  // watch.cpp
  bool is_watching() const;
  void watch_if_due(Time now);
  void watch();
  std::vector<policy::RankProgress> ranks_progress() const;
  std::string write_evidence(const policy::HangVerdict& verdict, const std::vector<policy::RankProgress>& ranks,
                             const std::vector<stacks::WorkerStacks>& found);

  // actions.cpp
  void execute(const policy::EnterState& action) override;
  void execute(const policy::StartWorker& action) override;
  void execute(const policy::AssignWorkers& action) override;
  void execute(const policy::EndWorker& action) override;
  void execute(const policy::CloseGroup& action) override;
  void publish(PublishJob job) override;
  void execute(const policy::DeleteCheckpoint& action) override;
  void execute(const policy::TellCommitted& action) override;
  void execute(const policy::SetTimer& action) override;
  void warn_about_cores(const policy::Node& node, int64_t workers);

  // Who: actions.cpp
  const policy::Worker* find(WorkerId id) const;
  // Gives what an agent has found of a worker its rank and node; false where the worker is another agent's.
  template <class Found>
  bool is_placed(Found& found, size_t agent) const {
    const policy::Worker* worker = find(WorkerId{found.worker});
    if (worker == nullptr) return true;
    if (worker->node != agents_[agent].node) return false;
    found.rank = worker->rank;
    found.node = state().nodes[static_cast<size_t>(worker->node)].name;
    return true;
  }
  Identity identity_of(WorkerId worker) const;
  std::string name_of(const policy::Worker& worker) const;
  void start(const rpc::Role& role, WorkerId worker, int64_t node, rpc::StartProcess message);
  void fail_to_start(WorkerId worker, int64_t node, const rpc::ProcessStartFailed& failed);
  std::optional<int64_t> node_of(WorkerId id) const;
  Agent& agent_of(int64_t node) { return agents_[agent_of_node_[static_cast<size_t>(node)]]; }
  void send(WorkerId worker, rpc::Envelope envelope);

  RunParts parts_;
  RunBooks& books_;
  const RunRequest& request_;
  std::optional<Timer> timer_;

  std::vector<Agent> agents_;          // in the order in which they came; the lost keep their place
  std::vector<size_t> agent_of_node_;  // by position in RunState::nodes
  rpc::StringMap environment_;
  bool one_agent_each_ = false;  // of nodes with one name
  Descriptor attachment_;        // sealed memory: the train loop's configuration, then the request's attachment
  int64_t config_bytes_ = 0;     // of the attachment's start
  Packages packages_;            // for agents on other machines
  std::map<int64_t, int64_t> workers_on_node_;
  std::map<WorkerId, int64_t> node_of_task_;  // position in RunState::nodes
  std::map<WorkerId, RotatingLog> logs_;      // of processes on other machines: their agents write none
  bool warned_about_cores_ = false;

  DiscardJob group_;  // whose reports are in the book
  rpc::KeyValueTable table_;
  VersionCheck versions_;
  LiveStatus live_;
  std::optional<run::AttemptTimes> times_;  // once a worker has ended
  Time group_begun_;                        // when nodes and processes began to be waited for
  std::map<WorkerId, double> coming_;       // how long, in seconds: a worker's own count of its time does not have it
  std::map<WorkerId, int64_t> taken_;       // reports in the books of which their worker has not been told
  std::map<WorkerId, int64_t> unanswered_bytes_;   // of reports in the books, behind the last in taken_
  std::optional<StandardOutput> standard_output_;  // none: the terminal shows what workers write there
  const rpc::Strings waiting_streams_;
  std::string bar_stream_;  // that rank 0 draws a bar on
  std::map<WorkerId, ValidationProcess> validations_;
  std::map<WorkerId, std::string> data_processes_;  // what they failed of, "" while they have not
  std::vector<CheckpointsQuestion> checkpoints_questions_;
  std::optional<CheckpointRequest> checkpoint_request_;
  std::vector<Watcher> watchers_;
  bool is_asking_for_watchers_ = false;
  std::map<int64_t, Question> questions_;
  std::map<int64_t, StackQuestion> stack_questions_;
  std::map<int64_t, ProfileQuestion> profile_questions_;
  std::map<int64_t, CollectivesQuestion> collectives_questions_;
  int64_t last_question_ = 0;
  ProfileKeeper profile_keeper_;

  policy::HangWatch hang_watch_;
  const bool fails_on_hang_;
  const bool fails_on_deadlock_;
  Time next_watch_;
  bool collecting_evidence_ = false;
};

}  // namespace paceline::controller
