// NvmlGpus: NVIDIA's GPUs by the library libnvidia-ml.so.1 of their driver, which is looked for when it runs: nothing
// is needed to build, and nothing is missed where there are no such GPUs.
#pragma once

#include <arrow/result.h>

#include <memory>

#include "paceline/agent/sampling/gpus.h"

namespace paceline::agent {

/// The library's functions that are used, as its documentation declares them. They give 0 when they could. One that the
/// driver does not have, as it is too old, is null.
struct NvmlCalls {
  using Device = void*;
  struct Utilization {
    unsigned int gpu = 0, memory = 0;  // percent
  };
  struct Memory {
    unsigned long long total = 0, free = 0, used = 0;
  };
  struct Process {  // as functions of the versions 2 and 3 fill it
    unsigned int pid = 0;
    unsigned long long used_memory = 0;
    unsigned int gpu_instance = 0, compute_instance = 0;
  };

  int (*init)() = nullptr;
  const char* (*error_text)(int code) = nullptr;
  int (*count)(unsigned int* count) = nullptr;
  int (*handle)(unsigned int index, Device* device) = nullptr;
  int (*uuid)(Device device, char* text, unsigned int size) = nullptr;
  int (*name)(Device device, char* text, unsigned int size) = nullptr;
  int (*utilization)(Device device, Utilization* utilization) = nullptr;
  int (*memory)(Device device, Memory* memory) = nullptr;
  int (*power)(Device device, unsigned int* milliwatts) = nullptr;
  int (*temperature)(Device device, int sensor, unsigned int* celsius) = nullptr;
  int (*throttle_reasons)(Device device, unsigned long long* reasons) = nullptr;
  int (*ecc_errors)(Device device, int kind, int counter, unsigned long long* count) = nullptr;
  int (*processes)(Device device, unsigned int* count, Process* processes) = nullptr;
};

/// The functions of the library on this machine. KeyError when there is none.
arrow::Result<NvmlCalls> load_nvml();

/// Initializes the library; it stays that, and loaded, as long as this process lives. Where there is no library, no GPU
/// or another problem, a NoGpus that says so.
std::unique_ptr<Gpus> open_nvml(const arrow::Result<NvmlCalls>& calls);

}  // namespace paceline::agent
