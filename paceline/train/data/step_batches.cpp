#include "paceline/train/data/step_batches.h"

#include <utility>

#include "paceline/core/error.h"

namespace paceline::train {
namespace {

class LedgerSteps final : public data::CountedSteps {
 public:
  explicit LedgerSteps(std::shared_ptr<StepLedger> ledger) : ledger_(std::move(ledger)) {}
  void begin() override { batch_ = ledger_->begin(); }
  bool is_void() const override { return ledger_->is_void(batch_); }
  void applied() override { ledger_->applied(batch_); }

 private:
  const std::shared_ptr<StepLedger> ledger_;
  StepLedger::Mark batch_;
};

class StepBatches final : public data::RankBatches {
 public:
  StepBatches(std::unique_ptr<data::RankBatches> batches, LoaderPlace place)
      : batches_(std::move(batches)), place_(std::move(place)) {}

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    if (place_.before_batch) place_.before_batch();
    auto batch = batches_->next();
    if (place_.after_batch) place_.after_batch();
    return batch;
  }
  bool is_ready() const override { return batches_->is_ready(); }
  const data::StreamState& state() const override { return batches_->state(); }

 private:
  const std::unique_ptr<data::RankBatches> batches_;
  const LoaderPlace place_;
};

}  // namespace

std::unique_ptr<data::RankBatches> step_batches(data::Epochs& epochs, const data::EpochOptions& options,
                                                const LoaderPlace& place, bool counts) {
  std::shared_ptr<data::CountedSteps> steps;
  if (counts && place.ledger != nullptr) steps = std::make_shared<LedgerSteps>(place.ledger);
  return std::make_unique<StepBatches>(value_or_throw(epochs.begin(options, std::move(steps))), place);
}

}  // namespace paceline::train
