// What becomes of an Error of ours that main() does not catch: its text once, and exit code 1.
#pragma once

namespace paceline::train {

/// From now on an uncaught paceline::Error ends this process with its text on standard error and exit code 1, without a
/// core file. Of a TrainingFailedError only what the terminal has not shown already is written. Other exceptions end
/// it as before: by the terminate handler that there was, and so do all exceptions in processes that are forked from
/// this one. Destructors of static objects do not run.
void tell_uncaught_errors();

}  // namespace paceline::train
