#include "paceline/storage/objects/lease.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <random>

#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/thread.h"
#include "paceline/core/record.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::storage {

// What stands in a claim.
#define PACELINE_CLAIM_FIELDS(FIELD)            \
  FIELD(int64_t, pid, 0)                        \
  FIELD(std::string, host, "")                  \
  FIELD(int64_t, beat, 0) /* counts renewals */ \
  FIELD(bool, ended, false)                     \
  FIELD(bool, late_writes, false) /* may_meet_late_writes() */
PACELINE_RECORD(LeaseClaim, PACELINE_CLAIM_FIELDS);

namespace {

// Goes on while the machine sleeps, as others' clocks do.
struct BootClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now() {
    timespec since_boot{};
    ::clock_gettime(CLOCK_BOOTTIME, &since_boot);
    return time_point(std::chrono::seconds(since_boot.tv_sec) + std::chrono::nanoseconds(since_boot.tv_nsec));
  }
};

std::string new_id() {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

std::string claim_name(int64_t generation, const std::string& id) {
  char text[40];
  std::snprintf(text, sizeof text, "%s/%06lld_", run_layout::kClaims, static_cast<long long>(generation));
  return text + id;
}

int64_t generation_of(const std::string& claim) {
  return std::strtoll(claim.c_str() + std::string(run_layout::kClaims).size() + 1, nullptr, 10);
}

using Claims = std::map<std::string, std::string>;  // content by name

// Whether no other claim is of its generation or a later one.
bool is_last(const Claims& claims, const std::string& claim) {
  return claims.contains(claim) && std::ranges::none_of(claims, [&](const auto& other) {
           return other.first != claim && generation_of(other.first) >= generation_of(claim);
         });
}

// One that is deleted meanwhile is left out.
arrow::Result<Claims> read_claims(const Storage& run) {
  Claims claims;
  ARROW_ASSIGN_OR_RAISE(const auto files, run.list(run_layout::kClaims));
  for (const auto& file : files) {
    const auto content = read_whole(run, file.name);
    if (content.status().IsKeyError()) continue;
    ARROW_ASSIGN_OR_RAISE(claims[file.name], content);
  }
  return claims;
}

// An empty one for what cannot be read.
LeaseClaim decode_claim(const std::string& content) {
  try {
    return decode_json(content).ValueOr(Json::object()).get<LeaseClaim>();
  } catch (const Json::exception&) {
    return {};
  }
}

std::string holder_in(const std::string& content) {
  const LeaseClaim claim = decode_claim(content);
  if (claim.pid == 0) return "another driver";
  return "process " + std::to_string(claim.pid) + " on host " + (claim.host.empty() ? "(unknown)" : claim.host);
}

// The claim that this machine's last driver in the working folder had.
#define PACELINE_REMEMBERED_CLAIM_FIELDS(FIELD) \
  FIELD(std::string, claim, "")                 \
  FIELD(std::string, host, "")                  \
  FIELD(std::string, boot, "")                  \
  FIELD(std::string, pids, "")                  \
  FIELD(bool, abandoned, false) /* it has left requests behind */
PACELINE_RECORD(RememberedClaim, PACELINE_REMEMBERED_CLAIM_FIELDS);

// An empty one where nothing is known, or the folder is another machine's.
RememberedClaim remembered_claim(const std::string& memory) {
  try {
    auto own = decode_json(read_file(memory).ValueOr("")).ValueOr(Json::object()).get<RememberedClaim>();
    if (own.host == host_name()) return own;
  } catch (const Json::exception&) {  // NOLINT(bugprone-empty-catch): as if there were none
  }
  return {};
}

// Whether the lock says that the driver which remembered it is dead. A machine that was started again may have
// another's address; containers of one machine may have one name, and each a lock of its own.
bool is_of_this_system(const RememberedClaim& own) {
  return own.boot == boot_id() && own.pids == pid_namespace();
}

arrow::Status remember_claim(const std::string& memory, const std::string& claim, bool is_abandoned = false) {
  const RememberedClaim own{
      .claim = claim, .host = host_name(), .boot = boot_id(), .pids = pid_namespace(), .abandoned = is_abandoned};
  return write_atomically(memory, encode_json(own) + "\n");
}

arrow::Status held_by(const Storage& run, const std::string& content) {
  return arrow::Status::AlreadyExists("the run in ", run.location(""), " is held by ", holder_in(content),
                                      "; wait until it has ended, stop it there with `paceline stop`, or give this run "
                                      "another name");
}

// Waits until all claims but `own` are dead; gives these with their contents. AlreadyExists when one is alive. A slow
// storage answers with what was true when it was asked, at the earliest: silence is counted from the end of the first
// reading to the beginning of the last.
arrow::Result<Claims> watch(const Storage& run, const std::string& own, const LeaseOptions& options) {
  struct Seen {
    std::string content;
    BootClock::time_point since;
  };
  std::map<std::string, Seen> seen;
  bool noted = false;
  while (true) {
    const auto asked = BootClock::now();
    ARROW_ASSIGN_OR_RAISE(Claims claims, read_claims(run));
    const auto answered = BootClock::now();
    bool all_dead = true;
    for (const auto& [claim, content] : claims) {
      const auto [known, is_new] = seen.try_emplace(claim, Seen{content, answered});
      if (known->second.content != content) return held_by(run, content);
      if (claim == own || decode_claim(content).ended || asked - known->second.since >= options.takeover) continue;
      all_dead = false;
      if (noted) continue;
      noted = true;
      options.note("the run was held by " + holder_in(content) + "; waiting up to " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options.takeover).count()) +
                   " s to see whether that lives");
    }
    if (all_dead) return claims;
    std::this_thread::sleep_for(options.look);
  }
}

}  // namespace

struct Lease::State {
  std::shared_ptr<Storage> run;
  LeaseOptions options;
  std::string memory;
  std::string name;  // of the claim
  int64_t generation = 1;
  std::optional<bool> was_held_last_here;
  LeaseClaim claim;
  std::atomic<BootClock::rep> renewed{0};  // when the last renewal that succeeded began
  std::atomic<BootClock::rep> looked{0};   // when the last look that found no other driver began
  std::atomic<bool> lost{false};
  std::mutex renewal;  // one at a time, on whatever thread
  std::mutex mutex;
  std::condition_variable changed;
  std::string why_lost;
  bool ending = false;

  static BootClock::duration age(const std::atomic<BootClock::rep>& since) {
    return BootClock::now() - BootClock::time_point(BootClock::duration(since.load()));
  }
  bool is_held() const { return !lost && age(renewed) < options.takeover * 5 / 6; }

  std::string lost_because() {
    const std::lock_guard lock(mutex);
    return why_lost.empty() ? "this driver has given its lease up" : why_lost;
  }

  void lose(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (lost.exchange(true)) return;
    why_lost = why;
    changed.notify_all();
  }

  // Whether the claim is there and no other driver has come since it was written; else the lease is lost.
  arrow::Status look() {
    const auto begun = BootClock::now();
    ARROW_ASSIGN_OR_RAISE(const auto claims, run->list(run_layout::kClaims));
    bool is_there = false;
    for (const FileSize& file : claims) {
      is_there |= file.name == name;
      if (file.name == name || generation_of(file.name) < generation) continue;
      lose("the run was taken over by " + holder_in(read_whole(*run, file.name).ValueOr("")) +
           ", because this driver had not renewed its lease in " + run->location(name) + " in time");
    }
    // A listing may miss what is replaced at that moment.
    if (!is_there && read_whole(*run, name).status().IsKeyError()) {
      lose("this driver's lease, " + run->location(name) +
           ", was deleted, and so the run, or another driver has it now");
    }
    if (!lost) looked = begun.time_since_epoch().count();
    return arrow::Status::OK();
  }

  arrow::Status write() {
    ++claim.beat;
    return run->write(name, encode_json(claim) + "\n");
  }

  // Looks, for a claim that was deleted must not come back: the run may be another by now. Then writes the claim and
  // looks again: who takes over writes and looks too, so one of both sees the other. The lease is held from when the
  // writing began.
  arrow::Status renew() {
    const std::lock_guard lock(renewal);
    ARROW_RETURN_NOT_OK(look());
    if (lost) return arrow::Status::OK();
    const auto begun = BootClock::now();
    ARROW_RETURN_NOT_OK(write());
    ARROW_RETURN_NOT_OK(look());
    if (!lost) renewed = begun.time_since_epoch().count();
    return arrow::Status::OK();
  }

  // Marks the claim as ended, if it is there and the last.
  void end() {
    const std::lock_guard lock(renewal);
    const arrow::Status looked_now = look();
    if (lost.exchange(true) || !looked_now.ok()) return;  // else it is taken over in time
    claim.ended = true;
    (void)write();
  }

  // Whether a file may be changed now; `looks` says whether to ask the claims for it unless that was just done.
  arrow::Status check(const std::string& file, bool looks) {
    if (looks && !lost && age(looked) >= options.recent) ARROW_RETURN_NOT_OK(look());
    if (is_held()) return arrow::Status::OK();
    const std::string doing = "changing " + run->location(file) + ": ";
    if (lost) return arrow::Status::Cancelled(doing, lost_because());
    return arrow::Status::IOError(doing,
                                  "this driver's lease of the run has expired, because the storage could not be "
                                  "reached for too long");
  }

  void renew_until_end() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, options.renewal, [this] { return ending || lost; })) {
      lock.unlock();
      // A storage that cannot be reached is tried again with the next renewal; is_held() says no meanwhile.
      (void)renew();
      lock.lock();
    }
    if (!lost) return;
    const std::string why = why_lost;
    lock.unlock();
    (void)run->remove(name);
    options.on_lost(why);
  }

  void stop_renewing() {
    const std::lock_guard lock(mutex);
    ending = true;
    changed.notify_all();
  }
};

namespace {

// Changes only while the lease is held.
class GuardedByLease final : public Storage {
 public:
  /// `check`: may say that the file named is not to be changed; it looks at the claims where the flag asks for that.
  using Check = std::function<arrow::Status(const std::string& name, bool looks)>;
  GuardedByLease(std::shared_ptr<Storage> run, Check check) : run_(std::move(run)), check_(std::move(check)) {}

  Location location(const std::string& name) const override { return run_->location(name); }
  arrow::Status write(const std::string& name, std::string_view content) override {
    ARROW_RETURN_NOT_OK(check_(name, true));
    return run_->write(name, content);
  }
  arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) override {
    ARROW_RETURN_NOT_OK(check_(name, false));
    return run_->upload(local_file, name);
  }
  arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override { return run_->open(name); }
  arrow::Result<std::vector<FileSize>> list(const std::string& folder) const override { return run_->list(folder); }
  arrow::Status remove(const std::string& name) override {
    ARROW_RETURN_NOT_OK(check_(name, true));
    return run_->remove(name);
  }
  arrow::Status remove_below(const std::string& folder) override {
    ARROW_RETURN_NOT_OK(check_(folder, true));
    return run_->remove_below(folder);
  }

 private:
  std::shared_ptr<Storage> run_;
  Check check_;
};

}  // namespace

Lease::Lease(std::shared_ptr<State> state)
    : state_(std::move(state)), thread_(start_thread([held = state_] { held->renew_until_end(); })) {}

Lease::~Lease() {
  if (!thread_.joinable()) return;
  state_->stop_renewing();
  thread_.join();
  if (!state_->lost) state_->end();
}

void Lease::abandon() {
  state_->stop_renewing();
  thread_.join();
  state_->lost = true;
  (void)remember_claim(state_->memory, state_->name, /*is_abandoned=*/true);
}

void Lease::end_without_trace() {
  if (may_meet_late_writes()) return;
  state_->stop_renewing();
  thread_.join();
  state_->lost = true;
  (void)state_->run->remove(state_->name);
}

bool Lease::is_held() const {
  return state_->is_held();
}

bool Lease::is_lost() const {
  return state_->lost;
}

int64_t Lease::generation() const {
  return state_->generation;
}

std::optional<bool> Lease::was_held_last_here() const {
  return state_->was_held_last_here;
}

bool Lease::may_meet_late_writes() const {
  return state_->claim.late_writes;
}

std::shared_ptr<Storage> Lease::guard(std::shared_ptr<Storage> storage) const {
  const auto check = [held = state_](const std::string& name, bool looks) { return held->check(name, looks); };
  return std::make_shared<GuardedByLease>(std::move(storage), check);
}

std::function<arrow::Status(bool looks)> Lease::gate() const {
  return [held = state_](bool looks) {
    if (!held->lost && !held->is_held()) ARROW_RETURN_NOT_OK(held->renew());
    return held->check("", looks);
  };
}

arrow::Result<std::optional<bool>> was_held_last_here(const Storage& run, const std::string& memory) {
  ARROW_ASSIGN_OR_RAISE(const auto files, run.list(run_layout::kClaims));
  if (files.empty()) return std::nullopt;
  Claims claims;
  for (const FileSize& file : files) claims.emplace(file.name, "");
  return is_last(claims, remembered_claim(memory).claim);
}

arrow::Result<std::unique_ptr<Lease>> Lease::acquire(std::shared_ptr<Storage> run, const std::string& memory,
                                                     LeaseOptions options) {
  RememberedClaim own = remembered_claim(memory);
  const std::string last_here = own.claim;
  if (!is_of_this_system(own)) own = {};
  ARROW_ASSIGN_OR_RAISE(const Claims dead, watch(*run, own.claim, options));
  auto state = std::make_shared<State>();
  if (!dead.empty()) state->was_held_last_here = is_last(dead, last_here);
  state->claim = {.pid = ::getpid(), .host = host_name()};
  for (const auto& [name, content] : dead) {
    const LeaseClaim claim = decode_claim(content);
    state->generation = std::max(state->generation, generation_of(name) + 1);
    state->claim.late_writes |= claim.late_writes || (!claim.ended && (name != own.claim || own.abandoned));
  }
  state->run = std::move(run);
  state->options = std::move(options);
  state->memory = memory;
  state->name = claim_name(state->generation, new_id());
  ARROW_RETURN_NOT_OK(remember_claim(memory, state->name));
  const auto begun = BootClock::now();
  ARROW_RETURN_NOT_OK(state->write());
  ARROW_ASSIGN_OR_RAISE(Claims others, read_claims(*state->run));
  others.erase(state->name);
  for (const auto& [name, content] : others) {
    const auto known = dead.find(name);
    if (known != dead.end() && known->second == content) continue;
    (void)state->run->remove(state->name);
    return held_by(*state->run, content);
  }
  state->looked = state->renewed = begun.time_since_epoch().count();
  for (const auto& [name, content] : dead) ARROW_RETURN_NOT_OK(state->run->remove(name));
  return std::unique_ptr<Lease>(new Lease(std::move(state)));
}

}  // namespace paceline::storage
