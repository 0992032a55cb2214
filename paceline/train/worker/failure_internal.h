// What a train loop's exception becomes: the Failed that the controller gets. Not for users.
#pragma once

#include <exception>

#include "paceline/rpc/messages.h"

namespace paceline::train {

/// The exception's text with type and frames of its cause: of exceptions that are nested in one another (a loader's in
/// a dataset's) the innermost is the one that happened.
rpc::Failed failure_of(const std::exception_ptr& exception);

}  // namespace paceline::train
