// Where cached blocks are: in memory or on a disk.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace paceline::data {

/// Blocks by their number. Thread-safe.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  /// A null pointer for a block that is not there, or is damaged.
  virtual std::shared_ptr<arrow::RecordBatch> find(int64_t block) = 0;
  /// Keeps it if there is room.
  virtual void keep(int64_t block, const std::shared_ptr<arrow::RecordBatch>& rows) = 0;
};

/// nullopt: half of the budget of whoever reads, in which the blocks count.
std::unique_ptr<BlockStore> memory_store(std::optional<int64_t> bytes);
/// In the folder `name` of the folder `path`.
arrow::Result<std::unique_ptr<BlockStore>> disk_store(const std::string& path, const std::string& name, int64_t bytes);

}  // namespace paceline::data
