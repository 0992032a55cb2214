#include "paceline/storage/objects/claims_internal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <random>
#include <thread>

#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

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

arrow::Status held_by(const Storage& run, const std::string& content) {
  return arrow::Status::AlreadyExists("the run in ", run.location(""), " is held by ", holder_in(content),
                                      "; wait until it has ended, stop it there with `paceline stop`, or give this run "
                                      "another name");
}

struct Rival {
  std::string name;
  std::string content;
  bool asks = false;
};

// Of those claims that are neither `name` nor as the dead were: one that has the run, else the first that asks.
std::optional<Rival> strongest_rival(const Claims& claims, const std::string& name, const Claims& dead) {
  std::optional<Rival> strongest;
  for (const auto& [other, content] : claims) {
    const auto known = dead.find(other);
    if (other == name || (known != dead.end() && known->second == content)) continue;
    const bool asks = decode_claim(content).asks;
    if (!strongest || !asks) strongest = {.name = other, .content = content, .asks = asks};
    if (!asks) break;
  }
  return strongest;
}

}  // namespace

BootClock::time_point BootClock::now() {
  timespec since_boot{};
  ::clock_gettime(CLOCK_BOOTTIME, &since_boot);
  return time_point(std::chrono::seconds(since_boot.tv_sec) + std::chrono::nanoseconds(since_boot.tv_nsec));
}

std::string new_claim_name(int64_t generation) {
  std::random_device random;
  char text[40];
  std::snprintf(text, sizeof text, "/%06lld_%08x%08x", static_cast<long long>(generation), random(), random());
  return run_layout::kClaims + std::string(text);
}

int64_t generation_of(const std::string& claim) {
  constexpr int64_t kLast = 1'000'000'000'000;  // there is always a next one, whatever the name of an object says
  const int64_t number = std::strtoll(claim.c_str() + std::string(run_layout::kClaims).size() + 1, nullptr, 10);
  return std::clamp(number, int64_t{0}, kLast);
}

bool is_last(const Claims& claims, const std::string& claim) {
  return claims.contains(claim) && std::ranges::none_of(claims, [&](const auto& other) {
           return other.first != claim && generation_of(other.first) >= generation_of(claim);
         });
}

arrow::Status write_claim(Storage& run, const std::string& name, const LeaseClaim& claim) {
  return run.write(name, encode_json(claim) + "\n");
}

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

// A slow storage answers with what was true when it was asked, at the earliest: silence is counted from the end of the
// first reading to the beginning of the last.
arrow::Result<Claims> watch_claims(const Storage& run, const std::string& own, const LeaseOptions& options) {
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

namespace {

// A claim asks first, and says that the run is its driver's when no other is there that does, nor one that asks under a
// lower name: that one goes before. For one under a higher name, which may have looked before this one wrote, it waits
// until it has given way, or has the run. Who writes looks afterwards, so of two that ask one sees the other; and one
// of the dead that rises is seen after the last writing, or sees that itself.
arrow::Result<BootClock::time_point> ask(Storage& run, const std::string& name, LeaseClaim& claim, const Claims& dead,
                                         const LeaseOptions& options) {
  const auto begun = BootClock::now();
  claim.asks = true;
  ARROW_RETURN_NOT_OK(write_claim(run, name, claim));
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const Claims claims, read_claims(run));
    const auto rival = strongest_rival(claims, name, dead);
    if (!rival) break;
    // Before others take this one for dead.
    const bool waits = rival->asks && rival->name > name && BootClock::now() - begun < options.takeover / 2;
    if (!waits) return held_by(run, rival->content);
    std::this_thread::sleep_for(options.look);
  }
  const auto decided = BootClock::now();
  claim.asks = false;
  ARROW_RETURN_NOT_OK(write_claim(run, name, claim));
  ARROW_ASSIGN_OR_RAISE(const Claims claims, read_claims(run));
  const auto rival = strongest_rival(claims, name, dead);
  if (rival && !rival->asks) return held_by(run, rival->content);
  return decided;
}

}  // namespace

arrow::Result<BootClock::time_point> contend(Storage& run, const std::string& name, LeaseClaim& claim,
                                             const Claims& dead, const LeaseOptions& options) {
  auto decided = ask(run, name, claim, dead, options);
  if (!decided.ok()) (void)run.remove(name);
  return decided;
}

RememberedClaim remembered_claim(const std::string& memory) {
  try {
    auto own = decode_json(read_file(memory).ValueOr("")).ValueOr(Json::object()).get<RememberedClaim>();
    if (own.host == host_name()) return own;
  } catch (const Json::exception&) {  // NOLINT(bugprone-empty-catch): as if there were none
  }
  return {};
}

bool is_of_this_system(const RememberedClaim& own) {
  return own.boot == boot_id() && own.pids == pid_namespace();
}

arrow::Status remember_claim(const std::string& memory, const std::string& claim, bool is_abandoned) {
  const RememberedClaim own{
      .claim = claim, .host = host_name(), .boot = boot_id(), .pids = pid_namespace(), .abandoned = is_abandoned};
  return write_atomically(memory, encode_json(own) + "\n");
}

}  // namespace paceline::storage
