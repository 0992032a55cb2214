// RayMachines: nodes of a Ray cluster, for a driver that is not written in Python.
//
// Ray's placement groups and actors are Python's, so `paceline run --engine ray` has a job of the cluster start
// python/paceline/_ray/program.py, and that starts the driver with one end of a socket pair (kRayVariable). Over it the
// driver asks for the machines of each run, in lines of JSON:
//
//   {"reserve": ScalingConfig, "start_timeout_s": 60}   is answered with   {"settings": {…}} or {"error": "…"}
//   {"release": true}, also while that is on its way    is answered with   {"released": true}
//
// The settings say where the driver has to listen for agents, which the other side starts on the nodes; between the two
// answers it keeps what Ray has reserved. Threading: one run at a time.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>

#include "paceline/controller/stop_signal.h"
#include "paceline/core/config/failure_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::controller {

/// Names the descriptor of the socket.
inline constexpr const char* kRayVariable = "PACELINE_RAY";

/// The driver's end of the socket.
class RayLink {
 public:
  explicit RayLink(Descriptor socket) : socket_(std::move(socket)) {}

  arrow::Status send(const Json& message);
  /// The next message. Cancelled when `stop`, a descriptor (-1: none), becomes readable first; IOError when the other
  /// side has gone.
  arrow::Result<Json> receive(int stop);

 private:
  const Descriptor socket_;
  std::string received_;  // the beginning of a line
};

class RayMachines {
 public:
  /// Whether this process was given a socket.
  static bool are_offered();
  /// Reserves what `scaling` asks for over this process's socket. Blocks until Ray has given it, for up to
  /// FailureConfig.start_timeout_s; `stop` ends the wait (Cancelled). Afterwards `scaling` says where to listen for
  /// agents, and counts of the workers' needs only what Ray has not seen to. Invalid: there is no socket, or Ray's
  /// reason.
  static arrow::Result<std::unique_ptr<RayMachines>> reserve(ScalingConfig& scaling, const FailureConfig& failure,
                                                             const StopSignal& stop);
  /// The same over another.
  static arrow::Result<std::unique_ptr<RayMachines>> reserve(RayLink& link, ScalingConfig& scaling,
                                                             const FailureConfig& failure, const StopSignal& stop);
  /// Gives them back, once the run is over.
  ~RayMachines();
  RayMachines(const RayMachines&) = delete;
  RayMachines& operator=(const RayMachines&) = delete;

 private:
  explicit RayMachines(RayLink& link) : link_(link) {}

  RayLink& link_;
};

}  // namespace paceline::controller
