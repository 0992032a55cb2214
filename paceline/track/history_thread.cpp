#include "paceline/track/history_thread.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "paceline/core/fail_point.h"

namespace paceline::track {
namespace {

constexpr size_t kHandOverBytes = 64 << 10;
constexpr std::chrono::seconds kEndPatience{2};

}  // namespace

// What the thread works with; it may outlive its owner.
struct HistoryThread::Desk {
  Desk(AppendFile its_file, Told its_told, Gate its_gate)
      : file(std::move(its_file)), gate(std::move(its_gate)), flushed(file.size()), told(std::move(its_told)) {}

  void work();
  arrow::Status write(std::string& taken, bool sync);
  arrow::Status wait(int64_t request);

  AppendFile file;  // the thread's
  const Gate gate;  // null when nobody may refuse

  std::mutex mutex;
  std::condition_variable changed;
  std::string text;  // to be written
  bool wants_sync = false;
  int64_t requests = 0;
  int64_t answered = 0;  // the last request that has been carried out, or has failed
  int64_t flushed;
  arrow::Status status;
  bool is_left = false;
  bool ending = false;
  Told told;  // null when nobody listens
};

void HistoryThread::Desk::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return ending || requests > answered; });
    if (requests == answered) return;
    const int64_t request = requests;
    const bool sync = std::exchange(wants_sync, false);
    std::string taken = std::exchange(text, "");
    if (is_left) taken.clear();
    const bool writes = !is_left;
    lock.unlock();
    arrow::Status written = writes ? write(taken, sync) : arrow::Status::OK();
    lock.lock();
    text.insert(0, taken);
    flushed = file.size();
    wants_sync |= sync && !written.ok();  // with the text that is left
    status = std::move(written);
    answered = request;
    changed.notify_all();
    if (!told) continue;
    const Told tell = told;
    lock.unlock();
    tell();
    lock.lock();
  }
}

// What could not be written stays in `taken`.
arrow::Status HistoryThread::Desk::write(std::string& taken, bool sync) {
  ARROW_RETURN_NOT_OK(fail_point("history.write"));
  if (gate) ARROW_RETURN_NOT_OK(gate());
  ARROW_RETURN_NOT_OK(file.append(taken));
  taken.clear();
  return sync ? file.sync() : arrow::Status::OK();
}

arrow::Status HistoryThread::Desk::wait(int64_t request) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return answered >= request; });
  return status;
}

arrow::Result<std::unique_ptr<HistoryThread>> HistoryThread::open(const std::string& run_folder, const HistoryEnd& end,
                                                                  Told told, Gate gate) {
  ARROW_ASSIGN_OR_RAISE(AppendFile file, open_history(run_folder));
  auto desk = std::make_shared<Desk>(std::move(file), std::move(told), std::move(gate));
  return std::unique_ptr<HistoryThread>(new HistoryThread(std::move(desk), end));
}

HistoryThread::HistoryThread(std::shared_ptr<Desk> desk, const HistoryEnd& end)
    : desk_(std::move(desk)), encoder_(end), bytes_(desk_->flushed), thread_([desk = desk_] { desk->work(); }) {}

HistoryThread::~HistoryThread() {
  hand_over(/*sync=*/false);
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->ending = true;
    desk_->told = nullptr;
  }
  desk_->changed.notify_all();
  thread_.finish(kEndPatience);
}

int64_t HistoryThread::hand_over(bool sync) {
  const std::lock_guard lock(desk_->mutex);
  desk_->text += buffer_;
  buffer_.clear();
  desk_->wants_sync |= sync;
  desk_->changed.notify_all();
  return ++desk_->requests;
}

void HistoryThread::append(const HistoryRow& row) {
  if (is_left_) return;
  const size_t before = buffer_.size();
  encoder_.append(row, buffer_);
  bytes_ += static_cast<int64_t>(buffer_.size() - before);
  if (buffer_.size() >= kHandOverBytes) hand_over(/*sync=*/false);
}

arrow::Status HistoryThread::flush() {
  const int64_t request = hand_over(/*sync=*/false);
  {
    const std::lock_guard lock(desk_->mutex);
    if (desk_->told) return desk_->status;
  }
  return desk_->wait(request);
}

void HistoryThread::leave() {
  is_left_ = true;
  buffer_.clear();
  const std::lock_guard lock(desk_->mutex);
  desk_->is_left = true;
}

std::function<arrow::Status()> HistoryThread::syncing() {
  return [desk = desk_, request = hand_over(/*sync=*/true)] { return desk->wait(request); };
}

arrow::Status HistoryThread::status() const {
  const std::lock_guard lock(desk_->mutex);
  return desk_->status;
}

int64_t HistoryThread::flushed_bytes() const {
  const std::lock_guard lock(desk_->mutex);
  return desk_->flushed;
}

}  // namespace paceline::track
