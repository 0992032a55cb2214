// Where an exception was thrown: the user's own stack frames, with source lines where the program has line tables.
//
// While recording is on for a thread, __cxa_throw (which this file overrides) notes the stack of each throw; a catch
// far outside can then still say where it came from. Frames of Paceline, LibTorch and the standard library are left
// out.
#pragma once

#include <string>
#include <vector>

namespace paceline::train {

/// Notes the stack of a throw that happens now, if recording is on.
void note_throw();

/// Records throws of this thread while it lives.
class ThrowRecorder {
 public:
  ThrowRecorder();
  ~ThrowRecorder();
  ThrowRecorder(const ThrowRecorder&) = delete;
  ThrowRecorder& operator=(const ThrowRecorder&) = delete;
};

/// The user's frames of the last recorded throw of this thread, innermost first: "train_loop (mnist.cpp:41)".
std::vector<std::string> frames_of_last_throw();

}  // namespace paceline::train
