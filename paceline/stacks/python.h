// The Python stacks of a process that runs Python, as py-spy prints them, where py-spy is installed.
//
// py-spy (PyPI) knows the insides of each Python version; writing that anew would be folly. It reads the process
// without stopping it. It is looked for beside the process's interpreter, in its virtual environment and in its PATH.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "paceline/core/posix/descriptor.h"

namespace paceline::stacks {

/// Whether Python is loaded in the process with these mappings (/proc/PID/maps).
bool runs_python(const std::string& maps);

/// A module's file as py-spy names it, from its outermost package: "torch/nn/functional.py", "train.py". Looks at the
/// folders it lies in.
std::string file_in_package(const std::string& file);

struct PythonStacks {
  std::string text;     // what py-spy printed
  std::string problem;  // why there is none, and what to do
};

/// Blocks until py-spy has ended, for `patience` at most; then it is killed.
PythonStacks python_stacks(pid_t pid, std::chrono::milliseconds patience = std::chrono::seconds(10));

/// A recording of a process's Python functions by py-spy, which runs until it is finished. Wherever one cannot be made,
/// it says why.
class PythonRecording {
 public:
  enum class Threads { running, all };

  /// Looks `rate` times a second, for so many seconds, at the threads that run, or at those that wait as well.
  PythonRecording(pid_t pid, int64_t seconds, double rate, Threads threads = Threads::running);
  PythonRecording(PythonRecording&& other) noexcept;
  PythonRecording& operator=(PythonRecording&&) = delete;
  /// Ends py-spy.
  ~PythonRecording();

  /// Blocks until it has ended, for `patience` at most: what it has printed, for add_py_spy() (profile.h).
  PythonStacks finish(std::chrono::milliseconds patience);

 private:
  std::string program_;
  std::string problem_;
  pid_t py_spy_ = 0;
  Descriptor output_;
};

}  // namespace paceline::stacks
