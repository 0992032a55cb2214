#include "paceline/data/function/shared_regions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "paceline/core/posix/forks.h"
#include "paceline/data/memory/decoding.h"

namespace paceline::data {
namespace {

constexpr int64_t kSmallest = int64_t{1} << 20;

int64_t rounded_up(int64_t bytes) {
  int64_t size = kSmallest;
  while (size < bytes) size *= 2;
  return size;
}

class RegionPart : public arrow::Buffer {
 public:
  RegionPart(std::shared_ptr<SharedRegion> region, int64_t first, int64_t bytes)
      : Buffer(region->data() + first, bytes), region_(std::move(region)) {}

 private:
  const std::shared_ptr<SharedRegion> region_;
};

}  // namespace

arrow::Status SharedRegion::reserve(int64_t bytes) {
  if (bytes <= size()) return arrow::Status::OK();
  struct stat status{};
  if (::fstat(descriptor().get(), &status) != 0) return errno_status("looking at shared memory");
  // The other process may have let it grow further: it must not shrink.
  const int64_t wanted = std::max<int64_t>(rounded_up(bytes), status.st_size);
  if (wanted > status.st_size && ::ftruncate(descriptor().get(), wanted) != 0) {
    return errno_status("making shared memory of " + std::to_string(wanted) + " bytes");
  }
  ARROW_ASSIGN_OR_RAISE(Descriptor same, descriptor().duplicate());
  ARROW_ASSIGN_OR_RAISE(memory_, SharedMemory::open(std::move(same), static_cast<size_t>(wanted)));
  return arrow::Status::OK();
}

void SharedRegion::clear() {
  (void)::fallocate(descriptor().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size());
  touched_ = 0;
}

SharedRegions::SharedRegions(size_t most_free) : store_(std::make_shared<Store>(most_free)) {}

arrow::Result<std::shared_ptr<SharedRegion>> SharedRegions::take(int64_t bytes) {
  std::unique_ptr<SharedRegion> region;
  int64_t id = 0;
  const std::shared_ptr<Ledger> ledger = Decoding::ledger_of_this_thread();
  bool is_new_to_ledger = false;
  {
    const std::lock_guard lock(store_->mutex);
    is_new_to_ledger = ledger != nullptr && store_->ledger.lock() != ledger;
    if (is_new_to_ledger) store_->ledger = ledger;
    // The smallest that is large enough, otherwise the largest, which grows.
    const auto better = [&](const auto& left, const auto& right) {
      const bool fits = left->size() >= bytes;
      if (fits != (right->size() >= bytes)) return fits;
      return fits ? left->size() < right->size() : left->size() > right->size();
    };
    const auto best = std::ranges::min_element(store_->free, better);
    if (best != store_->free.end()) {
      region = std::move(*best);
      store_->free.erase(best);
    } else {
      id = ++store_->last_id;
      store_->ids.insert(id);
    }
  }
  if (is_new_to_ledger) ledger->add_spare(store_);
  if (region == nullptr) {
    ARROW_ASSIGN_OR_RAISE(SharedMemory memory,
                          SharedMemory::create("paceline block", static_cast<size_t>(rounded_up(bytes))));
    region = std::make_unique<SharedRegion>(id, std::move(memory));
  } else if (region->touched() > 2 * bytes + kSmallest) {
    region->clear();  // it would take much more than its user has counted
  }
  ARROW_RETURN_NOT_OK(region->reserve(bytes));
  if (ledger != nullptr) ledger->trim_spare();
  return std::shared_ptr<SharedRegion>(region.release(), [store = store_, home = HomeProcess()](SharedRegion* last) {
    std::unique_ptr<SharedRegion> free(last);
    if (home.is_here()) give_back(store, std::move(free));
  });
}

void SharedRegions::give_back(const std::shared_ptr<Store>& store, std::unique_ptr<SharedRegion> region) {
  std::unique_ptr<SharedRegion> dropped;  // unmapped without the lock
  std::shared_ptr<Ledger> ledger;
  {
    const std::lock_guard lock(store->mutex);
    if (!store->ids.contains(region->id())) {
      dropped = std::move(region);
      return;
    }
    ledger = store->ledger.lock();
    store->free.push_back(std::move(region));
    if (store->free.size() > store->most_free) {
      const auto smallest = std::ranges::min_element(store->free, {}, [](const auto& one) { return one->size(); });
      store->ids.erase((*smallest)->id());
      dropped = std::move(*smallest);
      store->free.erase(smallest);
    }
  }
  if (dropped != nullptr) dropped->clear();  // the other process still maps it
  if (ledger != nullptr) ledger->trim_spare();
}

// Those that are cleared stay, as addresses: the processes know them.
int64_t SharedRegions::Store::keep_at_most(int64_t bytes) {
  const std::lock_guard lock(mutex);
  int64_t kept = 0;
  for (const auto& region : free) kept += region->touched();
  for (const auto& region : free) {
    if (kept <= bytes) break;
    kept -= region->touched();
    if (region->touched() > 0) region->clear();
  }
  return kept;
}

void SharedRegions::retire(const SharedRegion& region) {
  const std::lock_guard lock(store_->mutex);
  store_->ids.erase(region.id());
}

bool SharedRegions::has(int64_t id) const {
  const std::lock_guard lock(store_->mutex);
  return store_->ids.contains(id);
}

arrow::Result<std::shared_ptr<arrow::Buffer>> part_of(const std::shared_ptr<SharedRegion>& region, int64_t first,
                                                      int64_t bytes) {
  if (first < 0 || bytes < 0 || bytes > region->size() || first > region->size() - bytes) {
    return arrow::Status::Invalid("a region of ", region->size(), " bytes has no ", bytes, " bytes from ", first,
                                  " on");
  }
  return std::make_shared<RegionPart>(region, first, bytes);
}

}  // namespace paceline::data
