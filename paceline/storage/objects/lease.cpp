#include "paceline/storage/objects/lease.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <random>

#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/thread.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/location.h"

namespace paceline::storage {
namespace {

using Steady = std::chrono::steady_clock;

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

std::string holder_in(const std::string& content) {
  const auto json = decode_json(content);
  if (!json.ok() || !json->is_object()) return "another driver";
  return "process " + json->value("pid", Json()).dump() + " on host " + json->value("host", std::string("(unknown)"));
}

arrow::Status held_by(const Storage& run, const std::string& content) {
  const std::string location = without_secrets(run.location(""));
  return arrow::Status::AlreadyExists("the run in ", location, " is held by ", holder_in(content),
                                      "; wait until it has ended, stop it there with `paceline stop`, or give this run "
                                      "another name");
}

// Waits until all claims but `own` are dead; gives these with their contents. AlreadyExists when one is alive. A slow
// storage answers with what was true when it was asked, at the earliest: silence is counted from the end of the first
// reading to the beginning of the last.
arrow::Result<Claims> watch(const Storage& run, const std::string& own, const LeaseOptions& options) {
  struct Seen {
    std::string content;
    Steady::time_point since;
  };
  std::map<std::string, Seen> seen;
  bool noted = false;
  while (true) {
    const auto asked = Steady::now();
    ARROW_ASSIGN_OR_RAISE(Claims claims, read_claims(run));
    const auto answered = Steady::now();
    bool all_dead = true;
    for (const auto& [claim, content] : claims) {
      const auto [known, is_new] = seen.try_emplace(claim, Seen{content, answered});
      if (known->second.content != content) return held_by(run, content);
      if (claim == own || asked - known->second.since >= options.takeover) continue;
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
  std::string claim;
  int64_t generation = 1;
  int64_t beat = 0;
  std::atomic<Steady::rep> renewed{0};  // when the last renewal that succeeded began
  std::atomic<bool> lost{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;

  bool is_held() const {
    const auto age = Steady::now() - Steady::time_point(Steady::duration(renewed.load()));
    return !lost && age < options.takeover * 5 / 6;
  }

  // Writes the claim, then looks: who takes over writes and looks too, so one of both sees the other. Gives the claims
  // of others. The lease is held from when the writing began.
  arrow::Result<Claims> renew() {
    const auto begun = Steady::now();
    const Json content = {{"pid", ::getpid()}, {"host", host_name()}, {"beat", ++beat}};
    ARROW_RETURN_NOT_OK(run->write(claim, encode_json(content) + "\n"));
    ARROW_ASSIGN_OR_RAISE(Claims others, read_claims(*run));
    others.erase(claim);
    const auto is_later = [this](const auto& other) { return generation_of(other.first) > generation; };
    if (std::ranges::none_of(others, is_later)) renewed = begun.time_since_epoch().count();
    return others;
  }

  void renew_until_end() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, options.renewal, [this] { return ending; })) {
      lock.unlock();
      // A storage that cannot be reached is tried again with the next renewal; is_held() says no meanwhile.
      const Claims others = renew().ValueOr(Claims{});
      for (const auto& [name, content] : others) {
        if (generation_of(name) <= generation) continue;
        lost = true;
        (void)run->remove(claim);
        options.on_lost("the run was taken over by " + holder_in(content) +
                        ", because this driver had not renewed its lease in " + without_secrets(run->location(claim)) +
                        " in time");
        return;
      }
      lock.lock();
    }
  }
};

namespace {

// Changes only while the lease is held.
class GuardedByLease final : public Storage {
 public:
  GuardedByLease(std::shared_ptr<Storage> run, std::function<bool()> is_held)
      : run_(std::move(run)), is_held_(std::move(is_held)) {}

  std::string location(const std::string& name) const override { return run_->location(name); }
  arrow::Status write(const std::string& name, std::string_view content) override {
    ARROW_RETURN_NOT_OK(check(name));
    return run_->write(name, content);
  }
  arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) override {
    ARROW_RETURN_NOT_OK(check(name));
    return run_->upload(local_file, name);
  }
  arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override { return run_->open(name); }
  arrow::Result<std::vector<FileSize>> list(const std::string& folder) const override { return run_->list(folder); }
  arrow::Status remove(const std::string& name) override {
    ARROW_RETURN_NOT_OK(check(name));
    return run_->remove(name);
  }
  arrow::Status remove_below(const std::string& folder) override {
    ARROW_RETURN_NOT_OK(check(folder));
    return run_->remove_below(folder);
  }

 private:
  arrow::Status check(const std::string& name) const {
    if (is_held_()) return arrow::Status::OK();
    return arrow::Status::IOError("changing ", without_secrets(run_->location(name)),
                                  ": this driver's lease of the run has ended, because the storage could not be "
                                  "reached for too long or another driver has taken over");
  }
  std::shared_ptr<Storage> run_;
  std::function<bool()> is_held_;
};

}  // namespace

Lease::Lease(std::shared_ptr<State> state)
    : state_(std::move(state)), thread_(start_thread([held = state_] { held->renew_until_end(); })) {}

Lease::~Lease() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  thread_.join();
  state_->lost = true;
  (void)state_->run->remove(state_->claim);  // else it is taken over in time
}

bool Lease::is_held() const {
  return state_->is_held();
}

std::shared_ptr<Storage> Lease::guard(std::shared_ptr<Storage> storage) const {
  return std::make_shared<GuardedByLease>(std::move(storage), [held = state_] { return held->is_held(); });
}

arrow::Result<std::unique_ptr<Lease>> Lease::acquire(std::shared_ptr<Storage> run, const std::string& memory,
                                                     LeaseOptions options) {
  ARROW_ASSIGN_OR_RAISE(const Claims dead, watch(*run, read_file(memory).ValueOr(""), options));
  auto state = std::make_shared<State>();
  for (const auto& [claim, content] : dead) state->generation = std::max(state->generation, generation_of(claim) + 1);
  state->run = std::move(run);
  state->options = std::move(options);
  state->claim = claim_name(state->generation, new_id());
  ARROW_RETURN_NOT_OK(write_atomically(memory, state->claim));
  ARROW_ASSIGN_OR_RAISE(const Claims others, state->renew());
  for (const auto& [claim, content] : others) {
    const auto known = dead.find(claim);
    if (known != dead.end() && known->second == content) continue;
    (void)state->run->remove(state->claim);
    return held_by(*state->run, content);
  }
  for (const auto& [claim, content] : dead) ARROW_RETURN_NOT_OK(state->run->remove(claim));
  return std::unique_ptr<Lease>(new Lease(std::move(state)));
}

}  // namespace paceline::storage
