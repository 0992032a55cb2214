// The works of the backend "paceline": what c10d waits for.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/collective/group.h"
#include "paceline/comm/failure_internal.h"
#include "paceline/core/progress.h"

namespace c10d {
class Work;
enum class OpType : std::uint8_t;
}  // namespace c10d

namespace paceline::comm {

/// What both kinds are made with.
struct WorkOf {
  int rank = 0;
  c10d::OpType type;
  Collective collective = Collective::none;  ///< that is counted
  std::string operation;                     ///< for errors
  std::vector<at::Tensor> results;
  std::shared_ptr<const FailureReporter> failures;
  uint64_t number = 0;  ///< in its group, for errors; where the work is counted, that of the progress takes its place
};

/// Starts `requests`, which c10d has as one work: it is over when all are. `keeps` lives until then. `after` copies to
/// where the user wants the results, once all have ended well. `progress`: where the work is counted, null for nowhere:
/// it is called at once, and waited for once somebody waits for it or asks how it stands. UsageError in a fork.
c10::intrusive_ptr<c10d::Work> start_work(WorkOf of, std::shared_ptr<collective::SharedGroup> group,
                                          std::vector<collective::Request> requests, const std::shared_ptr<void>& keeps,
                                          const std::function<void()>& after,
                                          const std::shared_ptr<GroupProgress>& progress);

/// A work that is carried out elsewhere, such as a message, and what ends it: a failure or null, and the rank that it
/// came from, where it is one that receives.
struct ToldWork {
  c10::intrusive_ptr<c10d::Work> work;
  std::function<void(const std::exception_ptr& failure, int rank)> end;
};
ToldWork make_told_work(WorkOf of);

}  // namespace paceline::comm
