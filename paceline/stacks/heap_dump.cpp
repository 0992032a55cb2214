#include "paceline/stacks/heap_dump.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace paceline::stacks {
namespace {

constexpr std::string_view kStart = "heap_v2/";
constexpr std::string_view kMappings = "MAPPED_LIBRARIES:\n";
// In the place of a thread's name: jemalloc tells of all threads together.
constexpr const char* kWholeHeap = "heap";

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

template <class Number>
bool take_number(std::string_view& text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// Of "@ 0x7f01 0x7f02": return addresses.
std::vector<uint64_t> addresses_in(std::string_view line) {
  std::vector<uint64_t> addresses;
  while (true) {
    const size_t at = line.find("0x");
    if (at == std::string_view::npos) return addresses;
    line.remove_prefix(at + 2);
    uint64_t address = 0;
    if (take_number(line, address, 16) && address > 0) addresses.push_back(address - 1);
  }
}

// Of "  t*: 106: 55574528 [0: 0]": objects and bytes of all threads that were noted and are still in use.
bool take_counts(std::string_view line, int64_t& objects, int64_t& bytes) {
  constexpr std::string_view kAllThreads = "  t*: ";
  if (!line.starts_with(kAllThreads)) return false;
  line.remove_prefix(kAllThreads.size());
  if (!take_number(line, objects) || !line.starts_with(": ")) return false;
  line.remove_prefix(2);
  return take_number(line, bytes) && objects > 0 && bytes > 0;
}

// An allocation of this size is noted with the probability 1 - exp(-size / rate): small ones stand for others.
int64_t estimate(int64_t objects, int64_t bytes, double rate) {
  const double size = static_cast<double>(bytes) / static_cast<double>(objects);
  const double all = static_cast<double>(bytes) / -std::expm1(-size / rate);
  constexpr double kMost = 9e15;  // JSON's numbers stay exact
  return static_cast<int64_t>(std::min(all, kMost));
}

}  // namespace

bool is_heap_dump(std::string_view text) {
  return text.starts_with(kStart);
}

arrow::Result<HeapDump> parse_heap_dump(std::string_view text) {
  std::string_view first = next_line(text);
  int64_t rate = 0;
  if (first.starts_with(kStart)) first.remove_prefix(kStart.size());
  if (!take_number(first, rate) || rate <= 0) {
    return arrow::Status::Invalid("a heap profile of jemalloc begins with ", kStart, "RATE; got \"",
                                  first.substr(0, 40), "\"");
  }
  HeapDump heap;
  std::vector<uint64_t> addresses;
  while (!text.empty()) {
    if (text.starts_with(kMappings)) {
      heap.maps = text.substr(kMappings.size());
      break;
    }
    const std::string_view line = next_line(text);
    int64_t objects = 0, bytes = 0;
    if (line.starts_with("@")) {
      addresses = addresses_in(line);
    } else if (!addresses.empty() && take_counts(line, objects, bytes)) {
      heap.stacks.push_back(
          {.addresses = std::move(addresses), .bytes = estimate(objects, bytes, static_cast<double>(rate))});
      addresses.clear();
    }
  }
  return heap;
}

Profile profile_of(const HeapDump& heap, pid_t pid, Symbols& symbols) {
  Profile profile{.pid = pid, .unit = kBytes, .ways = {"jemalloc"}};
  ProfileBuilder builder(profile);
  Symbols::Stacks stacks(symbols, {.pid = pid, .maps = heap.maps});
  for (const HeapStack& stack : heap.stacks) {
    StackFrames frames = stacks.name({.addresses = stack.addresses}).frames;
    // What jemalloc does itself to note it.
    const auto first = std::ranges::find_if_not(
        frames, [](const StackFrame& frame) { return frame.module.starts_with("libjemalloc"); });
    frames.erase(frames.begin(), first);
    std::ranges::reverse(frames);
    builder.add({.name = kWholeHeap, .language = kNativeCode}, frames, stack.bytes);
  }
  if (heap.stacks.empty()) profile.problems.emplace_back("jemalloc has noted no allocation that is still in use");
  return profile;
}

}  // namespace paceline::stacks
