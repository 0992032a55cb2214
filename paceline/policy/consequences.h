// Consequences: what a decision led to, as far as readers of a run show it. The journal stores them beside the event,
// so that a reader knows what happened then without asking today's decide().
//
// Plain data. A member that says nothing is left out of the JSON. Times are the event's.
#pragma once

#include <arrow/result.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/policy/action.h"
#include "paceline/policy/event.h"
#include "paceline/policy/state.h"

namespace paceline::policy {

// A state that the run went to, with the attempt and the size of the group that it had then.
#define PACELINE_ENTERED_STATE_FIELDS(FIELD) \
  FIELD(State, state, State::initializing)   \
  FIELD(std::string, reason, "")             \
  FIELD(int64_t, attempt, 0)                 \
  FIELD(int64_t, world_size, 0)
PACELINE_RECORD(EnteredState, PACELINE_ENTERED_STATE_FIELDS);

// A worker that the event concerned, as it is afterwards.
#define PACELINE_WORKER_CHANGE_FIELDS(FIELD)       \
  FIELD(WorkerId, worker, {})                      \
  FIELD(WorkerStage, stage, WorkerStage::starting) \
  FIELD(int64_t, pid, 0) /* 0: not known, or as before */
PACELINE_RECORD(WorkerChange, PACELINE_WORKER_CHANGE_FIELDS);

using AttemptFailures = std::map<int64_t, std::string>;
using WorkersByNode = std::map<std::string, std::vector<WorkerId>>;

// What a decision led to. The fields apply in the order in which they stand here.
#define PACELINE_CONSEQUENCES_FIELDS(FIELD)                                                    \
  FIELD(std::vector<EnteredState>, entered, {})                                                \
  FIELD(AttemptFailures, failures, {})      /* why an attempt fails, in one line */            \
  FIELD(std::optional<int64_t>, closed, {}) /* the attempt whose workers are all gone */       \
  FIELD(WorkersByNode, started, {})         /* workers of the current attempt */               \
  /* all workers in the order of their ranks; they enter their train loops */                  \
  FIELD(std::vector<WorkerId>, ranks, {})                                                      \
  FIELD(std::vector<WorkerChange>, workers, {})                                                \
  FIELD(PublishedCheckpoints, checkpoints, {}) /* those that are new or have changed, whole */ \
  FIELD(std::vector<int64_t>, deleted, {})     /* reports whose checkpoints are deleted */     \
  FIELD(RankErrors, worker_errors, {})         /* until the next group starts */               \
  FIELD(StopCause, stop_cause, StopCause::unknown)                                             \
  FIELD(std::string, stop_reason, "")                                                          \
  FIELD(std::string, error, "")                       /* of the run */                         \
  FIELD(std::optional<FailureKind>, failure_kind, {}) /* of what the error says first */       \
  FIELD(Json, return_value, nullptr)
PACELINE_RECORD(Consequences, PACELINE_CONSEQUENCES_FIELDS);

/// What `event` led to: `state` and `actions` are as decide() left them. After a RunOpened they tell everything that
/// readers need to begin with. Costs O(log n) in the number of workers, but for events that concern the whole group.
Consequences consequences_of(const Event& event, const RunState& state, const Actions& actions);

/// An object with what the consequences say; empty when that is nothing.
Json encode_consequences(const Consequences& consequences);
/// Invalid: a member of another type.
arrow::Result<Consequences> decode_consequences(const Json& json);

}  // namespace paceline::policy
