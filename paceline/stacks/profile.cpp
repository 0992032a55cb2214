#include "paceline/stacks/profile.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

namespace paceline::stacks {
namespace {

std::string key_of(const StackFrame& frame) {
  return frame.function + '\n' + frame.file + '\n' + std::to_string(frame.line) + '\n' + frame.module +
         (frame.inlined ? "\ni" : "");
}

// Without its line: what is one box of a flame graph.
std::string function_text(StackFrame frame) {
  frame.line = 0;
  return to_text(frame);
}

// Frames are separated by semicolons, and the count by a space at the end.
std::string folded_text(std::string text) {
  std::ranges::replace(text, ';', ',');
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string owner_of(const Profile& profile) {
  if (profile.rank >= 0) return "rank " + std::to_string(profile.rank);
  return profile.worker > 0 ? "worker " + std::to_string(profile.worker) : "all ranks";
}

std::string label_of(const ThreadProfile& thread) {
  if (!thread.name.empty()) return thread.name;
  return thread.tid > 0 ? "thread " + std::to_string(thread.tid) : "a thread";
}

bool is_sound(const Profile& profile) {
  constexpr int64_t kMostCounted = int64_t{1} << 53;  // sums stay within bounds, and JSON's numbers exact
  const int64_t frames = std::ssize(profile.frames);
  for (const ThreadProfile& thread : profile.threads) {
    for (const CountedStack& stack : thread.stacks) {
      if (stack.count < 0 || stack.count > kMostCounted) return false;
      if (std::ranges::any_of(stack.frames, [&](int64_t at) { return at < 0 || at >= frames; })) return false;
    }
  }
  return true;
}

// Of a line "thread (31561): MainThread;<module> (spin.py:10);inner (spin.py:4) 107"; nullopt for another.
std::optional<std::pair<ThreadProfile, int64_t>> parse_raw_line(std::string_view line, StackFrames& root_first) {
  constexpr std::string_view kStart = "thread (";
  const size_t count_at = line.rfind(' ');
  if (!line.starts_with(kStart) || count_at == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view text, int64_t& into) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    return error == std::errc() && end == text.data() + text.size();
  };
  int64_t count = 0;
  if (!number(line.substr(count_at + 1), count) || count <= 0) return std::nullopt;
  std::string_view rest = line.substr(0, count_at);
  ThreadProfile thread{.language = kPythonCode};
  const size_t label_end = std::min(rest.find(';'), rest.size());
  std::string_view label = rest.substr(kStart.size(), label_end - kStart.size());
  const size_t closing = label.find(')');
  if (closing == std::string_view::npos) return std::nullopt;
  std::string_view id = label.substr(0, closing);
  if (!number(id, thread.tid)) thread.tid = 0;  // an address where py-spy does not know the system's id
  label.remove_prefix(closing + 1);
  if (label.starts_with(": ")) thread.name = label.substr(2);
  rest.remove_prefix(std::min(label_end + 1, rest.size()));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    StackFrame frame{.function = std::string(text)};
    const size_t place = text.rfind(" (");
    const size_t colon = text.rfind(':');
    if (place != std::string_view::npos && text.ends_with(')') && colon != std::string_view::npos && colon > place &&
        number(text.substr(colon + 1, text.size() - colon - 2), frame.line)) {
      frame.function = text.substr(0, place);
      frame.file = text.substr(place + 2, colon - place - 2);
    }
    root_first.push_back(std::move(frame));
  }
  return std::pair(std::move(thread), count);
}

// Of a stack's functions without their lines, a text.
std::string functions_of(const Profile& profile, const CountedStack& stack) {
  std::string text;
  for (const int64_t at : stack.frames) text += function_text(profile.frames[static_cast<size_t>(at)]) + "\n";
  return text;
}

}  // namespace

ProfileBuilder::ProfileBuilder(Profile& profile) : profile_(profile) {
  for (size_t i = 0; i < profile.frames.size(); ++i) {
    frames_.emplace(key_of(profile.frames[i]), static_cast<int64_t>(i));
  }
  for (size_t thread = 0; thread < profile.threads.size(); ++thread) {
    const CountedStacks& stacks = profile.threads[thread].stacks;
    for (size_t i = 0; i < stacks.size(); ++i) stacks_.emplace(std::pair(thread, stacks[i].frames), i);
  }
}

void ProfileBuilder::add(const ThreadProfile& thread, const StackFrames& root_first, int64_t count) {
  ThreadProfiles& threads = profile_.threads;
  const auto same = std::ranges::find_if(threads, [&](const ThreadProfile& one) {
    return one.tid == thread.tid && one.name == thread.name && one.language == thread.language;
  });
  const auto position = static_cast<size_t>(same - threads.begin());
  if (same == threads.end()) {
    threads.push_back(thread);
    threads.back().stacks.clear();
  }
  std::vector<int64_t> stack;
  for (const StackFrame& frame : root_first) {
    const auto [found, is_new] = frames_.emplace(key_of(frame), std::ssize(profile_.frames));
    if (is_new) profile_.frames.push_back(frame);
    stack.push_back(found->second);
  }
  CountedStacks& stacks = threads[position].stacks;
  const auto [found, is_new] = stacks_.emplace(std::pair(position, stack), stacks.size());
  if (is_new) stacks.push_back({.frames = std::move(stack), .count = 0});
  stacks[found->second].count += count;
}

std::string encode_lines(const Profiles& profiles) {
  std::string lines;
  for (const Profile& profile : profiles) lines += encode_json(profile) + "\n";
  return lines;
}

Profiles decode_profiles(const std::string& lines) {
  Profiles profiles;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const auto json = decode_json(line);
    if (!json.ok() || !json->is_object()) continue;
    try {
      Profile profile = json->get<Profile>();
      if (is_sound(profile)) profiles.push_back(std::move(profile));
    } catch (const Json::exception&) {
      continue;
    }
  }
  return profiles;
}

void add_py_spy(const std::string& text, Profile& profile) {
  ProfileBuilder builder(profile);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    StackFrames root_first;
    const auto parsed = parse_raw_line(line, root_first);
    if (parsed && !root_first.empty()) builder.add(parsed->first, root_first, parsed->second);
  }
}

void add_py_spy_waits(const std::string& of_all, const std::string& of_running, Profile& profile) {
  Profile all, running;
  add_py_spy(of_all, all);
  add_py_spy(of_running, running);
  std::map<int64_t, int64_t> waits;  // by thread, as the profile knows it
  for (const ThreadProfile& thread : profile.threads) {
    for (const CountedStack& stack : thread.stacks) waits[thread.tid] += stack.count;
  }
  ProfileBuilder builder(profile);
  for (const ThreadProfile& thread : all.threads) {
    const auto same = std::ranges::find_if(
        running.threads, [&](const ThreadProfile& one) { return one.tid == thread.tid && one.name == thread.name; });
    std::map<std::string, int64_t> ran;  // by functions: the line moves while it runs
    if (same != running.threads.end()) {
      for (const CountedStack& stack : same->stacks) ran[functions_of(running, stack)] += stack.count;
    }
    std::vector<std::pair<const CountedStack*, int64_t>> left;
    double sum = 0;
    for (const CountedStack& stack : thread.stacks) {
      int64_t& less = ran[functions_of(all, stack)];
      const int64_t taken = std::min(less, stack.count);
      less -= taken;
      left.emplace_back(&stack, stack.count - taken);
      sum += static_cast<double>(stack.count - taken);
    }
    const double most = thread.tid == 0 || waits.empty() ? sum : static_cast<double>(waits[thread.tid]);
    for (const auto& [stack, count] : left) {
      const int64_t share = sum <= most ? count : static_cast<int64_t>(static_cast<double>(count) * most / sum);
      if (share <= 0) continue;
      StackFrames frames;
      for (const int64_t at : stack->frames) frames.push_back(all.frames[static_cast<size_t>(at)]);
      builder.add(thread, frames, share);
    }
  }
}

Profile merged(const Profiles& profiles) {
  Profile all;
  for (const Profile& profile : profiles) {
    all.rate = std::max(all.rate, profile.rate);
    all.seconds = std::max(all.seconds, profile.seconds);
    all.dropped += profile.dropped;
    for (const std::string& way : profile.ways) {
      if (std::ranges::find(all.ways, way) == all.ways.end()) all.ways.push_back(way);
    }
    for (const std::string& problem : profile.problems) all.problems.push_back(owner_of(profile) + ": " + problem);
  }
  ProfileBuilder builder(all);
  for (const Profile& profile : profiles) {
    for (const ThreadProfile& thread : profile.threads) {
      const ThreadProfile known{.name = thread.name, .language = thread.language};
      for (const CountedStack& stack : thread.stacks) {
        StackFrames frames;
        for (const int64_t at : stack.frames) frames.push_back(profile.frames[static_cast<size_t>(at)]);
        builder.add(known, frames, stack.count);
      }
    }
  }
  return all;
}

int64_t count_of(const Profiles& profiles, std::string_view language) {
  int64_t count = 0;
  for (const Profile& profile : profiles) {
    for (const ThreadProfile& thread : profile.threads) {
      if (!language.empty() && thread.language != language) continue;
      for (const CountedStack& stack : thread.stacks) count += stack.count;
    }
  }
  return count;
}

ThreadTime time_of(const Profile& profile, const ThreadProfile& thread) {
  ThreadTime time{.seen_s = thread.seconds > 0 ? thread.seconds : profile.seconds};  // earlier versions have it of all
  for (const CountedStack& stack : thread.stacks) {
    const bool is_ready =
        stack.frames.size() == 1 && profile.frames[static_cast<size_t>(stack.frames[0])].function == kWantsProcessor;
    (is_ready ? time.wanted_processor_s : time.waited_s) += static_cast<double>(stack.count) / profile.rate;
  }
  return time;
}

bool waited_all_the_time(const Profile& profile, const ThreadProfile& thread) {
  constexpr double kAllTheTime = 0.99;
  const ThreadTime time = time_of(profile, thread);
  return thread.tid != profile.pid && time.waited_s >= kAllTheTime * time.seen_s;
}

std::string to_folded(const Profiles& profiles) {
  std::map<std::string, int64_t> lines;
  for (const Profile& profile : profiles) {
    for (const ThreadProfile& thread : profile.threads) {
      const std::string start =
          folded_text(owner_of(profile)) + ";" + folded_text(label_of(thread) + " (" + thread.language + ")");
      for (const CountedStack& stack : thread.stacks) {
        std::string line = start;
        for (const int64_t at : stack.frames) {
          line += ";" + folded_text(function_text(profile.frames[static_cast<size_t>(at)]));
        }
        lines[line] += stack.count;
      }
    }
  }
  std::string text;
  for (const auto& [line, count] : lines) text += line + " " + std::to_string(count) + "\n";
  return text;
}

Json to_speedscope(const Profiles& profiles, const std::string& name) {
  Json frames = Json::array();
  std::map<std::string, int64_t> known;
  const auto position = [&](const StackFrame& frame) {
    const auto [found, is_new] = known.emplace(function_text(frame), std::ssize(known));
    if (!is_new) return found->second;
    Json one = {{"name", found->first}};
    if (!frame.file.empty()) one["file"] = frame.file;
    if (frame.line > 0) one["line"] = frame.line;
    frames.push_back(std::move(one));
    return found->second;
  };
  Json all = Json::array();
  size_t heaviest = 0;
  double most = 0;
  for (const Profile& profile : profiles) {
    const double weight = profile.rate > 0 ? 1 / profile.rate : 1;
    for (const ThreadProfile& thread : profile.threads) {
      Json samples = Json::array();
      Json weights = Json::array();
      double end = 0;
      for (const CountedStack& stack : thread.stacks) {
        Json sample = Json::array();
        for (const int64_t at : stack.frames) sample.push_back(position(profile.frames[static_cast<size_t>(at)]));
        samples.push_back(std::move(sample));
        weights.push_back(static_cast<double>(stack.count) * weight);
        end += static_cast<double>(stack.count) * weight;
      }
      if (end > most) {
        most = end;
        heaviest = all.size();
      }
      all.push_back({{"type", "sampled"},
                     {"name", owner_of(profile) + ", " + label_of(thread) + " (" + thread.language + ")"},
                     {"unit", profile.unit == kBytes ? "bytes"
                              : profile.rate > 0     ? "seconds"
                                                     : "none"},
                     {"startValue", 0},
                     {"endValue", end},
                     {"samples", std::move(samples)},
                     {"weights", std::move(weights)}});
    }
  }
  return {{"$schema", "https://www.speedscope.app/file-format-schema.json"},
          {"name", name},
          {"exporter", "paceline"},
          {"activeProfileIndex", heaviest},
          {"shared", {{"frames", std::move(frames)}}},
          {"profiles", std::move(all)}};
}

std::vector<FunctionShare> function_shares(const Profiles& profiles, std::string_view language) {
  struct Counts {
    int64_t own = 0;
    int64_t total = 0;
    std::map<int64_t, std::tuple<int64_t, int64_t, const StackFrame*>> lines;  // own, total
    std::map<std::string_view, int64_t> calls;                                 // by what it has called there
  };
  std::map<std::string, Counts> functions;
  for (const Profile& profile : profiles) {
    std::vector<std::string_view> names;  // of its frames
    for (const StackFrame& frame : profile.frames) {
      names.push_back(functions.try_emplace(function_text(frame)).first->first);
    }
    for (const ThreadProfile& thread : profile.threads) {
      if (thread.language != language) continue;
      for (const CountedStack& stack : thread.stacks) {
        std::set<std::string_view> seen;  // one that calls itself has the sample once
        std::string_view callee;
        for (auto at = stack.frames.rbegin(); at != stack.frames.rend(); ++at) {
          const auto frame = static_cast<size_t>(*at);
          const std::string_view called = std::exchange(callee, names[frame]);
          if (!seen.insert(names[frame]).second) continue;
          Counts& counts = functions[std::string(names[frame])];
          counts.calls[called] += stack.count;
          auto& [own, total, place] = counts.lines[profile.frames[frame].line];
          place = &profile.frames[frame];
          const bool is_own = at == stack.frames.rbegin();
          counts.total += stack.count;
          total += stack.count;
          counts.own += is_own ? stack.count : 0;
          own += is_own ? stack.count : 0;
        }
      }
    }
  }
  std::vector<FunctionShare> shares;
  for (const auto& [name, counts] : functions) {
    if (counts.total == 0) continue;  // of another language
    const auto most = std::ranges::max_element(counts.lines, {}, [](const auto& line) {
      return std::pair(std::get<0>(line.second), std::get<1>(line.second));
    });
    shares.push_back({.function = to_text(*std::get<2>(most->second)),
                      .own = counts.own,
                      .total = counts.total,
                      .is_way = counts.own == 0 && counts.calls.size() == 1});
  }
  return shares;
}

}  // namespace paceline::stacks
