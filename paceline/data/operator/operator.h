// What is done to blocks of rows: select columns, keep some rows, call a function of the user's.
//
// An operator sees one block at a time and remembers nothing, so that any thread can apply it to any block, and to the
// same block again, with the same result. Where chance plays a part, it comes from the block's key.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/data/operator/durations.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

/// Where a block stands among those that an operator is applied to.
struct BlockPlace {
  struct Block {
    std::shared_ptr<arrow::RecordBatch> rows;
    uint64_t key = 0;
  };
  int64_t block = 0;
  int64_t blocks = 1;
  std::function<arrow::Result<Block>(int64_t block)> read;  ///< one of the others
};

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
  /// The block that it makes of `block`. `key` is of seed, epoch, chunk and the operator's
  /// place: what is done by chance is a function of it.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply(const std::shared_ptr<arrow::RecordBatch>& block,
                                                                   uint64_t key) const = 0;
  /// apply(), for an operator that may look at other blocks, too: what it makes is a function of all of them then, and
  /// still of nothing else.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> apply_at(const std::shared_ptr<arrow::RecordBatch>& block,
                                                                      uint64_t key, const BlockPlace& place) const;
  /// Called by a thread that is to make a block and will apply the operator to it; what it gives is kept until that is
  /// done. For an operator that some threads have to wait for: those that come first are to go first.
  virtual std::shared_ptr<const void> line_up() const { return nullptr; }
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
  UnderWay in_hand;                    ///< blocks that are worked on now
  Durations busy;                      ///< for a block, without Waiting
  std::atomic<int64_t> waited_ns = 0;  ///< for others (Waiting), of all threads together
};

/// The source whose chunks are those of `source`, each with the operator applied. `place`: another number for each of
/// several operators behind each other, so that what one does by chance says nothing of what the next does.
std::shared_ptr<const Source> transformed(std::shared_ptr<const Source> source, std::shared_ptr<const Operator> step,
                                          std::shared_ptr<OperatorStatistics> statistics, uint64_t place = 0);
/// `source` itself, with its reads counted.
std::shared_ptr<const Source> measured(std::shared_ptr<const Source> source,
                                       std::shared_ptr<OperatorStatistics> statistics);

}  // namespace paceline::data
