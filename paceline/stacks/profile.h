// Profile: what the threads of one process spent their time on, as counts of equal stacks, and as people and other
// programs read it.
//
// Pure data and its texts. stacks/sampled_profile.h makes one of samples; controller and agent add whose it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/core/record.h"
#include "paceline/stacks/stack.h"

namespace paceline::stacks {

// So many samples had this stack.
#define PACELINE_COUNTED_STACK_FIELDS(FIELD)                                             \
  FIELD(std::vector<int64_t>, frames, {}) /* positions in Profile::frames, root first */ \
  FIELD(int64_t, count, 0)
PACELINE_RECORD(CountedStack, PACELINE_COUNTED_STACK_FIELDS);
using CountedStacks = std::vector<CountedStack>;

/// Languages of a thread's stacks.
inline constexpr const char* kNativeCode = "C++";
inline constexpr const char* kPythonCode = "Python";
/// Those of LibTorch, each called by the one before.
inline constexpr const char* kOperators = "operators";

/// What counts count.
inline constexpr const char* kSamples = "samples";
inline constexpr const char* kBytes = "bytes";

// One thread's stacks in one language: of a Python program's thread there may be both.
#define PACELINE_THREAD_PROFILE_FIELDS(FIELD)                          \
  FIELD(int64_t, tid, 0)                                               \
  FIELD(std::string, name, "")                                         \
  FIELD(std::string, language, kNativeCode)                            \
  FIELD(double, seconds, 0.0) /* that it was seen, of waits; else 0 */ \
  FIELD(CountedStacks, stacks, {})
PACELINE_RECORD(ThreadProfile, PACELINE_THREAD_PROFILE_FIELDS);
using ThreadProfiles = std::vector<ThreadProfile>;

// One process's.
#define PACELINE_PROFILE_FIELDS(FIELD)                                                                               \
  FIELD(int64_t, worker, 0)                                                                                          \
  FIELD(int64_t, rank, -1) /* -1 before ranks are given, and of several ranks together */                            \
  FIELD(std::string, node, "")                                                                                       \
  FIELD(int64_t, pid, 0)                                                                                             \
  FIELD(double, rate, 0.0) /* a count of 1 stands for 1/rate s: of C++ of processor time */                          \
  FIELD(double, seconds, 0.0)                                                                                        \
  FIELD(std::string, unit, kSamples)            /* or bytes, and then there is no rate */                            \
  FIELD(int64_t, dropped, 0)                    /* counts for which there was no room */                             \
  FIELD(std::vector<std::string>, ways, {})     /* "signal", "ptrace", "py-spy", "LibTorch", "memray", "jemalloc" */ \
  FIELD(std::vector<std::string>, problems, {}) /* what is missing, and why */                                       \
  FIELD(StackFrames, frames, {})                /* each once */                                                      \
  FIELD(ThreadProfiles, threads, {})
PACELINE_RECORD(Profile, PACELINE_PROFILE_FIELDS);
using Profiles = std::vector<Profile>;

/// Adds counts of stacks to a profile's threads, each frame and each stack once. The profile outlives it.
class ProfileBuilder {
 public:
  explicit ProfileBuilder(Profile& profile);
  /// `root_first`: the frames.
  void add(const ThreadProfile& thread, const StackFrames& root_first, int64_t count);

 private:
  Profile& profile_;
  std::map<std::string, int64_t> frames_;
  std::map<std::pair<size_t, std::vector<int64_t>>, size_t> stacks_;  // by thread's position
};

/// One line of JSON for each, as they travel and as they are kept.
std::string encode_lines(const Profiles& profiles);
/// What encode_lines() wrote; a line that is not whole, does not fit or names frames that are not there is left out.
Profiles decode_profiles(const std::string& lines);

/// What py-spy prints with --format raw --threads, added to the profile; lines that do not fit are left out.
void add_py_spy(const std::string& text, Profile& profile);
/// Where Python's threads wait: what py-spy prints of all threads, less what it prints of those that run meanwhile. A
/// thread waits for no longer than the profile says of it already.
void add_py_spy_waits(const std::string& of_all, const std::string& of_running, Profile& profile);

/// One of all: stacks of threads with equal names, in the same language, are added up.
Profile merged(const Profiles& profiles);

/// The samples of the threads of that language, or, with "", of all.
int64_t count_of(const Profiles& profiles, std::string_view language = "");

/// In place of a function, where a thread stands without a processor.
inline constexpr const char* kWantsProcessor = "[wants a processor]";
/// Of a profile of where threads wait.
struct ThreadTime {
  double seen_s = 0;  // the thread was there for so long
  double waited_s = 0;
  double wanted_processor_s = 0;  // it could have gone on, and other threads had the processors
};
ThreadTime time_of(const Profile& profile, const ThreadProfile& thread);
/// Of such a profile: a thread of a pool, or one that serves the run, which had nothing to do. Not a process's first.
bool waited_all_the_time(const Profile& profile, const ThreadProfile& thread);

/// "rank 0;train;main (train.cpp);step (train.cpp) 12": a line for each stack, as flame-graph programs read them. Lines
/// of one function are one frame.
std::string to_folded(const Profiles& profiles);
/// For speedscope (https://www.speedscope.app): a sampled profile for each rank, thread and language; `name` is the
/// whole's. Lines of one function are one frame, whose line is the first that was seen. It opens with the thread that
/// has most.
Json to_speedscope(const Profiles& profiles, const std::string& name);

/// How much of the samples a function has.
struct FunctionShare {
  std::string function;  // as to_text(StackFrame), with the line in which most of its samples are
  int64_t own = 0;       // in which it runs itself
  int64_t total = 0;     // with what it has called
  bool is_way = false;   // it does nothing but call one other, always the same
};
/// Of all threads of that language together, in no order.
std::vector<FunctionShare> function_shares(const Profiles& profiles, std::string_view language);

}  // namespace paceline::stacks
