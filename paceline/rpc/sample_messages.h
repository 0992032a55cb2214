// Messages about what nodes do: samples that agents take each second (core/node_sample.h), on their way to the run
// folder.
//
// An agent sends the next once those before were taken, so that they never wait in a channel in numbers; what comes
// together meanwhile goes with it, the oldest of too many are dropped.
#pragma once

#include "paceline/rpc/messages.h"

namespace paceline::rpc {

// agent → controller, with a request's number: samples are in the bytes, a line of JSON each, the oldest first.
#define PACELINE_NODE_SAMPLED_FIELDS(FIELD)
PACELINE_MESSAGE(NodeSampled, "node_sampled", PACELINE_NODE_SAMPLED_FIELDS);

// controller → agent, which answers it: more may come.
#define PACELINE_SAMPLES_TAKEN_FIELDS(FIELD)
PACELINE_MESSAGE(SamplesTaken, "samples_taken", PACELINE_SAMPLES_TAKEN_FIELDS);

/// So many samples wait at an agent, at most.
inline constexpr size_t kMostSamplesWaiting = 60;

}  // namespace paceline::rpc
