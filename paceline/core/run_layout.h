// The layout of a run: every name that Paceline gives a file or folder of a run, and which of them nobody else may use.
//
// docs: ARCHITECTURE.md, "The run folder is the truth". Paths are relative to the run folder unless a comment says
// otherwise. Pure; a new name gets a constant here and, when it is at the top of the folder, a row of the table in
// run_layout.cpp.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/ids.h"

namespace paceline::run_layout {

/// Every event of the run (run/journal.h).
inline constexpr const char* kJournal = "journal.jsonl";
/// Behind the name of a file that could not be read and was set aside: the journal's, the run store's; a number follows
/// where there is one already ("journal.jsonl.damaged_2", storage/local/durable.h).
inline constexpr const char* kDamaged = ".damaged";
/// Every report's metrics (track/metrics_history.h).
inline constexpr const char* kHistory = "metrics.jsonl";
/// Locked by the driver that holds the run (storage/local/run_lock.h).
inline constexpr const char* kLock = "run.lock";
/// Link to the socket of a live run (controller/control_socket.h).
inline constexpr const char* kControlSocket = "control.sock";
/// What data processes have done (core/data_figures.h).
inline constexpr const char* kData = "data";
/// What nodes and data processes did each second, and more coarsely before (track/sample_files.h).
inline constexpr const char* kSamples = "samples";
/// What the controller, workers and validations write.
inline constexpr const char* kLogs = "logs";
inline constexpr const char* kControllerLog = "logs/controller.log";
/// The last collectives of each rank, a folder per attempt (run/collectives.h).
inline constexpr const char* kCollectives = "collectives";
/// In it, before the attempt's number, and in that folder, before the rank.
inline constexpr const char* kAttemptOfCollectives = "attempt_";
inline constexpr const char* kRankOfCollectives = "rank_";
/// What the ranks of each attempt have spent their time on (run/time_spent.h).
inline constexpr const char* kTimeSpent = "time_spent.json";
/// A folder per hang that was found (docs/diagnosis.md).
inline constexpr const char* kHangs = "hang";
/// In such a folder.
inline constexpr const char* kHangReport = "report.txt";
inline constexpr const char* kHangStacks = "stacks.txt";
inline constexpr const char* kHangVerdict = "hang.json";
inline constexpr const char* kHangStackLines = "stacks.jsonl";
inline constexpr const char* kHangProgress = "progress.json";  // of earlier drivers
/// A folder per profile that was asked for (stacks/profile.h).
inline constexpr const char* kProfiles = "profiles";
/// In such a folder: a line per process, all of them for https://www.speedscope.app, and what the profile is
/// (run/kept_profiles.h).
inline constexpr const char* kProfileLines = "profile.jsonl";
inline constexpr const char* kProfileSpeedscope = "profile.speedscope.json";
inline constexpr const char* kProfileNote = "profile.json";
/// Who puts that beside them keeps them from being removed for the sake of later ones.
inline constexpr const char* kPinnedProfile = "pinned";
/// How far each tracker has come (track/tracker/tracker_feed.h).
inline constexpr const char* kTrackerPositions = "trackers";
/// What the built-in trackers write where TrackerConfig.path does not say otherwise.
inline constexpr const char* kTensorBoard = "tensorboard";
inline constexpr const char* kWandb = "wandb";
inline constexpr const char* kCsv = "metrics.csv";
inline constexpr const char* kJsonLines = "metrics_flat.jsonl";
/// Working directory of Python's workers that want one of their own.
inline constexpr const char* kArtifacts = "artifacts";
/// Files that no checkpoint has yet (checkpoint/stage.h).
inline constexpr const char* kStaging = ".staging";
/// In kStaging, and at the top of a run in an object store (storage/storage_proof.h).
inline constexpr const char* kStorageProof = ".storage_proof";
/// In staging(), with a random ending: checkpoints on their way to their name, and away from it (checkpoint/store.h).
inline constexpr const char* kPublishing = "publish_";
inline constexpr const char* kDeleted = "deleted_";

/// In an object store only: the mirrored run folder. There, and in a folder that machines share (run/folder_lease.h):
/// the claims of drivers.
inline constexpr const char* kRecords = "records";
inline constexpr const char* kClaims = ".lease";

/// In the working folder of a run in an object store only (run/working_folder.h): this machine's claim, where the run
/// is, and the mark of a copy that a reader has made.
inline constexpr const char* kClaim = "lease";
inline constexpr const char* kLocation = "location";
inline constexpr const char* kCopyMark = ".copy";

/// "logs/worker_7.log"; a rotated one has ".1", ".2", … behind that.
std::string worker_log(WorkerId worker);
/// Of a file in the folder of the logs: 7 for "worker_7.log" and "worker_7.log.1", 0 for what is no worker's log.
int64_t worker_of_log(std::string_view file_name);
/// "logs/worker_7_error.json": where a program under `paceline run` notes its exception, as torchrun's do.
std::string error_file(WorkerId worker);
/// "logs/validation_42.log": what the validation of that report wrote.
std::string validation_log(int64_t report);
/// "data/process_7.json": the figures of a data process.
std::string data_figures(WorkerId worker);
/// "samples/node_NAME" and "samples/data_7", before ".10s.jsonl": the samples of a node and of a data process. What of
/// a node's name may not stand in a file's is replaced by a number that follows from the name.
std::string node_samples(std::string_view node);
std::string data_samples(WorkerId worker);
/// "collectives/attempt_2".
std::string collectives_of(Attempt attempt);
/// "timeline_rank_3.json.gz", in the folder of a profile.
std::string timeline_of(int64_t rank);
/// "logs/data_7.log": what that data process wrote.
std::string data_log(WorkerId worker);

/// ".staging/DRIVER": what this driver and its workers have in kStaging. Without `driver`, as in tests, kStaging
/// itself.
std::string staging(const std::string& driver);
/// In it "attempt_2/worker_7": what a worker has staged, and in that "report_42" (checkpoint/stage.h).
std::string stages(Attempt attempt, WorkerId worker, const std::string& driver = "");
std::string stage(Attempt attempt, WorkerId worker, int64_t report, const std::string& driver = "");

/// "checkpoint_000042": the folder of a report's checkpoint whose user has given it no name.
std::string checkpoint_folder(int64_t report);
/// "_g3": in an object store, behind the names of checkpoints that this generation of drivers publishes
/// (run/object_run.h).
std::string generation_ending(int64_t generation);
/// Whether a name is one that reports are given: "checkpoint_" and digits, perhaps with generation_ending() behind.
bool is_checkpoint_folder(std::string_view name);

/// Whether a name at the top of a run's folder, local or in an object store, is Paceline's own: no checkpoint may have
/// it. Names that begin with "." all are.
bool is_reserved(std::string_view name);
/// Whether what has that name at the top of a working folder belongs to this machine and not to the run: it is neither
/// mirrored nor deleted with the records.
bool is_of_this_machine(std::string_view name);

}  // namespace paceline::run_layout
