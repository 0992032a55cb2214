// A driver program under test: started, talked to and looked at from outside, as a user's shell would.
//
// Everything that the driver starts inherits a tag in its environment, so that leftovers are found whoever their parent
// is. Ownership: destruction kills the driver and waits for it. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::testing {

class DriverProcess {
 public:
  /// Starts `program` with `arguments` and additional `environment`; its output is read.
  DriverProcess(const std::string& program, std::vector<std::string> arguments,
                const std::map<std::string, std::string>& environment = {});
  ~DriverProcess();
  DriverProcess(const DriverProcess&) = delete;
  DriverProcess& operator=(const DriverProcess&) = delete;

  /// Reads output until `text` appears; false when the driver ends or a minute passes before.
  bool wait_for_output(const std::string& text);
  void signal(int number);
  /// Reads the rest of the output and waits for the end: the exit code, or minus the signal.
  int wait();

  pid_t pid() const { return pid_; }
  /// All that the driver has written so far.
  const std::string& output() const { return output_; }

  /// Processes of the driver that are alive now, itself excluded.
  std::vector<pid_t> processes() const;
  /// Waits until processes() is empty; what is still there after ten seconds.
  std::vector<pid_t> leftovers() const;

 private:
  bool read_some(std::chrono::steady_clock::time_point deadline);

  std::string tag_;
  pid_t pid_ = 0;
  Descriptor output_pipe_;
  std::string output_;
  bool reaped_ = false;
};

}  // namespace paceline::testing
