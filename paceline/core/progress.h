// The progress word: what a process's training thread is doing and since when, in memory shared with its agent.
//
// The process writes, the agent reads, both without locks or system calls: what it says is the last truth about a
// process that has died, hangs or was stopped. Times are of the monotonic clock, which all processes of a machine
// share: setting the wall clock changes nothing. A sign of progress is whatever the training thread notes here: a
// phase, a step, a report, a collective that is called, waited for or ends. The heartbeats of a worker's control thread
// are none: they only say that the process lives.
#pragma once

#include <arrow/result.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/collective_ledger.h"
#include "paceline/core/group_members.h"
#include "paceline/core/posix/shared_memory.h"
#include "paceline/core/record.h"

namespace paceline {

enum class Phase : uint32_t {
  starting = 0,
  training,
  data,
  backward,
  collective,
  checkpoint,
  report,
  validation,
  ended,
  failing,  // an exception has left the train loop; what and where is being found out
  program,  // a program of the user's runs that shows neither steps nor phases (`paceline run`)
  unknown   // nobody has seen what the process did
};
NLOHMANN_JSON_SERIALIZE_ENUM(Phase, {{Phase::unknown, ""},
                                     {Phase::starting, "starting"},
                                     {Phase::training, "training"},
                                     {Phase::data, "data"},
                                     {Phase::backward, "backward"},
                                     {Phase::collective, "collective"},
                                     {Phase::checkpoint, "checkpoint"},
                                     {Phase::report, "report"},
                                     {Phase::validation, "validation"},
                                     {Phase::ended, "ended"},
                                     {Phase::failing, "failing"},
                                     {Phase::program, "program"}})

/// "training", "checkpoint", …; "" for unknown.
std::string to_string(Phase phase);

// What a process's training thread has spent its time on, in seconds.
#define PACELINE_TIME_SPENT_FIELDS(FIELD)                                                                     \
  FIELD(double, compute_s, 0.0)     /* in the train loop, outside of all that follows */                      \
  FIELD(double, data_s, 0.0)        /* getting batches */                                                     \
  FIELD(double, collectives_s, 0.0) /* waiting in collectives that nothing else was done beside, or nearly */ \
  FIELD(double, checkpoint_s, 0.0)  /* saving, and waiting in report() */                                     \
  FIELD(double, starting_s, 0.0)    /* before the train loop */                                               \
  FIELD(double, other_s, 0.0)       /* validating, failing, ending */
PACELINE_RECORD(TimeSpent, PACELINE_TIME_SPENT_FIELDS);

/// The collectives of one group. Of several groups they come in another order on each rank.
struct GroupWord {
  static constexpr size_t kRecent = 256;

  std::atomic<int64_t> group;  // its number; 0: not shown
  std::atomic<bool> taken;     // or else the group is gone, and its counts stand until another takes the place
  std::atomic<int64_t> begun;  // the last that somebody waits for, or has waited for
  std::atomic<int64_t> done;
  std::array<std::atomic<Collective>, kRecent> recent;  // that were called, by number modulo kRecent
};

/// Layout of the shared memory; a version in front keeps agents and processes of other builds apart.
struct ProgressWord {
  static constexpr size_t kGroups = 32;
  static constexpr size_t kPhases = static_cast<size_t>(Phase::unknown) + 1;

  std::atomic<uint32_t> version;
  std::atomic<uint32_t> phase;
  std::atomic<int64_t> step;
  std::atomic<int64_t> phase_start_ns;
  std::array<std::atomic<int64_t>, kPhases> spent_ns;  // in each phase, but the one that goes on
  std::atomic<int64_t> waited_ns;                      // in collectives, in phases that say otherwise
  std::atomic<int64_t> sign_ns;                        // the last sign of progress
  std::atomic<int64_t> marks;                          // steps and reports
  std::atomic<int64_t> longest_pause_ns;               // between two signs of progress, since the first step or mark
  std::atomic<int64_t> step_start_ns;
  std::atomic<int64_t> step_wait_ns;  // in this step
  std::atomic<int64_t> steps_timed;
  std::atomic<int64_t> step_ns;              // recent average
  std::atomic<int64_t> under_way;            // collectives
  std::atomic<int64_t> collective_start_ns;  // of the last that has begun
  std::atomic<int64_t> launched;             // collectives that a device is to end
  std::atomic<bool> cut_off;                 // the process ends itself: its channel to the agent is gone
  std::array<GroupWord, kGroups> groups;
  GroupMembersTable members;
  CollectiveLedger ledger;
};

/// A collective that was called, for who waits for it and who ends it.
struct CollectiveHandle {
  int64_t position = -1;  // in the ledger; -1: it is not there
  int64_t number = 0;     // in its group, from 1; 0: none was called
};

/// How far a group's collectives have come.
struct GroupReading {
  int64_t group = 0;
  int64_t begun = 0;  // those that somebody waits for, or has waited for; a rank may have called more
  int64_t done = 0;
  Collective oldest = Collective::none;  // the first that has begun and not ended, else the last

  bool operator==(const GroupReading&) const = default;
};

/// What the word says at one moment.
struct ProgressReading {
  Phase phase = Phase::starting;
  int64_t step = 0;
  Duration in_phase{};       // since the phase began
  Duration idle{};           // since the last sign of progress
  int64_t marks = 0;         // steps and reports so far
  Duration longest_pause{};  // between two signs of progress, since the first step or report
  int64_t steps_timed = 0;
  Duration step_time{};              // average of about the last 20 steps, without waiting in collectives
  Duration in_step{};                // since this step began, likewise; 0 before the first
  TimeSpent spent;                   // up to now
  bool cut_off = false;              // the process ended itself, because its channel to the agent was gone
  std::vector<GroupReading> groups;  // by number; those that are gone too, until others take their places
};

class GroupProgress;

/// The writer's side. Thread-safe; it must not outlive `clock`.
class Progress {
 public:
  /// New shared memory that says: starting, step 0, since now.
  static arrow::Result<Progress> create(const Clock& clock);
  void set_phase(Phase phase);
  /// The training thread is in this step now; the time of the one before counts when the number grows.
  /// `is_mark`: a rank that stands still after it is held for hung; not where that may be anything else, such as an
  /// evaluation that shows no steps.
  void set_step(int64_t step, bool is_mark = true);
  /// The steps so far were no marks.
  void withdraw_step_marks();
  void note_report();
  /// The process is about to end itself, because its channel to the agent is gone.
  void note_cut_off();
  /// One more group of all ranks counts its collectives, as the next number: ranks make such groups in the same order.
  /// Of more than ProgressWord::kGroups at once the further ones are signs of progress, but not shown.
  std::shared_ptr<GroupProgress> add_group();
  /// A group of some ranks of the run, or a further one of all that others need not make in the same order. Its
  /// collectives are in the ledger and are signs of progress; it is not among the groups that a reading shows, of which
  /// all ranks have the same. Its ranks are not known before GroupProgress::name().
  std::shared_ptr<GroupProgress> add_group_of_some();
  /// What begins from now on is shown as `collective`, which a user has called and which is made of others; none ends
  /// it.
  void show_collectives_as(Collective collective);
  /// The groups that there are are shown no more, nor what they have called, and the next is number 1.
  void forget_groups();
  Phase phase() const;
  int64_t step() const;
  const SharedMemory& memory() const { return memory_; }

 private:
  friend class GroupProgress;
  Progress(SharedMemory memory, const Clock& clock);
  ProgressWord& word() const;
  int64_t note_sign();
  void note_sign(int64_t now);
  GroupWord* take_group_word();

  SharedMemory memory_;
  const Clock* clock_;
  alignas(std::atomic_ref<Collective>::required_alignment) Collective shown_as_ = Collective::none;
  int64_t groups_ = 0;
  alignas(std::atomic_ref<int64_t>::required_alignment) int64_t step_marks_ = 0;
};

/// Where one group counts: the n-th collectives of all ranks belong together. They are carried out, and end, in the
/// order in which they were called, or nearly so. Thread-safe; must not outlive its Progress.
class GroupProgress {
 public:
  /// `word`: null for a group that is not shown.
  GroupProgress(Progress& progress, GroupWord* word, int64_t number);
  /// The group is gone, and all that it had called has ended: another may take its place.
  ~GroupProgress();
  GroupProgress(const GroupProgress&) = delete;
  GroupProgress& operator=(const GroupProgress&) = delete;

  /// Of a group of some, before its first collective: `ranks` of the run, in the order of the group, and a name that
  /// all of them give it, and no other group of these ranks.
  void name(std::string_view name, std::vector<int64_t> ranks);
  /// Where a group of some of its ranks counts: of those that are at `places` in this one. `name`: as in name().
  std::shared_ptr<GroupProgress> split(std::string_view name, const std::vector<int64_t>& places) const;

  /// This rank calls a collective, which has its number and its record from now on. It does not wait in it yet: where
  /// nothing is carried out before somebody wants it, a rank may call one and then do something else for long.
  CollectiveHandle call_collective(const CollectiveCall& call);
  /// This rank waits in it, or it is carried out meanwhile, and so are those that were called before it. Changes
  /// nothing where somebody waits already, or where it has ended.
  void wait_for_collective(CollectiveHandle handle);
  /// Both at once: of one that is waited for, or carried out, from its call on.
  CollectiveHandle begin_collective(const CollectiveCall& call);
  /// Once for each that was called, whether or not anybody has waited.
  void end_collective(CollectiveHandle handle, bool has_failed = false);

  /// A collective that a device carries out while no thread waits: none of the process's time is spent waiting in it.
  CollectiveHandle launch_collective(const CollectiveCall& call);
  /// Once for each that was launched. `carried_out`: how long the device had it, up to about now; not set where it has
  /// failed, or nobody knows.
  void end_launched(CollectiveHandle handle, std::optional<Duration> carried_out, bool has_failed = false);

 private:
  enum class Wait { later, at_once, on_a_device };

  CollectiveHandle note_call(CollectiveCall call, Wait wait);
  int64_t raise_begun(int64_t number);

  Progress* const progress_;
  GroupWord* const word_;
  int64_t number_;
  std::vector<int64_t> ranks_;           // of the run; empty for all
  std::optional<size_t> members_place_;  // where these stand
  std::atomic<int64_t> called_ = 0;
  std::atomic<int64_t> begun_here_ = 0;  // of a group that is not shown
  std::atomic<int64_t>* const begun_;
};

/// A collective that a thread is in from here to the end of the scope. It has failed if an exception leaves that.
class CollectiveScope {
 public:
  /// `progress`: null where nobody counts.
  CollectiveScope(std::shared_ptr<GroupProgress> progress, const CollectiveCall& call);
  ~CollectiveScope();
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  const std::shared_ptr<GroupProgress> progress_;
  const int exceptions_;
  CollectiveHandle handle_;
};

/// The reader's side, in another process. It keeps working after the writer has died.
class ProgressReader {
 public:
  /// Maps the memory behind the descriptor that came with Joined. Invalid when it is too small or of another version.
  static arrow::Result<ProgressReader> open(Descriptor memory);
  /// `monotonic` is the clock's monotonic() now.
  ProgressReading read(Duration monotonic) const;
  /// The last collectives, by their order.
  std::vector<CollectiveRecord> collectives() const;
  /// Of groups of some ranks, which they are.
  std::vector<GroupMembers> members() const;

 private:
  explicit ProgressReader(SharedMemory memory);

  SharedMemory memory_;
};

}  // namespace paceline
