// What `paceline doctor` concludes from what it found on this machine. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/json.h"

namespace paceline::cli {

/// A GPU. Bytes are 0 where they could not be found out.
struct Gpu {
  std::string name;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;

  bool operator==(const Gpu&) const = default;
};

/// What `nvidia-smi --query-gpu=name,memory.total,memory.free,driver_version --format=csv,noheader,nounits` printed;
/// memory in MiB.
struct GpuQuery {
  std::vector<Gpu> gpus;
  std::string driver;
};
GpuQuery parse_gpus(const std::string& lines);

/// What was found; nullopt or "" where it could not be found out.
struct Facts {
  std::string compiler;  // "g++ 12.2.0"; "" for none
  std::optional<int> compiler_major;
  std::string torch;                               // version of the torch that Python finds, "" for none
  std::string arrow;                               // version that this program was linked with
  std::vector<std::string> object_stores;          // kinds that this Arrow can open
  std::vector<std::string> missing_object_stores;  // and those that it cannot
  std::vector<Gpu> gpus;
  std::string gpu_driver;                      // version of the kernel's driver, "" for none
  std::optional<int64_t> shared_memory_bytes;  // size of /dev/shm
  std::optional<int64_t> shared_memory_free_bytes;
  std::optional<int> ptrace_scope;         // of Yama; nullopt: no Yama, every process of the user may be traced
  std::optional<int> perf_event_paranoid;  // nullopt: the kernel has no perf events
  int64_t open_files = 0;                  // soft limit
  int64_t open_files_most = 0;             // hard limit
  std::optional<bool> clock_synchronised;
  std::string storage;          // the storage path
  std::string storage_problem;  // why it cannot be written, "" when it can
  std::string run_store;
  std::string run_store_problem;  // "" when it is fine, or not made yet
  int64_t cores = 1;
  int64_t memory_bytes = 0;
};

enum class Verdict { fine, note, broken };
NLOHMANN_JSON_SERIALIZE_ENUM(Verdict, {{Verdict::fine, "ok"}, {Verdict::note, "note"}, {Verdict::broken, "broken"}})

struct Finding {
  std::string subject;
  Verdict verdict = Verdict::fine;
  std::string text;
  std::string advice;  // what to do; "" where nothing is to be done

  bool operator==(const Finding&) const = default;
};

/// One finding for each subject, always in the same order.
std::vector<Finding> examine(const Facts& facts);

}  // namespace paceline::cli
