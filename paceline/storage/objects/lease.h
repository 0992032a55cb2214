// Lease: one driver per run on an object store, which has no locks.
//
// Each driver has a claim, the object `.lease/GENERATION_ID`, which it writes anew every `renewal`. A driver that finds
// others' claims watches them: one that changes is alive, and the newcomer gives way; one that has not changed for
// `takeover`, by the newcomer's own clock, is dead. Then it asks for the run by a claim of the next generation, looks
// once more, and gives way if another has the run meanwhile or a dead one has risen; of newcomers that ask at once one
// gets the run, by the order of their names. A holder that ends leaves its claim, marked as ended, for the highest
// generation must stay to be seen: a driver that was stopped for a time, and its machine's sleep counts, finds a later
// generation and has lost its lease for good; so has one that finds another claim of its own generation, or its own
// claim gone, because the run was deleted and may be another by now: it looks before it writes. One that could not
// renew for 5/6 of `takeover` changes nothing until it can. Clocks of machines are never compared. Readers need no
// lease. What a driver has sent when it is stopped may still arrive after another has taken over: who may have such a
// predecessor (may_meet_late_writes()) gives its files names that the predecessor does not use. Conditional writes
// would do without that; Arrow's file systems have none. Threading: renews on a thread of its own. Errors:
// AlreadyExists naming the holder.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "paceline/core/clock.h"
#include "paceline/storage/storage.h"

namespace paceline::storage {

struct LeaseOptions {
  Duration renewal = std::chrono::seconds(10);
  Duration takeover = std::chrono::seconds(60);
  /// While others' claims are watched, they are read this often.
  Duration look = std::chrono::seconds(1);
  /// Who has looked for other drivers so recently changes a file without another look.
  Duration recent = std::chrono::seconds(1);
  /// Says why it waits, once.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  /// Called on the renewing thread, once, when the lease is lost: another driver has taken over, or the run was
  /// deleted.
  std::function<void(const std::string&)> on_lost = [](const std::string&) {};
};

class Lease {
 public:
  /// `memory` is a local file that names this working folder's own claim: one that its driver left when it died is
  /// taken over at once, since the caller holds the folder's lock, if this machine has not been started again since,
  /// and that driver was in the same container.
  static arrow::Result<std::unique_ptr<Lease>> acquire(std::shared_ptr<Storage> run, const std::string& memory,
                                                       LeaseOptions options = {});
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  /// Marks the claim as ended.
  ~Lease();
  /// Ends without that mark, for a driver that leaves requests behind which may still arrive.
  void abandon();
  /// Deletes the claim, for whoever has deleted the run, unless a driver before it may still live and must find it.
  void end_without_trace();

  /// Whether no other driver can have taken over yet. False while the storage cannot be reached for too long.
  bool is_held() const;
  /// Whether another driver has the run, or had it, as far as this one knows.
  bool is_lost() const;
  /// Generation of the claim: 1 for the run's first driver.
  int64_t generation() const;
  /// Whether the driver before this one worked in the folder of `memory` on this machine, so that what lies there goes
  /// on from what is in the storage; nothing when the storage has no claim of a driver before.
  std::optional<bool> was_held_last_here() const;
  /// Whether this driver, or one before it, took the run over from one that may still live, only stopped or cut off.
  bool may_meet_late_writes() const;
  /// The same storage, except that it refuses changes while the lease is not held: with an IOError that may pass, or,
  /// once it is lost, Cancelled. Before a file is written or deleted it looks whether another driver has come, unless
  /// it did so just now. Put it below retries, which may go on for longer than a lease lasts.
  std::shared_ptr<Storage> guard(std::shared_ptr<Storage> storage) const;
  /// Whether a change is allowed now, for changes that no guard() sees; on any thread, and after the lease has ended,
  /// which refuses them. What has not been renewed for too long is renewed at once. `looks`: as guard() before a file
  /// is written. Errors as guard()'s.
  std::function<arrow::Status(bool looks)> gate() const;

 private:
  struct State;
  explicit Lease(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
  std::thread thread_;
};

/// Lease::was_held_last_here(), for readers, also while a driver here holds the lease.
arrow::Result<std::optional<bool>> was_held_last_here(const Storage& run, const std::string& memory);

}  // namespace paceline::storage
