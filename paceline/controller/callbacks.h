// CallbackCaller: calls the user's callbacks of a run and turns what they do into events.
//
// Threading: the controller's thread.
#pragma once

#include <functional>
#include <vector>

#include "paceline/controller/callback.h"
#include "paceline/controller/occupation.h"
#include "paceline/controller/report_queue.h"
#include "paceline/controller/run_request.h"
#include "paceline/core/log.h"
#include "paceline/policy/action.h"
#include "paceline/policy/event.h"

namespace paceline::controller {

class CallbackCaller {
 public:
  /// All of them outlive it. `feed` takes the events: CallbackFailed, StopRequested.
  CallbackCaller(const RunRequest& request, Log& log, Occupation& occupation, std::function<void(policy::Event)> feed)
      : request_(request), log_(log), occupation_(occupation), feed_(std::move(feed)) {}

  void assigned(const policy::RunState& state);
  /// `checkpoint`: where the one is that was published with it, "" for none.
  void reported(const policy::RunState& state, Attempt attempt, const policy::GroupReport& report,
                const storage::Location& checkpoint);
  void failed(const policy::RunState& state, const policy::TellCallbacks& failure);
  /// The state is final.
  void ended(const policy::RunState& state);

 private:
  using Call = std::function<void(UserCallback&, const RunContext&)>;
  void call(const policy::RunState& state, const char* name, const Call& call);

  const RunRequest& request_;
  Log& log_;
  Occupation& occupation_;
  std::function<void(policy::Event)> feed_;
};

}  // namespace paceline::controller
