// Where an exception was thrown: the user's own stack frames, with source lines where the program has line tables.
//
// While recording is on, __cxa_throw (which this file overrides) notes the stack of each throw of any thread beside the
// exception object; a catch far outside, on another thread too (a loader's rows), can then still say where it came
// from. The last throws are kept: of one that is not among them there are no frames, never those of another. Frames of
// Paceline, LibTorch and the standard library are left out. Thread-safe.
#pragma once

#include <exception>
#include <string>
#include <vector>

namespace paceline::train {

/// Notes the stack of a throw of `exception` that happens now, if recording is on.
void note_throw(const void* exception);

/// Records throws, of every thread, while it lives. What was recorded before is forgotten.
class ThrowRecorder {
 public:
  ThrowRecorder();
  ~ThrowRecorder();
  ThrowRecorder(const ThrowRecorder&) = delete;
  ThrowRecorder& operator=(const ThrowRecorder&) = delete;
};

/// The user's frames of where `exception` was thrown first, innermost first: "train_loop (mnist.cpp:41)".
std::vector<std::string> frames_of(const std::exception_ptr& exception);

}  // namespace paceline::train
