#include "paceline/data/memory/decoding.h"

#include <algorithm>
#include <utility>

namespace paceline::data {
namespace {

thread_local Decoding* current = nullptr;

}  // namespace

Decoding::Decoding(std::shared_ptr<Ledger> ledger, int64_t expected)
    : ledger_(std::move(ledger)),
      expected_(expected),
      to_come_(expected),
      announced_(expected),
      former_(std::exchange(current, this)) {
  ledger_->expect(announced_);
}

Decoding::~Decoding() {
  ledger_->expect(-announced_);
  current = former_;
  ledger_->trim_spare();
}

std::shared_ptr<Ledger> Decoding::ledger_of_this_thread() {
  return current == nullptr ? nullptr : current->ledger_;
}

void Decoding::leave(int64_t bytes) {
  if (current != nullptr) current->allocated_ -= bytes;
}

void Decoding::has_allocated(int64_t bytes) {
  if (current == nullptr) return;
  current->allocated_ += bytes;
  // Memory that was there before does not come again when it is freed.
  current->to_come_ = std::min(current->to_come_ - bytes, current->expected_);
  const int64_t announced = std::max<int64_t>(current->to_come_, 0);
  current->ledger_->expect(announced - std::exchange(current->announced_, announced));
}

}  // namespace paceline::data
