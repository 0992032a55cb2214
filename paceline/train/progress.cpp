#include "paceline/train/progress.h"

#include "paceline/train/session_internal.h"

namespace paceline::train {

using namespace std::chrono_literals;

ProgressReporter::ProgressReporter(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), start_(std::chrono::steady_clock::now()), shown_(start_) {
  const Session* session = Session::current_or_null();
  shows_ = session != nullptr && session->options().context.world_rank == 0;
}

void ProgressReporter::step() {
  ++done_;
  if (!shows_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < 200ms) return;
  shown_ = now;
  show();
}

void ProgressReporter::finish() {
  if (shows_ && done_ > 0) show();
}

void ProgressReporter::show() {
  Session* session = Session::current_or_null();
  if (session == nullptr) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  session->options().sink->show_progress({.label = label_, .done = done_, .total = total_, .rate = rate});
}

}  // namespace paceline::train
