#include <utility>

#include "paceline/core/posix/forks.h"
#include "paceline/data/reader/home_batches_internal.h"

namespace paceline::data {
namespace {

class HomeBatches : public RankBatches {
 public:
  explicit HomeBatches(std::unique_ptr<RankBatches> batches) : batches_(std::move(batches)) {}
  ~HomeBatches() override {
    if (!home_.is_here()) (void)batches_.release();  // NOLINT(bugprone-unused-return-value)
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    if (home_.is_here()) return batches_->next();
    return arrow::Status::Invalid("this iteration is of process ", home_.pid(),
                                  ", of which this one is a fork: begin one here");
  }
  bool is_ready() const override { return !home_.is_here() || batches_->is_ready(); }
  bool wait(std::chrono::milliseconds timeout) const override { return !home_.is_here() || batches_->wait(timeout); }
  const StreamState& state() const override { return batches_->state(); }
  bool is_near_end() const override { return home_.is_here() && batches_->is_near_end(); }
  void read() override {
    if (home_.is_here()) batches_->read();
  }

 private:
  const HomeProcess home_;
  std::unique_ptr<RankBatches> batches_;
};

}  // namespace

std::unique_ptr<RankBatches> at_home(std::unique_ptr<RankBatches> batches) {
  return std::make_unique<HomeBatches>(std::move(batches));
}

}  // namespace paceline::data
