#include "paceline/cli/commands/profile_summary.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "paceline/cli/table.h"
#include "paceline/core/bytes_text.h"
#include "paceline/stacks/wait_watch.h"

namespace paceline::cli {
namespace {

using stacks::FunctionShare;
using stacks::Profile;
using stacks::Profiles;

constexpr size_t kMostFunctions = 10;
constexpr const char* kLanguages[] = {stacks::kPythonCode, stacks::kNativeCode, stacks::kOperators};

std::string owner_text(const Profile& profile) {
  return profile.rank >= 0 ? "rank " + std::to_string(profile.rank) : "worker " + std::to_string(profile.worker);
}

// "12 samples", "3.4 MiB".
std::string amount_text(int64_t count, const std::string& unit) {
  return unit == stacks::kBytes ? bytes_text(count) : std::to_string(count) + " samples";
}

std::string process_line(const Profile& profile) {
  std::string line = owner_text(profile);
  if (profile.pid > 0) line += ", process " + std::to_string(profile.pid);
  if (!profile.node.empty()) line += " on node " + printable(profile.node);
  if (is_sampled(profile)) {
    char time[64];
    std::snprintf(time, sizeof time, ", %.1f s", profile.seconds);
    if (profile.seconds > 0) line += time;  // a heap is as it is
    std::snprintf(time, sizeof time, " at %.0f Hz", profile.rate);
    if (profile.rate > 0) line += time;
  }
  std::string counts;
  for (const char* language : kLanguages) {
    const bool has = std::ranges::any_of(profile.threads, [&](const auto& one) { return one.language == language; });
    if (!has) continue;
    counts += (counts.empty() ? ": " : ", ") + amount_text(stacks::count_of({profile}, language), profile.unit) +
              " of " + language;
  }
  if (counts.empty() && is_sampled(profile) && profile.rate > 0) counts = ": no samples, it used no processor time";
  line += counts + "\n";
  for (const std::string& problem : profile.problems) line += "  " + printable(problem) + "\n";
  return line;
}

// What a thread did with its time; counts of the profile's rate.
std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", std::max(seconds, 0.0));
  return text;
}

std::string thread_table(const Profile& profile) {
  Table table({"  THREAD", "WAITS", "WANTS PROCESSOR", "RUNS"});
  int64_t shown = 0, idle = 0;
  for (const stacks::ThreadProfile& thread : profile.threads) {
    if (thread.language != stacks::kNativeCode) continue;
    if (stacks::waited_all_the_time(profile, thread)) {
      ++idle;
      continue;
    }
    ++shown;
    const stacks::ThreadTime time = stacks::time_of(profile, thread);
    const std::string place = std::to_string(thread.tid) + (thread.tid == profile.pid ? ", main" : "");
    table.add({"  " + thread.name + " (" + place + ")", seconds_text(time.waited_s),
               seconds_text(time.wanted_processor_s),
               seconds_text(time.seen_s - time.waited_s - time.wanted_processor_s)});
  }
  std::string text = shown > 0 ? table.text(output_columns()) : "";
  if (idle > 0) text += "  " + std::to_string(idle) + (idle > 1 ? " threads" : " thread") + " waited all the time\n";
  return text;
}

std::string percent_text(int64_t count, int64_t all) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * static_cast<double>(count) / static_cast<double>(all));
  return text;
}

// The functions with most of what `by` counts, without those that have none of it, and those that only lead to another.
std::vector<FunctionShare> functions_with_most(std::vector<FunctionShare> shares, int64_t FunctionShare::* by) {
  std::erase_if(shares, [by](const FunctionShare& one) { return one.*by == 0 || one.is_way; });
  std::ranges::stable_sort(shares, std::ranges::greater(), by);
  if (shares.size() > kMostFunctions) shares.resize(kMostFunctions);
  return shares;
}

std::string function_table(const std::vector<FunctionShare>& shares, int64_t all) {
  Table table({"OWN", "TOTAL", "FUNCTION"});
  for (const FunctionShare& share : shares) {
    table.add({percent_text(share.own, all), percent_text(share.total, all), share.function});
  }
  return table.text(output_columns());
}

Json functions_of(const std::vector<FunctionShare>& shares, int64_t all) {
  Json functions = Json::array();
  for (const FunctionShare& share : shares) {
    functions.push_back({{"function", share.function},
                         {"own", static_cast<double>(share.own) / static_cast<double>(all)},
                         {"total", static_cast<double>(share.total) / static_cast<double>(all)}});
  }
  return functions;
}

}  // namespace

bool is_sampled(const Profile& profile) {
  return !profile.ways.empty();
}

std::string first_problem(const Profiles& profiles) {
  for (const Profile& profile : profiles) {
    if (!profile.problems.empty()) return owner_text(profile) + ": " + profile.problems.front();
  }
  return "";
}

namespace {

std::string function_tables(const Profiles& profiles, const std::string& what) {
  std::string text;
  for (const char* language : kLanguages) {
    const int64_t all = stacks::count_of(profiles, language);
    if (all == 0) continue;
    const auto shares = stacks::function_shares(profiles, language);
    const std::string& unit = profiles.front().unit;
    const std::string of = std::string(language) + ", of " + amount_text(all, unit);
    text += "\nmost own " + what + " in " + of + "\n" +
            function_table(functions_with_most(shares, &FunctionShare::own), all);
    text += "\nmost " + what + " with what they call in " + of + "\n" +
            function_table(functions_with_most(shares, &FunctionShare::total), all);
  }
  return text + "\n";
}

}  // namespace

std::string summary_of(const Profiles& profiles) {
  std::string text;
  for (const Profile& profile : profiles) text += process_line(profile);
  const bool is_memory = !profiles.empty() && profiles.front().unit == stacks::kBytes;
  return text + function_tables(profiles, is_memory ? "memory" : "time");
}

std::string waits_summary_of(const Profiles& profiles) {
  std::string text;
  Profiles busy = profiles;
  for (Profile& profile : busy) {
    text += process_line(profile) + thread_table(profile);
    std::set<int64_t> idle;
    for (const stacks::ThreadProfile& thread : profile.threads) {
      if (thread.language == stacks::kNativeCode && stacks::waited_all_the_time(profile, thread))
        idle.insert(thread.tid);
    }
    std::erase_if(profile.threads, [&](const auto& thread) { return idle.contains(thread.tid); });
  }
  return text + function_tables(busy, "waiting");
}

Json summary_json(const Profiles& profiles, const std::string& folder) {
  Json json = {{"folder", folder}, {"profiles", Json::array()}, {"functions", Json::object()}};
  for (const Profile& profile : profiles) {
    Json one = profile;
    one.erase("frames");
    one.erase("threads");
    one["samples"] = Json::object();
    for (const auto& thread : profile.threads)
      one["samples"][thread.language] = stacks::count_of({profile}, thread.language);
    json["profiles"].push_back(std::move(one));
  }
  for (const char* language : kLanguages) {
    const int64_t all = stacks::count_of(profiles, language);
    if (all == 0) continue;
    const auto shares = stacks::function_shares(profiles, language);
    json["functions"][language] = {{"samples", all},
                                   {"own", functions_of(functions_with_most(shares, &FunctionShare::own), all)},
                                   {"total", functions_of(functions_with_most(shares, &FunctionShare::total), all)}};
  }
  return json;
}

}  // namespace paceline::cli
