// Where a process's main thread is, in the lines that its user wrote. Pure.
#pragma once

#include <string>
#include <vector>

#include "paceline/stacks/stack.h"

namespace paceline::stacks {

/// Innermost first: "train_loop (mnist.cpp:41)". Of a process that runs Python the frames of Python that py-spy told,
/// down to where Paceline called the train loop; without py-spy those of the libraries that Python has called, and what
/// to do to see more.
std::vector<std::string> frames_for_user(const ProcessStacks& stacks);

}  // namespace paceline::stacks
