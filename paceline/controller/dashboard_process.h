// DashboardProcess: `paceline dashboard` for the runs of this driver (RunConfig.dashboard).
//
// A process of its own, because what answers browsers shall not be able to end a training; and below the driver's
// guardian, so that it ends with the driver however that dies, as workers do, and the user's program gets no child. It
// serves until then also after runs have ended: that is when one wants to look at them. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/agent/guardian.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::controller {

class DashboardProcess {
 public:
  /// Starts `program`, the file `paceline`, and waits until it listens. Invalid where `program` is ""; IOError with
  /// what it has said where it cannot be started, or does not listen.
  static arrow::Result<DashboardProcess> start(const agent::Guardian& guardian, const std::string& program,
                                               std::chrono::milliseconds patience = std::chrono::seconds(20));

  /// "http://127.0.0.1:8265/#code=…": the code opens one session, and is another each time.
  std::string url();
  bool is_running() const;

 private:
  DashboardProcess(std::unique_ptr<rpc::BlockingSocket> guardian, std::vector<Descriptor> ends, std::string url)
      : guardian_(std::move(guardian)), ends_(std::move(ends)), url_(std::move(url)) {}

  std::unique_ptr<rpc::BlockingSocket> guardian_;  // when it closes, the process is ended
  std::vector<Descriptor> ends_;                   // of what it may write to
  std::string url_;                                // that was given last
  bool is_given_ = false;
};

}  // namespace paceline::controller
