#include "paceline/data/memory/ledger.h"

#include <algorithm>
#include <utility>

namespace paceline::data {

void Ledger::add(int64_t bytes) {
  held_ += bytes;
  peak_ = std::max(peak_, held_);
}

Ledger::Reservation Ledger::reserve(const std::shared_ptr<Ledger>& ledger, int64_t bytes) {
  const std::lock_guard lock(ledger->mutex_);
  return reserve_locked(ledger, bytes);
}

Ledger::Reservation Ledger::reserve_locked(const std::shared_ptr<Ledger>& ledger, int64_t bytes) {
  ledger->add(bytes);
  Reservation reservation;
  reservation.ledger_ = ledger;
  reservation.bytes_ = bytes;
  return reservation;
}

void Ledger::Reservation::resize(int64_t bytes) {
  if (ledger_ == nullptr || bytes == bytes_ || !ledger_->home_.is_here()) return;
  {
    const std::lock_guard lock(ledger_->mutex_);
    if (in_batches_) {
      ledger_->in_batches_ += bytes - bytes_;
    } else {
      ledger_->add(bytes - bytes_);
    }
  }
  if (bytes < bytes_) ledger_->changed_.notify_all();
  bytes_ = bytes;
}

void Ledger::Reservation::leave_to_batches() {
  if (ledger_ == nullptr || in_batches_ || !ledger_->home_.is_here()) return;
  {
    const std::lock_guard lock(ledger_->mutex_);
    ledger_->add(-bytes_);
    ledger_->in_batches_ += bytes_;
    in_batches_ = true;
  }
  ledger_->changed_.notify_all();
}

Ledger::Reservation Ledger::Reservation::split(int64_t bytes) {
  Reservation part;
  part.ledger_ = ledger_;
  part.in_batches_ = in_batches_;
  part.bytes_ = std::min(bytes, bytes_);
  bytes_ -= part.bytes_;
  return part;
}

void Ledger::add_spare(std::weak_ptr<SpareMemory> spare) {
  const std::lock_guard lock(spare_mutex_);
  std::erase_if(spare_, [&](const auto& one) {
    const bool is_there_already = !one.owner_before(spare) && !spare.owner_before(one);
    return is_there_already || one.expired();
  });
  spare_.push_back(std::move(spare));
}

void Ledger::trim_spare() {
  std::vector<std::weak_ptr<SpareMemory>> all;
  {
    const std::lock_guard lock(spare_mutex_);
    all = spare_;
  }
  int64_t room = 0;
  {
    const std::lock_guard lock(mutex_);
    room = budget_ - held_ - in_batches_ + expected_;
  }
  for (const auto& one : all) {
    if (const auto spare = one.lock()) room -= spare->keep_at_most(std::max<int64_t>(room, 0));
  }
}

int64_t Ledger::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

int64_t Ledger::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace paceline::data
