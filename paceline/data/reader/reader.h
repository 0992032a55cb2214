// Who reads a dataset and makes batches of its rows: the calling process, or the data process of the node.
//
// A reader knows one dataset. It can give the batches of several ranks and epochs at the same time; what they are
// depends on what is asked alone, not on who reads. Any thread may call a reader's functions, one thread those of a
// RankBatches. What a reader gives may outlive it.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/data_figures.h"
#include "paceline/core/record.h"
#include "paceline/data/executor/batch_stream.h"
#include "paceline/data/plan/plan.h"

namespace paceline::data {

// What is known of a dataset before its rows are read.
#define PACELINE_DATASET_FACTS_FIELDS(FIELD)                                                               \
  FIELD(uint64_t, fingerprint, 0)     /* of the files and the steps */                                     \
  FIELD(int64_t, seed, 0)             /* of the order */                                                   \
  FIELD(bool, seed_is_drawn, false)   /* nobody has chosen it */                                           \
  FIELD(bool, counts_rows, true)      /* whether `rows` is how many there are: a filter may leave fewer */ \
  FIELD(int64_t, rows, 0)             /* of an epoch */                                                    \
  FIELD(int64_t, bytes, 0)            /* that they take in memory, about */                                \
  FIELD(int64_t, blocks, 0)           /* each of which is read alone */                                    \
  FIELD(bool, calls_functions, false) /* of users, for each block */
PACELINE_RECORD(DatasetFacts, PACELINE_DATASET_FACTS_FIELDS);

/// A rank's batches of one epoch.
struct BatchRequest {
  int64_t epoch = 0;
  std::optional<int64_t> seed = std::nullopt;  ///< of the order, instead of the dataset's
  StreamState from;                            ///< where in the epoch they begin
  BatchStreamOptions options;                  ///< `local_shuffle_key` follows from the seed and the epoch
  int64_t local_shuffle_seed = 0;
  int64_t threads = 2;                        ///< as StreamOptions has it; a data process has its own
  int64_t read_ahead_bytes = kDefaultBudget;  ///< likewise
  /// How many ranks of this process go through the epoch, and begin at the same place. What is read for the first stays
  /// for the others, in whatever order they begin, unless the budget has no room for it meanwhile.
  int64_t consumers = 1;
  friend bool operator==(const BatchRequest&, const BatchRequest&) = default;
};

/// Reads one dataset.
///
///     const std::shared_ptr<DatasetReader> reader = local_reader(*open(plan));
///     ARROW_ASSIGN_OR_RAISE(auto batches, reader->batches({.epoch = 3, .options = {.batch_size = 32}}));
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;
  virtual arrow::Result<DatasetFacts> facts() = 0;
  /// Its columns. Where a user's function makes them, a block is read for it.
  virtual arrow::Result<std::shared_ptr<arrow::Schema>> schema() = 0;
  virtual arrow::Result<std::unique_ptr<RankBatches>> batches(const BatchRequest& request) = 0;
  /// Where the epoch goes on behind the next `rows` rows of all ranks. `seed`: as of BatchRequest.
  virtual arrow::Result<StreamState> skipped(int64_t epoch, std::optional<int64_t> seed, int64_t rows,
                                             const StreamState& from) = 0;
  /// What has been done so far, without a name and ranks.
  virtual arrow::Result<DatasetFigures> statistics() = 0;
};

/// Reads in the calling process.
std::shared_ptr<DatasetReader> local_reader(OpenPlan plan);

}  // namespace paceline::data
