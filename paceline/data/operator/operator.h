// What is done to blocks of rows: select columns, keep some rows, call a function of the user's.
//
// An operator sees one block at a time and remembers nothing, so that any thread can apply it to any block, and to the
// same block again, with the same result. Where chance plays a part, it comes from the block's key.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "paceline/data/operator/durations.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

/// A function from blocks to blocks. Thread-safe.
class Operator {
 public:
  virtual ~Operator() = default;
  /// As statistics and plans show it: "Filter(x > 3)".
  virtual std::string name() const = 0;
  /// Whether each row gives one row, in the same place.
  virtual bool keeps_rows() const = 0;
  /// The columns that it makes of columns of `input`; a null pointer where only the rows can tell. Invalid where it
  /// cannot be applied to such columns.
  virtual arrow::Result<std::shared_ptr<arrow::Schema>> schema(const std::shared_ptr<arrow::Schema>& input) const = 0;
  /// The block that it makes of `block`. `key` is of seed, epoch and chunk: what is done by chance is a function of it.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                                   uint64_t key) const = 0;
  /// The bytes, about, that are in memory while it makes a block of one of so many bytes, without that which it makes:
  /// usually the block that it is made of.
  virtual int64_t bytes_besides(int64_t block) const { return block; }
  /// A number that is another for another operator: of its name and what it does.
  virtual uint64_t fingerprint() const = 0;
};

/// What an operator has done so far, by all threads. Those who read see each number as it is at the time.
struct OperatorStatistics {
  explicit OperatorStatistics(std::string operator_name) : name(std::move(operator_name)) {}
  const std::string name;
  std::atomic<int64_t> blocks = 0;
  std::atomic<int64_t> rows_in = 0;
  std::atomic<int64_t> rows_out = 0;
  std::atomic<int64_t> bytes_out = 0;
  std::atomic<int64_t> in_hand = 0;    ///< blocks that are worked on now
  Durations busy;                      ///< for a block, without Waiting
  std::atomic<int64_t> waited_ns = 0;  ///< for others (Waiting), of all threads together
};

/// The source whose chunks are those of `source`, each with the operator applied.
std::shared_ptr<const Source> transformed(std::shared_ptr<const Source> source, std::shared_ptr<const Operator> step,
                                          std::shared_ptr<OperatorStatistics> statistics);
/// `source` itself, with its reads counted.
std::shared_ptr<const Source> measured(std::shared_ptr<const Source> source,
                                       std::shared_ptr<OperatorStatistics> statistics);

}  // namespace paceline::data
