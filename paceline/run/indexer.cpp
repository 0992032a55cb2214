#include "paceline/run/indexer.h"

#include <optional>

#include "paceline/run/reader.h"
#include "paceline/track/run_store.h"

namespace paceline::run {
namespace {

constexpr std::chrono::seconds kBetweenWrites{1};

// Brings the store up to date with the folder.
arrow::Status write_news(RunReader& reader, std::optional<track::RunStore>& store, const std::string& store_path) {
  ARROW_RETURN_NOT_OK(reader.read());
  if (!store) {
    ARROW_ASSIGN_OR_RAISE(store, track::RunStore::open(store_path));
  }
  ARROW_RETURN_NOT_OK(store->put(reader.record()));
  reader.drop_events();
  return arrow::Status::OK();
}

}  // namespace

// False: there is none and the end has come.
bool RunIndexer::Desk::wait_for_news(std::chrono::steady_clock::time_point not_before) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return news || ending; });
  changed.wait_until(lock, not_before, [this] { return ending; });
  return std::exchange(news, false);
}

void RunIndexer::Desk::say(const std::string& text) {
  const std::lock_guard lock(mutex);
  if (warn) warn(text);
}

void RunIndexer::Desk::work(const std::string& run_folder, const std::string& store_path) {
  RunReader reader(run_folder);
  std::optional<track::RunStore> store;
  std::chrono::steady_clock::time_point not_before{};
  bool warned = false;
  while (wait_for_news(not_before)) {
    const arrow::Status written = write_news(reader, store, store_path);
    not_before = std::chrono::steady_clock::now() + kBetweenWrites;
    if (written.ok()) continue;
    if (!warned) say(written.message());
    warned = true;
    if (written.IsInvalid()) break;
  }
}

RunIndexer::RunIndexer(const std::string& run_folder, const std::string& store_path, Warn warn) {
  if (store_path.empty()) return;
  desk_ = std::make_shared<Desk>();
  desk_->warn = std::move(warn);
  thread_ = BackgroundThread([desk = desk_, run_folder, store_path] { desk->work(run_folder, store_path); });
}

RunIndexer::~RunIndexer() {
  finish();
}

void RunIndexer::notice() {
  if (!desk_) return;
  const std::lock_guard lock(desk_->mutex);
  desk_->begun = true;
  desk_->news = true;
  desk_->changed.notify_all();
}

void RunIndexer::finish(std::chrono::milliseconds patience) {
  if (!desk_) return;
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->news = desk_->begun;
    desk_->ending = true;
  }
  desk_->changed.notify_all();
  thread_.finish(patience);
  const std::lock_guard lock(desk_->mutex);
  desk_->warn = nullptr;
}

}  // namespace paceline::run
