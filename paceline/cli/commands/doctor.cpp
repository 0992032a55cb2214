// paceline doctor [--storage-path PATH] [--json]
#include <arrow/config.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "paceline/cli/command.h"
#include "paceline/cli/commands/doctor_checks.h"
#include "paceline/core/config/run_config.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/scheme.h"
#include "paceline/views/known_runs.h"

namespace paceline::cli {
namespace {

namespace fs = std::filesystem;

// What a command prints, "" when it fails. Only words of this file go to the shell.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "re");  // NOLINT(bugprone-command-processor)
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 512> portion{};
  while (const size_t count = std::fread(portion.data(), 1, portion.size(), pipe)) text.append(portion.data(), count);
  if (::pclose(pipe) != 0) return "";
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

std::optional<int> number_in(const std::string& file) {
  std::ifstream stream(file);
  int number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

void find_compiler(Facts& facts) {
  const std::string version = output_of("${CXX:-g++} -dumpfullversion -dumpversion");
  if (version.empty()) return;
  facts.compiler = "g++ " + version;
  int major = 0;
  if (std::from_chars(version.data(), version.data() + version.size(), major).ec == std::errc()) {
    facts.compiler_major = major;
  }
}

void find_gpus(Facts& facts) {
  const GpuQuery query = parse_gpus(
      output_of("nvidia-smi --query-gpu=name,memory.total,memory.free,driver_version --format=csv,noheader,nounits"));
  facts.gpus = query.gpus;
  facts.gpu_driver = query.driver;
  if (!facts.gpus.empty()) return;
  static const std::regex kDevice("nvidia[0-9]+");
  std::error_code error;
  for (fs::directory_iterator entry("/dev", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (std::regex_match(name, kDevice)) facts.gpus.push_back({name});
  }
  std::ifstream driver("/proc/driver/nvidia/version");
  std::string line;
  std::getline(driver, line);
  std::smatch version;
  if (std::regex_search(line, version, std::regex("[0-9]+\\.[0-9.]+"))) facts.gpu_driver = version.str();
}

void find_shared_memory(Facts& facts) {
  struct statvfs status{};
  if (::statvfs("/dev/shm", &status) != 0) return;
  facts.shared_memory_bytes = static_cast<int64_t>(status.f_blocks * status.f_frsize);
  facts.shared_memory_free_bytes = static_cast<int64_t>(status.f_bavail * status.f_frsize);
}

void find_limits(Facts& facts) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    facts.open_files = static_cast<int64_t>(files.rlim_cur);
    facts.open_files_most = static_cast<int64_t>(files.rlim_max);
  }
  facts.ptrace_scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  facts.perf_event_paranoid = number_in("/proc/sys/kernel/perf_event_paranoid");
  timex clock{};
  const int state = ::adjtimex(&clock);
  if (state >= 0) facts.clock_synchronised = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
  facts.cores = std::max(1u, std::thread::hardware_concurrency());
  facts.memory_bytes = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

arrow::Status find_storage(const std::string& storage_path, Facts& facts) {
  facts.storage = storage_path;
  ARROW_ASSIGN_OR_RAISE(facts.storage, storage::resolve_folder(storage_path, fs::current_path().string()));
  return storage::check_writable(facts.storage);
}

arrow::Status find_run_store(Facts& facts) {
  ARROW_ASSIGN_OR_RAISE(facts.run_store, track::user_run_store());
  std::error_code error;
  const bool is_new = !fs::exists(facts.run_store, error);
  ARROW_ASSIGN_OR_RAISE(const auto store, track::RunStore::open(facts.run_store));
  if (is_new) return arrow::Status::OK();
  ARROW_RETURN_NOT_OK(store.check());
  ARROW_ASSIGN_OR_RAISE(const auto runs, store.names());
  facts.run_store += ", " + std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs");
  return arrow::Status::OK();
}

Facts gather(const std::string& storage_path) {
  Facts facts;
  find_compiler(facts);
  facts.torch = output_of("python3 -c 'import importlib.metadata as m; print(m.version(\"torch\"))'");
  facts.arrow = arrow::GetBuildInfo().version_string;
  for (const storage::Scheme& scheme : storage::schemes()) {
    (scheme.is_built_in ? facts.object_stores : facts.missing_object_stores).emplace_back(scheme.service);
  }
  find_gpus(facts);
  find_shared_memory(facts);
  find_limits(facts);
  facts.storage_problem = find_storage(storage_path, facts).message();
  facts.run_store_problem = find_run_store(facts).message();
  return facts;
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string verdict = Json(finding.verdict).get<std::string>();
    text += verdict + std::string(8 - verdict.size(), ' ') + finding.subject +
            std::string(15 - finding.subject.size(), ' ') + finding.text + "\n";
    if (!finding.advice.empty()) text += std::string(23, ' ') + "-> " + finding.advice + "\n";
  }
  return text;
}

Json json_of(const std::vector<Finding>& findings) {
  Json json = Json::array();
  for (const Finding& finding : findings) {
    json.push_back({{"subject", finding.subject},
                    {"verdict", finding.verdict},
                    {"text", finding.text},
                    {"advice", finding.advice}});
  }
  return json;
}

int doctor(const std::string& storage_path, bool as_json) {
  const std::vector<Finding> findings = examine(gather(storage_path));
  print(as_json ? encode_json(json_of(findings)) + "\n" : text_of(findings));
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::broken) return kFailed;
  }
  return kDone;
}

}  // namespace

void add_doctor(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("doctor", "Check this machine's set-up, and say what to do about it");
  command->footer("Example: paceline doctor --storage-path /data/results\nExit code 1: something is broken.");
  const auto storage = std::make_shared<std::string>(RunConfig{}.storage_path);
  command->add_option("--storage-path", *storage, "Storage path to check")
      ->type_name("PATH")
      ->default_str(RunConfig{}.storage_path);
  const auto as_json = add_json(*command);
  command->callback([=, &exit_code] { exit_code = doctor(*storage, *as_json); });
}

}  // namespace paceline::cli
