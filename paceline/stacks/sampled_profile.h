// The profile of a process, made of the samples that its sampler has taken (stacks/sampler.h).
#pragma once

#include <string>

#include "paceline/stacks/profile.h"
#include "paceline/stacks/sampler.h"
#include "paceline/stacks/symbols.h"

namespace paceline::stacks {

/// Unwinds the samples and names them; `maps`: the process's /proc/PID/maps. The process may have ended. Takes some
/// ten milliseconds for a hundred samples, and a second for the names of LibTorch.
Profile profile_of(const SampleReader& samples, const std::string& maps, Symbols& symbols);

/// The frames of a stack that was copied, root first. Where its root is missing, a frame says so, and why: `is_cut`: it
/// was deeper than the copy.
StackFrames root_first(ThreadStack stack, bool is_cut);

}  // namespace paceline::stacks
