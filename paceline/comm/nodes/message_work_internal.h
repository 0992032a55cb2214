// The work of a message of two ranks of different nodes, which Gloo carries and ends once somebody waits for it.
// Threading: as c10d::Work, of which any thread may ask.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/comm/failure_internal.h"
#include "paceline/comm/nodes/relay_internal.h"
#include "paceline/comm/shared_call_internal.h"

namespace c10d {
class Work;
enum class OpType : std::uint8_t;
}  // namespace c10d

namespace paceline::comm {

/// The message, and the group that it is of.
struct Message {
  int rank = 0;
  c10d::OpType type;
  std::string operation;  ///< for errors
  int peer = -1;          ///< -1: any
  std::chrono::milliseconds timeout{};
  std::vector<at::Tensor> results;
  std::weak_ptr<Relay> relay;
  std::shared_ptr<const FailureReporter> failures;
};

/// What the user gets for `work`, which is Gloo's. `call` lives until it is over: what has come is copied from it to
/// where the user wants it. Where the group fails before, so does the message, for the same reason.
c10::intrusive_ptr<c10d::Work> make_message_work(const Message& of, c10::intrusive_ptr<c10d::Work> work,
                                                 SharedCall call);

}  // namespace paceline::comm
