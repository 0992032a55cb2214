#include <torch/torch.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "paceline/checkpoint/stage.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/build_id.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/core/posix/priority.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/core/run_layout.h"
#include "paceline/stacks/heap_profiler.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/storage.h"
#include "paceline/storage/storage_proof.h"
#include "paceline/train/torch_config.h"
#include "paceline/train/worker/debugger_internal.h"
#include "paceline/train/worker/failure_internal.h"
#include "paceline/train/worker/figures_file_internal.h"
#include "paceline/train/worker/language_runtime.h"
#include "paceline/train/worker/operator_profile_internal.h"
#include "paceline/train/worker/session_internal.h"
#include "paceline/train/worker/user_frames.h"
#include "paceline/worker/connection.h"

namespace paceline::train {
namespace {

constexpr int kTrainLoopFailed = 1;
constexpr int kUnknownRole = 2;

// Reports of a worker are messages to the controller.
class ConnectionSink final : public ReportSink {
 public:
  explicit ConnectionSink(worker::Connection& connection) : connection_(connection) {}
  void submit(rpc::Report report) override {
    const bool has_files = report.has_checkpoint && !report.uploading;
    if (!report.has_checkpoint) return connection_.send_soon(rpc::pack(report));
    connection_.send(rpc::pack(report));
    // What report() has returned from survives this process: the message must not be in its memory only.
    if (has_files) throw_if_error(connection_.flush());
  }
  void submit_files(rpc::CheckpointUploaded files) override {
    connection_.send(rpc::pack(files));
    throw_if_error(connection_.flush());
  }
  bool has_room_for(int64_t report) const override { return connection_.has_room_for(report); }
  void wait_for_room(int64_t report) override { throw_if_error(connection_.wait_for_room(report)); }
  PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest& request) override {
    // The controller keeps the time; the connection only gives up on one that never answers.
    const auto limit =
        request.timeout_s < 0
            ? std::chrono::milliseconds::max()
            : std::chrono::milliseconds(static_cast<int64_t>(request.timeout_s * 1e3)) + std::chrono::minutes(1);
    const auto reply = value_or_throw(connection_.call(rpc::pack(request), limit));
    (void)value_or_throw(rpc::unpack<rpc::CheckpointsReply>(reply));
    return value_or_throw(decode_json(reply.bytes)).get<PublishedCheckpoints>();
  }
  bool checkpoint_requested() override { return connection_.checkpoint_requested(); }
  bool takes_from_any_thread() const override { return true; }
  void fail(const std::exception_ptr& error) override { connection_.send(rpc::pack(failure_of(error))); }
  void show_progress(rpc::ProgressBar progress) override { connection_.send(rpc::pack(progress)); }

 private:
  worker::Connection& connection_;
};

// Commands arrive on the control thread, sessions come and go on the main thread.
class LiveSession {
 public:
  /// Makes a session reachable while it lives.
  class Scope {
   public:
    Scope(LiveSession& live, Session& session) : live_(live) { live_.set(&session); }
    ~Scope() { live_.set(nullptr); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    LiveSession& live_;
  };

  template <class Call>
  void with(Call call) {
    const std::lock_guard lock(mutex_);
    if (session_ != nullptr) call(*session_);
  }

 private:
  void set(Session* session) {
    const std::lock_guard lock(mutex_);
    session_ = session;
  }

  std::mutex mutex_;
  Session* session_ = nullptr;
};

// Where this process stages files: in the driver's folder, or, if its disk is another and the run is in an object
// store, in one of its node's. Before training rather than with the first checkpoint.
void choose_run_folder(const rpc::Welcome& welcome, SessionOptions& options) {
  const std::string staging = welcome.run_folder + "/" + run_layout::kStaging;
  const storage::Location location(welcome.location);
  const arrow::Status here = storage::check_folder_proof(staging, welcome.storage_proof);
  const char* const of_node = std::getenv(rpc::kNodeFolderVariable);
  const bool may_differ = location.is_uri() && of_node != nullptr;
  if (!may_differ) throw_if_error(here);
  if (location.is_uri()) throw_if_error(storage::check_object_proof(location, welcome.storage_proof));
  options.run_folder = welcome.run_folder;
  if (here.ok()) return;
  options.run_folder = std::string(of_node) + "/" + welcome.storage_proof;
  throw_if_error(storage::make_folders(options.run_folder));
  options.stages = value_or_throw(storage::open_storage(location));
}

SessionOptions session_options(LanguageRuntime& program, const WorkerStart& start, worker::Connection& connection,
                               const worker::Assignment& assignment, ReportSink& sink) {
  const auto& welcome = connection.welcome();
  const auto& assign = assignment.assign;
  const auto torch_config = welcome.torch_config.get<TorchConfig>();
  SessionOptions options = options_at_place({.world_rank = assign.rank.value,
                                             .world_size = assign.world_size,
                                             .local_rank = assign.local_rank,
                                             .local_world_size = assign.local_world_size,
                                             .node_rank = assign.node_rank,
                                             .attempt = assignment.identity.attempt.value,
                                             .experiment_name = welcome.run_name,
                                             .storage = welcome.location},
                                            welcome.scaling_config.get<ScalingConfig>(), torch_config,
                                            welcome.debug_config.get<DebugConfig>());
  options.identity = assignment.identity;
  options.driver = welcome.storage_proof;
  choose_run_folder(welcome, options);
  options.address = assign.address;
  options.master_address = assign.master_address;
  options.progress = &connection.progress();
  if (assign.world_size > 1) options.store = start.store;
  const comm::GroupOptions group = group_options(options, torch_config);
  options.group = program.connect(group, start);
  options.find_group = [&program, group] { return program.group(group); };
  options.checkpoint = assign.checkpoint;
  options.first_report = assign.first_report;
  options.has_validation = !welcome.validation_fn.empty();
  if (welcome.has_datasets) options.connect_data = [&connection] { return connection.connect_data(); };
  options.sink = &sink;
  return options;
}

// From the moment at which the loop throws, the agent waits for the Failed that follows: unwinding the user's stack and
// looking up the names of its frames take a while.
Json call_loop(LanguageRuntime& program, const WorkerStart& start, Session& session) {
  try {
    return program.train(start);
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    session.set_phase(Phase::failing);
    throw;
  }
}

// One generation: the train loop from its first line to its return. True when it returned. `group` is the generation's:
// it outlives the loop, because a rank whose loop has returned may be one that others are still connecting to.
bool run_generation(LanguageRuntime& program, worker::Connection& connection, const worker::Assignment& assignment,
                    LiveSession& live, std::shared_ptr<comm::Group>& group) {
  ConnectionSink sink(connection);
  const ThrowRecorder recorder;
  std::optional<Session> session;  // outlives the loop by the reports that are on their way
  try {
    program.open_storage(connection.attachment());
    const WorkerStart start{.welcome = connection.welcome(),
                            .attachment = connection.attachment(),
                            .assign = assignment.assign,
                            .store = connection.store(),
                            .progress = connection.progress()};
    SessionOptions options = session_options(program, start, connection, assignment, sink);
    group = options.group;
    const bool debugged = options.debug_config.debug_rank == options.context.world_rank;
    session.emplace(std::move(options));
    const LiveSession::Scope scope(live, *session);
    if (const auto reason = connection.stop_reason()) session->stop(*reason);
    if (debugged) program.debug();
    Json value = call_loop(program, start, *session);
    session->set_phase(Phase::checkpoint);
    session->finish();
    session->set_phase(Phase::ended);
    connection.send(rpc::pack(rpc::Finished{.reports = session->reports(), .return_value = std::move(value)}));
    return true;
  } catch (...) {
    rpc::Failed failed = program.describe(std::current_exception());
    // A collective that waited when the stop came was ended by it.
    if (failed.collateral && connection.stop_reason()) failed.stopped = true;
    rpc::Envelope message = rpc::pack(failed);
    if (!failed.stopped) message.bytes = program.serialized(std::current_exception());
    connection.send(std::move(message));
  }
  // What was reported before may still make a whole checkpoint. The agent knows how long this may take.
  try {
    if (session) session->finish_uploads();
  } catch (...) {  // NOLINT(bugprone-empty-catch): one failure has been told already
  }
  return false;
}

// The whole life of a process that validates one checkpoint.
int run_validation(LanguageRuntime& program, worker::Connection& connection) {
  const ThrowRecorder recorder;
  connection.progress().set_phase(Phase::validation);
  try {
    program.open_storage(connection.attachment());
    const Metrics metrics = program.validate(connection.welcome(), connection.attachment());
    connection.send(rpc::pack(rpc::Validated{.metrics = metrics.json()}));
    return 0;
  } catch (...) {
    connection.progress().set_phase(Phase::failing);
    connection.send(rpc::pack(program.describe(std::current_exception())));
    return kTrainLoopFailed;
  }
}

// The whole life of a process that reads datasets for the ranks of its node: until the run ends.
int run_data_process(LanguageRuntime& program, worker::Connection& connection) {
  const ThrowRecorder recorder;
  yield_to_others();
  connection.progress().set_phase(Phase::data);
  try {
    program.open_storage(connection.attachment());
    // Not destroyed with this call: the process ends without waiting for what is being read.
    static const auto service =
        data::start_data_service(program.data_service(connection.welcome(), connection.attachment()));
    const FiguresFile figures(connection.welcome().figures_file, connection.welcome().run_folder, *service);
    connection.on_data_client([](Descriptor rank) { service->serve(std::move(rank)); });
    (void)connection.next_assignment();  // none ever comes: it waits for the end
    connection.on_data_client({});
    return 0;
  } catch (...) {
    connection.progress().set_phase(Phase::failing);
    connection.send(rpc::pack(program.describe(std::current_exception())));
    return kTrainLoopFailed;
  }
}

[[noreturn]] void end_process(LanguageRuntime& program, worker::Connection& connection, int code) {
  (void)connection.flush();
  program.flush();
  // Not exit(): the user's static objects and LibTorch's threads have nothing left to do that could not hang.
  ::_exit(code);
}

// The whole life of a worker: an assignment after another, until there is none.
int run_generations(LanguageRuntime& program, worker::Connection& connection) {
  static LiveSession live;
  stacks::keep_heap_profiler_from_children();
  connection.on_stop([&program](const rpc::Stop& stop) {
    live.with([&](Session& session) { session.stop(stop.reason); });
    program.abort_collectives();
  });
  connection.on_checkpoint([](const rpc::CheckpointCommitted& committed) {
    live.with([&](Session& session) { session.set_checkpoint(committed.path, committed.index); });
  });
  connection.on_profile([&program, &connection](const rpc::Sample& wanted) -> arrow::Result<Descriptor> {
    if (wanted.kind == rpc::kMemoryProfile) {
      if (stacks::heap_is_profiled()) return stacks::dump_heap();
      const std::string line = program.profile_memory(wanted.seconds);
      return line.empty() ? memory_with(profile_allocations(wanted.seconds))
                          : SealedMemory::create("paceline_profile", {line});
    }
    ARROW_ASSIGN_OR_RAISE(const OwnProfile taken, take_timeline(wanted.seconds, wanted.steps, [&connection] {
                            return connection.progress().step();
                          }));
    return memory_with(taken);
  });
  static std::shared_ptr<comm::Group> group;  // not destroyed with this call: the process ends without that
  while (true) {
    auto assignment = connection.next_assignment();
    if (!assignment.ok() || !*assignment) return 0;
    if (!run_generation(program, connection, **assignment, live, group)) return kTrainLoopFailed;
  }
}

struct RoleRow {
  rpc::Role role;
  /// The whole life of such a process; its exit code.
  int (*live)(LanguageRuntime& program, worker::Connection& connection);
};

constexpr std::array kRoles = {
    RoleRow{rpc::kWorkerRole, run_generations},
    RoleRow{rpc::kValidationRole, run_validation},
    RoleRow{rpc::kDataRole, run_data_process},
};

const RoleRow& role_of(const rpc::Welcome& welcome) {
  std::string known;
  for (const RoleRow& row : kRoles) {
    if (welcome.role == row.role.name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.role.name);
  }
  std::fprintf(stderr,
               "paceline: this process was started as \"%s\", but this program knows only the roles %s; build it with "
               "the version of Paceline that its driver has\n",
               welcome.role.c_str(), known.c_str());
  ::_exit(kUnknownRole);
}

}  // namespace

std::shared_ptr<comm::Group> LanguageRuntime::connect(const comm::GroupOptions& options, const WorkerStart& start) {
  return comm::Group::create(options, options.world_size > 1 ? start.store : nullptr);
}

void LanguageRuntime::debug() {
  wait_for_debugger();
}

data::DataServiceOptions LanguageRuntime::data_service(const rpc::Welcome&, std::string_view) {
  throw UsageError("this program has no datasets to serve");
}

rpc::Failed LanguageRuntime::describe(const std::exception_ptr& exception) {
  return failure_of(exception);
}

rpc::StringMap LanguageRuntime::versions() {
  return versions_of_program();
}

rpc::StringMap versions_of_program() {
  rpc::StringMap versions = {{"LibTorch", TORCH_VERSION}};
  if (const std::string build = build_id_of_program(); !build.empty()) versions["the program's build"] = build;
  return versions;
}

std::string LanguageRuntime::serialized(const std::exception_ptr&) {
  return "";
}

void LanguageRuntime::flush() {
  std::fflush(nullptr);
}

void watch_gradient(const std::string& name, const torch::Tensor& parameter) {
  Session::current("prepare_model()").watch(name, parameter);
}

void count_step() {
  if (Session* const session = Session::current_or_null()) session->count_step();
}

storage::Location run_location() {
  return Session::current("get_context()").options().context.storage;
}

GroupPlace group_place() {
  const SessionOptions& options = Session::current("get_context()").options();
  if (options.address.empty()) return {"127.0.0.1", "lo", "127.0.0.1"};
  return {options.address, interface_of(options.address), options.master_address};
}

std::shared_ptr<data::DataClient> data_client(decltype(data::DataClientOptions::restored) restored) {
  const SessionOptions& options = Session::current("get_dataset_shard()").options();
  if (!options.connect_data) return nullptr;
  const auto show_wait = [progress = options.progress](bool waits) {
    progress->set_phase(waits ? Phase::data : Phase::training);
  };
  return data::make_data_client(
      {.connect = options.connect_data, .restored = std::move(restored), .on_wait = show_wait});
}

int64_t check_ranks_every() {
  return Session::current("prepare_model()").options().debug_config.check_ranks_every;
}

void run_worker(LanguageRuntime& program) {
  static const SystemClock clock;
  auto connected = worker::Connection::connect(clock, program.versions());
  if (!connected.ok()) {
    std::fprintf(stderr, "paceline: this process was started as a worker but cannot reach its agent: %s\n",
                 connected.status().ToString().c_str());
    ::_exit(worker::kLostAgent);
  }
  worker::Connection& connection = **connected;
  const RoleRow& role = role_of(connection.welcome());
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  torch::set_num_threads(static_cast<int>(connection.welcome().threads));
  end_process(program, connection, role.live(program, connection));
}

}  // namespace paceline::train
