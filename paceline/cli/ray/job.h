// `paceline run --engine ray` on a machine that need not belong to the cluster: a job of the cluster runs the command
// line there (python -m paceline._ray.program), and this process shows what it writes until it is over.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/cli/commands/run_flags.h"

namespace paceline::cli {

/// Its exit code: the job's, 128 + the signal that has stopped it. The first SIGINT, SIGTERM or SIGHUP has Ray stop the
/// job, the next ends this process alone. A Status: the job could not begin, or nobody knows how it goes on.
arrow::Result<int> run_as_ray_job(const RunFlags& flags, const launch::Variables& variables);

/// The shell's command that does there what `flags` say. Pure.
std::string job_command(const RunFlags& flags);

}  // namespace paceline::cli
