// What a node, its GPUs and a run's processes on it do, as an agent finds it each second (agent/sampling/), and as the
// run folder keeps it (track/sample_files.h).
//
// What cannot be found out is absent, not zero. Names end with their unit: "_ratio" of 1, "_per_s", "_total" for what
// only grows. The names of GPUs' and processes' numbers there are these, behind "gpu/UUID/" and "process/7/".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline {

using MaybeNumber = std::optional<double>;

#define PACELINE_GPU_SAMPLE_FIELDS(FIELD)                                                            \
  FIELD(std::string, uuid, "")                                                                       \
  FIELD(int64_t, index, 0) /* as NVIDIA's driver counts */                                           \
  FIELD(std::string, name, "")                                                                       \
  FIELD(MaybeNumber, utilization_ratio, {}) /* of the last second, with a kernel at work */          \
  FIELD(MaybeNumber, memory_used_bytes, {})                                                          \
  FIELD(MaybeNumber, memory_total_bytes, {})                                                         \
  FIELD(MaybeNumber, power_watts, {})                                                                \
  FIELD(MaybeNumber, temperature_celsius, {})                                                        \
  FIELD(MaybeNumber, throttled, {})        /* 1 while heat or power holds its clocks down, else 0 */ \
  FIELD(MaybeNumber, ecc_errors_total, {}) /* that could not be corrected, since the driver began */
PACELINE_RECORD(GpuSample, PACELINE_GPU_SAMPLE_FIELDS);

// One process, with all that it has started.
#define PACELINE_PROCESS_SAMPLE_FIELDS(FIELD)                                                               \
  FIELD(int64_t, worker, 0)    /* its id; 0: the agent itself, inside the driver or a program of its own */ \
  FIELD(std::string, role, "") /* of rpc/role.h, or "agent" */                                              \
  FIELD(int64_t, pid, 0)                                                                                    \
  FIELD(std::string, state, "")     /* "running", "asleep", "blocked" (by a disk), "stopped" or "ended" */  \
  FIELD(MaybeNumber, cpu_cores, {}) /* that it kept busy */                                                 \
  FIELD(MaybeNumber, rss_bytes, {})                                                                         \
  FIELD(MaybeNumber, threads, {})                                                                           \
  FIELD(MaybeNumber, descriptors, {})      /* open, of the process itself */                                \
  FIELD(MaybeNumber, read_bytes_per_s, {}) /* from disks, of the process itself */                          \
  FIELD(MaybeNumber, written_bytes_per_s, {})                                                               \
  FIELD(MaybeNumber, gpu_memory_bytes, {})                                                                  \
  FIELD(MaybeNumber, cpu_seconds_total, {})                                                                 \
  FIELD(MaybeNumber, step_s, {}) /* average of a worker's last steps, without waiting in collectives */
PACELINE_RECORD(ProcessSample, PACELINE_PROCESS_SAMPLE_FIELDS);

#define PACELINE_NODE_SAMPLE_FIELDS(FIELD)                                                                      \
  FIELD(double, time, 0.0)          /* seconds since the Unix epoch */                                          \
  FIELD(MaybeNumber, cpu_ratio, {}) /* of all cores' time, spent working */                                     \
  FIELD(MaybeNumber, cores, {})                                                                                 \
  FIELD(MaybeNumber, load_1m, {})                                                                               \
  FIELD(MaybeNumber, memory_used_bytes, {}) /* total less available */                                          \
  FIELD(MaybeNumber, memory_available_bytes, {})                                                                \
  FIELD(MaybeNumber, memory_total_bytes, {})                                                                    \
  FIELD(MaybeNumber, memory_shared_bytes, {})                                                                   \
  FIELD(MaybeNumber, swap_used_bytes, {})                                                                       \
  FIELD(MaybeNumber, swap_total_bytes, {})                                                                      \
  FIELD(MaybeNumber, group_memory_used_bytes, {}) /* of the control group that limits the agent, if one does */ \
  FIELD(MaybeNumber, group_memory_limit_bytes, {})                                                              \
  FIELD(MaybeNumber, disk_free_bytes, {}) /* where the run's folder is, or the root */                          \
  FIELD(MaybeNumber, disk_size_bytes, {})                                                                       \
  FIELD(MaybeNumber, disk_read_bytes_per_s, {}) /* of all disks */                                              \
  FIELD(MaybeNumber, disk_written_bytes_per_s, {})                                                              \
  FIELD(MaybeNumber, disk_read_bytes_total, {})                                                                 \
  FIELD(MaybeNumber, disk_written_bytes_total, {})                                                              \
  FIELD(MaybeNumber, network_sent_bytes_per_s, {}) /* without loopback and bridges */                           \
  FIELD(MaybeNumber, network_received_bytes_per_s, {})                                                          \
  FIELD(MaybeNumber, network_sent_bytes_total, {})                                                              \
  FIELD(MaybeNumber, network_received_bytes_total, {})                                                          \
  FIELD(std::string, no_gpus_because, "") /* "" where there are some, or nothing speaks against it */           \
  FIELD(std::vector<GpuSample>, gpus, {})                                                                       \
  FIELD(std::vector<ProcessSample>, processes, {})
PACELINE_RECORD(NodeSample, PACELINE_NODE_SAMPLE_FIELDS);

}  // namespace paceline
