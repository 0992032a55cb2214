#include "paceline/core/run_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace paceline::run_layout {
namespace {

constexpr std::string_view kWorker = "worker_";
constexpr std::string_view kCheckpoint = "checkpoint_";
constexpr std::string_view kGeneration = "_g";

struct Entry {
  std::string_view name;
  bool of_this_machine = false;
};

// Names at the top of the folder that do not begin with ".".
constexpr std::array kTop = {
    Entry{kJournal},
    Entry{kHistory},
    Entry{kLock, true},
    Entry{kControlSocket, true},
    Entry{kData},
    Entry{kLogs},
    Entry{kHangs},
    Entry{kProfiles},
    Entry{kTrackerPositions},
    Entry{kTensorBoard},
    Entry{kWandb},
    Entry{kCsv},
    Entry{kJsonLines},
    Entry{kCollectives},
    Entry{kArtifacts},
    Entry{kRecords},
    Entry{kClaim, true},
    Entry{kLocation, true},
    Entry{kSamples},
};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string of_worker(WorkerId worker, const char* ending) {
  return std::string(kLogs) + "/" + std::string(kWorker) + std::to_string(worker.value) + ending;
}

}  // namespace

std::string worker_log(WorkerId worker) {
  return of_worker(worker, ".log");
}

std::string error_file(WorkerId worker) {
  return of_worker(worker, "_error.json");
}

int64_t worker_of_log(std::string_view file_name) {
  if (!file_name.starts_with(kWorker)) return 0;
  file_name.remove_prefix(kWorker.size());
  int64_t worker = 0;
  const auto [end, problem] = std::from_chars(file_name.data(), file_name.data() + file_name.size(), worker);
  const std::string_view rest = file_name.substr(static_cast<size_t>(end - file_name.data()));
  return problem == std::errc() && rest.starts_with(".log") ? worker : 0;
}

std::string validation_log(int64_t report) {
  return kLogs + ("/validation_" + std::to_string(report) + ".log");
}

std::string data_figures(WorkerId worker) {
  return kData + ("/process_" + std::to_string(worker.value) + ".json");
}

std::string node_samples(std::string_view node) {
  constexpr size_t kMostLetters = 64;
  std::string name;
  for (const char c : node.substr(0, kMostLetters)) {
    const bool fits =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    name += fits ? c : '_';
  }
  if (name != node) {  // two names shall not have one file: FNV-1a
    uint32_t number = 2166136261;
    for (const char c : node) number = (number ^ static_cast<unsigned char>(c)) * 16777619;
    name += "_" + std::to_string(number);
  }
  return kSamples + ("/node_" + name);
}

std::string data_samples(WorkerId worker) {
  return kSamples + ("/data_" + std::to_string(worker.value));
}

std::string collectives_of(Attempt attempt) {
  return kCollectives + ("/" + (kAttemptOfCollectives + std::to_string(attempt.value)));
}

std::string timeline_of(int64_t rank) {
  return "timeline_rank_" + std::to_string(rank) + ".json.gz";
}

std::string data_log(WorkerId worker) {
  return kLogs + ("/data_" + std::to_string(worker.value) + ".log");
}

std::string staging(const std::string& driver) {
  return driver.empty() ? kStaging : std::string(kStaging) + "/" + driver;
}

std::string stages(Attempt attempt, WorkerId worker, const std::string& driver) {
  return staging(driver) + "/attempt_" + std::to_string(attempt.value) + "/" + std::string(kWorker) +
         std::to_string(worker.value);
}

std::string stage(Attempt attempt, WorkerId worker, int64_t report, const std::string& driver) {
  return stages(attempt, worker, driver) + "/report_" + std::to_string(report);
}

std::string checkpoint_folder(int64_t report) {
  char text[40];
  std::snprintf(text, sizeof text, "checkpoint_%06lld", static_cast<long long>(report));
  return text;
}

std::string generation_ending(int64_t generation) {
  return std::string(kGeneration) + std::to_string(generation);
}

bool is_checkpoint_folder(std::string_view name) {
  constexpr size_t kDigits = 6;  // at least
  if (!name.starts_with(kCheckpoint)) return false;
  name.remove_prefix(kCheckpoint.size());
  const size_t ending = name.find(kGeneration);
  const std::string_view number = name.substr(0, ending);
  const bool has_ending = ending != std::string_view::npos;
  return number.size() >= kDigits && is_number(number) &&
         (!has_ending || is_number(name.substr(ending + kGeneration.size())));
}

bool is_reserved(std::string_view name) {
  return name.starts_with('.') || name.starts_with(std::string(kJournal).append(kDamaged)) ||
         std::ranges::find(kTop, name, &Entry::name) != kTop.end();
}

bool is_of_this_machine(std::string_view name) {
  const auto found = std::ranges::find(kTop, name, &Entry::name);
  return name.starts_with('.') || (found != kTop.end() && found->of_this_machine);
}

}  // namespace paceline::run_layout
