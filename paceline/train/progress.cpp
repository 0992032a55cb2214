#include "paceline/train/progress.h"

#include "paceline/train/worker/session_internal.h"

namespace paceline::train {

using namespace std::chrono_literals;

namespace {

Session* showing_session() {
  Session* const session = Session::current_or_null();
  return session != nullptr && session->options().context.world_rank == 0 ? session : nullptr;
}

}  // namespace

void show_progress(const std::string& label, int64_t done, int64_t total, double rate) {
  if (Session* const session = showing_session()) {
    session->options().sink->show_progress({.label = label, .done = done, .total = total, .rate = rate});
  }
}

ProgressReporter::ProgressReporter(std::string label, int64_t total)
    : label_(std::move(label)),
      total_(total),
      shows_(showing_session() != nullptr),
      start_(std::chrono::steady_clock::now()),
      shown_(start_) {}

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
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  show_progress(label_, done_, total_, rate);
}

}  // namespace paceline::train
