// The claims of a run on a storage without locks: what stands in them, and which of several drivers has the run.
// lease.h says what they are for.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <map>
#include <string>

#include "paceline/core/record.h"
#include "paceline/storage/objects/lease.h"

namespace paceline::storage {

// What stands in a claim.
#define PACELINE_CLAIM_FIELDS(FIELD)                                                              \
  FIELD(int64_t, pid, 0)                                                                          \
  FIELD(std::string, host, "")                                                                    \
  FIELD(int64_t, beat, 0)  /* counts renewals */                                                  \
  FIELD(bool, asks, false) /* its driver does not have the run yet, and is finding out whether */ \
  FIELD(bool, ended, false)                                                                       \
  FIELD(bool, late_writes, false) /* may_meet_late_writes() */
PACELINE_RECORD(LeaseClaim, PACELINE_CLAIM_FIELDS);

/// Goes on while the machine sleeps, as others' clocks do.
struct BootClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now();
};

using Claims = std::map<std::string, std::string>;  // content by name

std::string new_claim_name(int64_t generation);
int64_t generation_of(const std::string& claim);
/// Whether no other claim is of its generation or a later one.
bool is_last(const Claims& claims, const std::string& claim);
arrow::Status write_claim(Storage& run, const std::string& name, const LeaseClaim& claim);
/// An empty one for what cannot be read.
LeaseClaim decode_claim(const std::string& content);
/// "process 7 on host a".
std::string holder_in(const std::string& content);

/// Waits until all claims but `own` are dead; gives these with their contents. AlreadyExists when one is alive.
arrow::Result<Claims> watch_claims(const Storage& run, const std::string& own, const LeaseOptions& options);

/// Writes `claim` under the new name `name` and finds out whether the run is its driver's; gives when the writing began
/// that made it so. AlreadyExists, and no claim, where another driver has it, or one of the `dead` has risen. Of
/// drivers that contend at once one gets the run.
arrow::Result<BootClock::time_point> contend(Storage& run, const std::string& name, LeaseClaim& claim,
                                             const Claims& dead, const LeaseOptions& options);

// The claim that this machine's last driver in the working folder had.
#define PACELINE_REMEMBERED_CLAIM_FIELDS(FIELD) \
  FIELD(std::string, claim, "")                 \
  FIELD(std::string, host, "")                  \
  FIELD(std::string, boot, "")                  \
  FIELD(std::string, pids, "")                  \
  FIELD(bool, abandoned, false) /* it has left requests behind */
PACELINE_RECORD(RememberedClaim, PACELINE_REMEMBERED_CLAIM_FIELDS);

/// What the file `memory` holds; an empty one where nothing is known, or the folder is another machine's.
RememberedClaim remembered_claim(const std::string& memory);
/// Whether the lock says that the driver which remembered it is dead. A machine that was started again may have
/// another's address; containers of one machine may have one name, and each a lock of its own.
bool is_of_this_system(const RememberedClaim& own);
arrow::Status remember_claim(const std::string& memory, const std::string& claim, bool is_abandoned = false);

}  // namespace paceline::storage
