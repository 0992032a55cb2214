// Dataset: where rows come from and what is done to them, step by step, with Ray Data's names.
//
// A value: copies are cheap, and share what has been read of it. Each step gives a new dataset, and nothing is read
// before rows are wanted. Any thread may call its functions. Errors are exceptions: ConfigError for what is not
// allowed, StorageError for files that cannot be read; where steps and files do not fit, when the rows are wanted.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/io/type_fwd.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/data/dataset/aggregate.h"
#include "paceline/data/dataset/datasink.h"
#include "paceline/data/operator/map_batches.h"
#include "paceline/data/order/mix_order.h"
#include "paceline/data/plan/edit.h"
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

/// How mix() takes turns.
struct MixOptions {
  std::vector<double> weights = {};  ///< one for each dataset, the first one included; empty: all are equal
  /// Where it ends; Ray's STOP_ON_SHORTEST is `first`, STOP_ON_LONGEST_DROP `all`.
  MixStop stopping_condition = MixStop::all;
};

/// Where cache() keeps rows.
struct CacheSettings {
  /// A folder on this machine, in which other processes and later runs find them too; nullopt: in memory.
  std::optional<std::string> path = std::nullopt;
  /// That they may take; by default 1 GiB in memory, and any number on a disk. What finds no room is made anew.
  std::optional<int64_t> bytes = std::nullopt;
  /// On a disk: another text where a function has changed that made the rows, whose code nobody else knows.
  std::string version = "";
};

/// Of random_sample().
struct SampleSeed {
  std::optional<int64_t> seed = std::nullopt;  ///< the same one takes the same rows; nullopt: one is drawn now
};

/// How a function of a row is called: see MapBatchesOptions.
struct MapOptions {
  std::string on_error = "raise";  ///< "raise", "skip" or "replace": what becomes of a row that the function throws for
  std::string quarantine = "";     ///< path of a file to which such rows are added, as JSON lines; "": none
};

/// What aggregate() gives: by the names of the aggregates.
using AggregateResults = std::map<std::string, std::shared_ptr<arrow::Scalar>>;

/// A plan for rows, with what is read of it in this process. The functions of read_api.h make one.
///
///     namespace data = paceline::data;
///     data::Dataset images = data::read_parquet("images/").random_shuffle({.seed = 7}).map_batches(normalize);
class Dataset {
 public:
  /// Users take read_parquet() and its like.
  explicit Dataset(Plan plan);
  /// The same.
  explicit Dataset(SharedPlan plan);

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
  /// with_column() of several, each of which sees those before it.
  Dataset with_columns(const std::vector<std::pair<std::string, arrow::compute::Expression>>& values) const;
  /// Batches as what `function` makes of them. It is registered with PACELINE_MAP_BATCHES (train/data/map_batches.h);
  /// otherwise UsageError. Several threads call it at the same time.
  template <class Function>
    requires std::is_function_v<Function>
  Dataset map_batches(Function* function, const MapBatchesOptions& options = {}) const {
    return map_batches(map_batches_name(reinterpret_cast<FunctionAddress>(function)), options);
  }
  /// The same by the name under which the function is registered.
  Dataset map_batches(const std::string& function, const MapBatchesOptions& options = {}) const;
  /// Each row as what `function` makes of it. It is registered with PACELINE_MAP (train/data/map_batches.h).
  template <class Function>
    requires std::is_function_v<Function>
  Dataset map(Function* function, const MapOptions& options = {}) const {
    return call(FunctionForm::row, function, options);
  }
  /// Each row as the rows that `function` makes of it, likewise.
  template <class Function>
    requires std::is_function_v<Function>
  Dataset flat_map(Function* function, const MapOptions& options = {}) const {
    return call(FunctionForm::rows, function, options);
  }
  /// The rows for which `function` gives true, likewise.
  template <class Function>
    requires std::is_function_v<Function>
  Dataset filter(Function* function, const MapOptions& options = {}) const {
    return call(FunctionForm::condition, function, options);
  }
  /// With a column of what `function` makes of each batch: a tensor with a value for each row. It is registered with
  /// PACELINE_MAP_BATCHES.
  template <class Function>
    requires std::is_function_v<Function>
  Dataset add_column(const std::string& name, Function* function) const {
    return call(FunctionForm::column, function, {}, name);
  }
  /// The first rows of the order.
  Dataset limit(int64_t rows) const;
  /// The rows of this and of other datasets; Ray's union(), which is a word of C++. Where one is shuffled, all rows
  /// are.
  Dataset union_with(const std::vector<Dataset>& others) const;
  /// The rows of this and of other datasets, interleaved by weights: after any number of rows, each has given its part
  /// of them to the row. Each keeps its own order, shuffled or not.
  Dataset mix(const std::vector<Dataset>& others, const MixOptions& options = {}) const;
  /// Row by row the columns of this and of other datasets, which have equally many rows. A name that is there already
  /// gets a number: "x_1".
  Dataset zip(const std::vector<Dataset>& others) const;
  /// The same rows, which are made once: later epochs take them from the cache. What steps before do by chance is drawn
  /// once. Not Ray Data's.
  Dataset cache(const CacheSettings& options = {}) const;

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
  /// A dataset for each proportion, and one for what is left, each with at least one row. Their sum is below 1.
  std::vector<Dataset> split_proportionately(const std::vector<double>& proportions) const;
  /// Two datasets: the last rows are the second; `test_size` is a part between 0 and 1, or their number.
  std::pair<Dataset, Dataset> train_test_split(const TestSize& test_size,
                                               const TrainTestSplitOptions& options = {}) const;
  /// Two datasets, without a look at the rows before: each row is in one of them, in each epoch the same one, however
  /// rows are shuffled. The second has about the part `test_size` of them.
  std::pair<Dataset, Dataset> streaming_train_test_split(double test_size, const StreamingSplit& options = {}) const;
  /// About this part of the rows, each by chance; the same ones in each epoch, however they are shuffled.
  Dataset random_sample(double fraction, const SampleSeed& options = {}) const;

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
  /// All of them. ConfigError where there are more than `limit`.
  std::shared_ptr<arrow::Table> take_all(std::optional<int64_t> limit = std::nullopt) const;
  /// The first rows in one batch. ConfigError where there are none.
  std::shared_ptr<arrow::RecordBatch> take_batch(int64_t batch_size = 20) const;
  /// Prints the first rows.
  void show(int64_t limit = 20) const;
  /// The same rows in memory: read now, never again. In the order of the first epoch.
  Dataset materialize() const;
  /// A Parquet file for each block, in a folder: on this machine, or in an object store (docs/storage.md). A file is
  /// there whole or not at all, and where a write fails, none of its files stay. StorageError where they cannot be
  /// written.
  void write_parquet(const std::string& path) const;
  /// CSV files, likewise.
  void write_csv(const std::string& path) const;
  /// Files of JSON lines, likewise. Times, dates and decimals are texts; NaN is null.
  void write_json(const std::string& path) const;
  /// .npy files of a column, likewise: of numbers, truth values, or tensors of them.
  void write_numpy(const std::string& path, const std::string& column) const;
  /// Gives its blocks to `sink`. What that throws, or reading does, is thrown here.
  void write_datasink(Datasink& sink) const;
  /// Several aggregates in one pass, for which no other columns are read than theirs. Of several of one name the second
  /// is called "std(x)_2". ConfigError where a column cannot be aggregated so.
  ///
  ///     const auto of_all = ds.aggregate({data::Count(), data::Mean("x"), data::Std("x", 0), data::Max("y")});
  ///     const auto& mean = static_cast<const arrow::DoubleScalar&>(*of_all.at("mean(x)"));
  AggregateResults aggregate(const std::vector<Aggregate>& aggregates) const;
  /// The sum of a column without its nulls; null where it has nothing else. ConfigError where it cannot be added, or is
  /// too large for its type.
  std::shared_ptr<arrow::Scalar> sum(const std::string& column) const;
  /// Its smallest value, likewise.
  std::shared_ptr<arrow::Scalar> min(const std::string& column) const;
  /// Its largest value, likewise.
  std::shared_ptr<arrow::Scalar> max(const std::string& column) const;
  /// Its mean, without nulls; nullopt where there is nothing else.
  std::optional<double> mean(const std::string& column) const;
  /// Its standard deviation, with `rows - ddof` in the denominator, likewise.
  std::optional<double> std(const std::string& column, int64_t ddof = 1) const;
  /// Its values, each once, in the order in which they come; null is one.
  std::shared_ptr<arrow::Array> unique(const std::string& column) const;
  /// What has been read of this dataset in this process, step by step, and what bounds it.
  std::string stats() const;
  /// The steps that are taken, one a line.
  std::string explain() const;

  /// With a step of this kind behind it (plan/plan.h), which may take others, too. Users take the functions above.
  Dataset step(std::string kind, Json options, const std::vector<Dataset>& others = {}) const;
  /// Its steps: what travels to the processes that read it.
  const Plan& plan() const;
  /// Who reads it in this process; opened when it is first asked for.
  std::shared_ptr<DatasetReader> reader() const;

 private:
  struct Shared;

  template <class Function>
  Dataset call(FunctionForm form, Function* function, const MapOptions& options, const std::string& column = "") const {
    const MapBatchesOptions all{.on_error = options.on_error, .quarantine = options.quarantine};
    return call(form, map_batches_name(reinterpret_cast<FunctionAddress>(function)), all, column);
  }
  Dataset call(FunctionForm form, const std::string& function, const MapBatchesOptions& options,
               const std::string& column = "") const;
  std::shared_ptr<arrow::Scalar> only(const Aggregate& aggregate) const;
  void write_files(const char* call, const std::string& path, const char* ending,
                   const std::function<arrow::Status(const std::shared_ptr<arrow::RecordBatch>&,
                                                     const std::shared_ptr<arrow::io::OutputStream>&)>& write) const;
  void for_each_block(const std::function<bool(const std::shared_ptr<arrow::RecordBatch>&)>& visit,
                      int64_t batch_size = 0) const;

  std::shared_ptr<Shared> shared_;
};

}  // namespace paceline::data
