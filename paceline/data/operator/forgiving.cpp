#include "paceline/data/operator/forgiving.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

namespace paceline::data {
namespace {

// The row as texts, for people to read.
Json shown(const arrow::RecordBatch& block, int64_t row) {
  constexpr size_t kLongest = 1000;
  Json texts = Json::object();
  for (int column = 0; column < block.num_columns(); ++column) {
    const auto value = block.column(column)->GetScalar(row);
    std::string text = value.ok() ? (*value)->ToString() : value.status().message();
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
    texts[block.column_name(column)] = std::move(text);
  }
  return texts;
}

class Forgiving : public Operator {
 public:
  Forgiving(std::shared_ptr<const Operator> step, std::shared_ptr<BadRows> bad_rows)
      : step_(std::move(step)), bad_rows_(std::move(bad_rows)) {}

  std::string name() const override { return step_->name(); }
  std::shared_ptr<const void> line_up() const override { return step_->line_up(); }
  bool keeps_rows() const override { return step_->keeps_rows() && bad_rows_->options().on_error == OnError::replace; }
  uint64_t fingerprint() const override { return mix(step_->fingerprint(), bad_rows_->fingerprint()); }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const override {
    return step_->schema(input);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                           uint64_t key) const override {
    return apply_at(block, key, {});
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply_at(const std::shared_ptr<arrow::RecordBatch>& block,
                                                              uint64_t key, const BlockPlace& place) const override {
    auto made = step_->apply(block, key);
    if (made.ok()) return made;
    const auto others = [&](int64_t other) -> arrow::Result<std::optional<BadRows::Other>> {
      auto read = place.read(other);
      if (!read.ok()) return std::nullopt;  // an error where its rows are due
      return BadRows::Other{(*read).rows->num_rows(), attempts(read->rows, read->key)};
    };
    return bad_rows_->without_bad(
        block->num_rows(), made.status(), attempts(block, key),
        [&](int64_t row) { return Json{{"step", step_->name()}, {"row", shown(*block, row)}}; },
        {.block = place.block, .blocks = place.blocks, .others = others});
  }

 private:
  BadRows::Attempt attempts(std::shared_ptr<arrow::RecordBatch> block, uint64_t key) const {
    return [step = step_, block = std::move(block), key](int64_t first, int64_t rows) {
      const bool is_whole = rows == block->num_rows();  // parts draw other numbers than each other
      return step->apply(block->Slice(first, rows), is_whole ? key : mix(key, static_cast<uint64_t>(first)));
    };
  }

  const std::shared_ptr<const Operator> step_;
  const std::shared_ptr<BadRows> bad_rows_;
};

}  // namespace

std::shared_ptr<const Operator> forgiving(std::shared_ptr<const Operator> step, std::shared_ptr<BadRows> bad_rows) {
  return std::make_shared<Forgiving>(std::move(step), std::move(bad_rows));
}

}  // namespace paceline::data
