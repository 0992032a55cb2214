// Dataset: where rows come from and what is done to them, step by step, with Ray Data's names.
//
// A value: copies are cheap, and share what has been read of it. Each step gives a new dataset, and nothing is read
// before rows are wanted. Any thread may call its functions. Errors are exceptions: ConfigError for what is not
// allowed, StorageError for files that cannot be read; where steps and files do not fit, when the rows are wanted.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/data/operator/map_batches.h"
#include "paceline/data/plan/plan.h"
#include "paceline/data/reader/reader.h"

namespace paceline::data {

/// How rows are put into another order.
struct ShuffleOptions {
  std::optional<int64_t> seed = std::nullopt;  ///< the same one gives the same order; nullopt: one is drawn now
};

/// How rows are divided.
struct SplitOptions {
  bool equal = false;  ///< all parts have equally many rows; fewer than there are parts are left out
};

/// How train_test_split() divides.
struct TrainTestSplitOptions {
  bool shuffle = false;                        ///< whether rows are mixed before
  std::optional<int64_t> seed = std::nullopt;  ///< of that
};

/// A plan for rows, with what is read of it in this process. The functions of read_api.h make one.
///
///     namespace data = paceline::data;
///     data::Dataset images = data::read_parquet("images/").random_shuffle({.seed = 7}).map_batches(normalize);
class Dataset {
 public:
  /// Users take read_parquet() and its like.
  explicit Dataset(Plan plan);

  /// These columns alone, in this order. Nothing else is read of files whose format allows that.
  Dataset select_columns(const std::vector<std::string>& names) const;
  /// All columns but these.
  Dataset drop_columns(const std::vector<std::string>& names) const;
  /// With other names, by the old ones.
  Dataset rename_columns(const std::map<std::string, std::string>& names) const;
  /// The rows for which `condition` is true.
  ///
  ///     ds.filter(compute::greater(compute::field_ref("x"), compute::literal(3)))  // of arrow::compute
  Dataset filter(const arrow::compute::Expression& condition) const;
  /// With a column that `value` computes, in the place of one that is called so.
  Dataset with_column(const std::string& name, const arrow::compute::Expression& value) const;
  /// Batches as what `function` makes of them. It is registered with PACELINE_MAP_BATCHES (train/data/map_batches.h);
  /// otherwise UsageError. Several threads call it at the same time.
  template <class Function>
    requires std::is_function_v<Function>
  Dataset map_batches(Function* function, const MapBatchesOptions& options = {}) const {
    return map_batches(map_batches_name(reinterpret_cast<FunctionAddress>(function)), options);
  }
  /// The same by the name under which the function is registered.
  Dataset map_batches(const std::string& function, const MapBatchesOptions& options = {}) const;
  /// The first rows of the order.
  Dataset limit(int64_t rows) const;
  /// The rows of this and of other datasets; Ray's union(), which is a word of C++. Where one is shuffled, all rows
  /// are.
  Dataset union_with(const std::vector<Dataset>& others) const;

  /// Rows in another order in each epoch. Nothing is held in memory for it but a window of blocks.
  Dataset random_shuffle(const ShuffleOptions& options = {}) const;
  /// Blocks in another order in each epoch, their rows as they stand.
  Dataset randomize_block_order(const ShuffleOptions& options = {}) const;
  /// Files in another order in each epoch, with their rows in sequence: what `shuffle = "files"` of a reader does.
  Dataset randomize_file_order(const ShuffleOptions& options = {}) const;
  /// The same rows in another number of blocks.
  Dataset repartition(int64_t num_blocks) const;

  /// `n` datasets with a part of the rows each, in order.
  std::vector<Dataset> split(int64_t n, const SplitOptions& options = {}) const;
  /// The rows before the first index, from there to the second, …, and from the last on.
  std::vector<Dataset> split_at_indices(const std::vector<int64_t>& indices) const;
  /// Two datasets: the last rows, a part of `test_size` between 0 and 1, are the second.
  std::pair<Dataset, Dataset> train_test_split(double test_size, const TrainTestSplitOptions& options = {}) const;

  /// Its columns. Where a function makes them, the first block is made.
  std::shared_ptr<arrow::Schema> schema() const;
  /// The names of its columns.
  std::vector<std::string> columns() const;
  /// Its number of rows. Read only where the files do not say it (after a filter).
  int64_t count() const;
  /// The number of blocks, each of which is read alone.
  int64_t num_blocks() const;
  /// About how many bytes its rows take in memory, as the files say.
  int64_t size_bytes() const;
  /// What it was told to read.
  std::vector<std::string> input_files() const;
  /// The first rows of the first epoch.
  std::shared_ptr<arrow::Table> take(int64_t limit = 20) const;
  /// Prints the first rows.
  void show(int64_t limit = 20) const;
  /// The same rows in memory: read now, never again. In the order of the first epoch.
  Dataset materialize() const;
  /// A Parquet file for each block, in a folder on this machine.
  void write_parquet(const std::string& path) const;
  /// What has been read of this dataset in this process, step by step, and what bounds it.
  std::string stats() const;
  /// The steps that are taken, one a line.
  std::string explain() const;

  /// Its steps: what travels to the processes that read it.
  const Plan& plan() const;
  /// Who reads it in this process; opened when it is first asked for.
  std::shared_ptr<DatasetReader> reader() const;

 private:
  struct Shared;

  Dataset step(std::string kind, Json options, const std::vector<Dataset>& others = {}) const;
  Dataset range(int64_t first, int64_t rows) const;
  void for_each_block(const std::function<bool(const std::shared_ptr<arrow::RecordBatch>&)>& visit,
                      int64_t batch_size = 0) const;

  std::shared_ptr<Shared> shared_;
};

}  // namespace paceline::data
