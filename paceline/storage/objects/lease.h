// Lease: one driver per run on an object store, which has no locks.
//
// Each driver has a claim, the object `.lease/GENERATION_ID`, which it writes anew every `renewal`. A driver that finds
// others' claims watches them: one that changes is alive, and the newcomer gives way; one that has not changed for
// `takeover`, by the newcomer's own clock, is dead. Then it writes a claim of the next generation, looks once more, and
// gives way if another has come meanwhile or a dead one has risen (two that come at once may both give way; never do
// both stay). A holder that sees a higher generation has lost its lease, and one that could not renew for 5/6 of
// `takeover` changes nothing until it can. Clocks of machines are never compared. Readers need no lease.
// Threading: renews on a thread of its own. Errors: AlreadyExists naming the holder.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
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
  /// Says why it waits, once.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  /// Called on the renewing thread, once, when another driver has taken over.
  std::function<void(const std::string&)> on_lost = [](const std::string&) {};
};

class Lease {
 public:
  /// `memory` is a local file that names this working folder's own claims: one that its driver left when it died is
  /// taken over at once, since the caller holds the folder's lock.
  static arrow::Result<std::unique_ptr<Lease>> acquire(std::shared_ptr<Storage> run, const std::string& memory,
                                                       LeaseOptions options = {});
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  /// Deletes the claim.
  ~Lease();

  /// Whether no other driver can have taken over yet. False while the storage cannot be reached for too long.
  bool is_held() const;
  /// The same storage, except that it refuses changes while the lease is not held. Put it below retries, which may go
  /// on for longer than a lease lasts.
  std::shared_ptr<Storage> guard(std::shared_ptr<Storage> storage) const;

 private:
  struct State;
  explicit Lease(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace paceline::storage
