#include "paceline/storage/objects/lease.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/thread.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/objects/claims_internal.h"

namespace paceline::storage {

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
      const auto content = read_whole(*run, file.name);
      if (content.status().IsKeyError()) return look();
      ARROW_RETURN_NOT_OK(content);
      if (decode_claim(*content).asks) continue;  // it gives way, or has looked after this driver's next renewal
      lose("the run was taken over by " + holder_in(*content) + ", because this driver had not renewed its lease in " +
           run->location(name) + " in time");
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
    return write_claim(*run, name, claim);
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
  arrow::Status copy(const std::string& from, const std::string& to) override {
    ARROW_RETURN_NOT_OK(check_(to, false));
    return run_->copy(from, to);
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
  ARROW_ASSIGN_OR_RAISE(const Claims dead, watch_claims(*run, own.claim, options));
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
  state->name = new_claim_name(state->generation);
  ARROW_RETURN_NOT_OK(remember_claim(memory, state->name));
  ARROW_ASSIGN_OR_RAISE(const auto begun, contend(*state->run, state->name, state->claim, dead, state->options));
  state->looked = state->renewed = begun.time_since_epoch().count();
  for (const auto& [name, content] : dead) ARROW_RETURN_NOT_OK(state->run->remove(name));
  return std::unique_ptr<Lease>(new Lease(std::move(state)));
}

}  // namespace paceline::storage
