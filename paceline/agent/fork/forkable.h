// What the program had before main(), against what it has when the guardian is forked: what it has opened and set up
// itself, which a worker that is executed would open and set up again, and one that is forked cannot share.
//
// Noted by a constructor that runs before those of the program's own objects; shared libraries come before it: their
// housekeeping threads count as there from the start, the descriptors that they keep open do not. Threading: one
// thread.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace paceline::agent {

/// Signals as a worker that is executed has them when it reaches this place of main().
struct SignalSetup {
  std::array<struct sigaction, NSIG> dispositions{};
  sigset_t blocked{};
};

/// Of this process now. What it ignored or blocked from the start is its parent's affair: the guardian starts processes
/// with every signal at its default and none blocked.
SignalSetup own_signal_setup();
/// Makes it that of this process.
void apply(const SignalSetup& setup);

/// Why a fork of this process would not be as the program executed again: "it had 2 threads (main, reader)", "it had
/// opened descriptor 5 (/data/train.bin)", which counts a device like a GPU as well; or memory that the forks would
/// share, timers or locked memory that they would not have. "" when it would be.
std::string why_not_forkable();

}  // namespace paceline::agent
