#include "paceline/stacks/sampled_profile.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace paceline::stacks {
namespace {

// Where a root is missing, so that such stacks do not look like threads' beginnings.
constexpr const char* kCutStack = "[deeper than was copied]";
constexpr const char* kUnknownStack = "[callers unknown]";

constexpr double kWorthTelling = 0.01;  // of the time, for a thread that is not seen

std::string unseen_threads(const std::vector<SampledThread>& threads, double seconds) {
  std::string text;
  for (const SampledThread& thread : threads) {
    if (!thread.blocks_signal || thread.cpu_s < kWorthTelling * seconds) continue;
    char used[64];
    std::snprintf(used, sizeof used, " (%.2f s)", thread.cpu_s);
    text += (text.empty() ? "" : ", ") + thread.name + used;
  }
  return text.empty() ? "" : "not sampled, because they block SIGPROF (with their processor time): " + text;
}

}  // namespace

StackFrames root_first(ThreadStack stack, bool is_cut) {
  if (!stack.problem.empty()) stack.frames.push_back({.function = is_cut ? kCutStack : kUnknownStack});
  std::ranges::reverse(stack.frames);
  return std::move(stack.frames);
}

Profile profile_of(const SampleReader& samples, const std::string& maps, Symbols& symbols) {
  Profile profile{.pid = samples.pid(),
                  .rate = samples.rate(),
                  .seconds = samples.seconds(),
                  .dropped = samples.dropped(),
                  .ways = {"signal"}};
  if (const std::string problem = samples.problem(); !problem.empty()) profile.problems.push_back(problem);
  const std::vector<SampledThread> threads = samples.threads();
  if (const std::string unseen = unseen_threads(threads, profile.seconds); !unseen.empty())
    profile.problems.push_back(unseen);
  if (profile.dropped > 0) {
    profile.problems.push_back(std::to_string(profile.dropped) + " samples had no room and are not counted");
  }
  std::map<int64_t, std::string> names;
  for (const SampledThread& thread : threads) names[thread.tid] = thread.name;

  ProfileBuilder builder(profile);
  Symbols::Stacks stacks(symbols, {.pid = samples.pid(), .maps = maps});
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::optional<Sample> sample = samples.at(i);
    if (!sample) continue;
    const int64_t tid = sample->thread.tid;
    builder.add({.tid = tid, .name = names[tid], .language = kNativeCode},
                root_first(stacks.name(sample->thread), sample->is_cut), sample->count);
  }
  return profile;
}

}  // namespace paceline::stacks
