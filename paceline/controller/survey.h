// What a controller finds when it takes a run over.
#pragma once

#include <arrow/result.h>

#include "paceline/checkpoint/store.h"
#include "paceline/controller/controller.h"
#include "paceline/core/log.h"
#include "paceline/policy/event.h"

namespace paceline::controller {

/// The first event of a new epoch: checkpoints and last report number as the run folder has them (the folders are the
/// truth), without options. Deletes what a crash has left. IOError when the folder cannot be read.
arrow::Result<policy::RunOpened> survey(const RunRequest& request, checkpoint::Store& store,
                                        const policy::RunState& earlier);

/// Says in the log what becomes of what was found.
void note_earlier(const RunRequest& request, const policy::RunState& earlier, const policy::RunOpened& opened,
                  Log& log);

}  // namespace paceline::controller
