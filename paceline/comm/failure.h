// Which exceptions of a train loop come from collectives that failed through no fault of this rank.
#pragma once

#include <exception>

namespace paceline::comm {

/// Whether `error` is the failure of a collective that another rank has caused, or this rank's being told to stop: a
/// consequence, whose cause is elsewhere. A CollectiveError says so itself; c10d's and Gloo's own errors always are.
bool is_collateral(const std::exception& error);

}  // namespace paceline::comm
