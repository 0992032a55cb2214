// The data process's work: reads datasets and hands out their batches to the ranks of the node.
//
// Each rank has a socket and an arena. Whatever ranks ask, each dataset is opened once. Its blocks are read once in an
// epoch for the ranks that share its rows, in whatever order they begin; again only for one that is so far behind the
// others that the budget has no room for what is between them. A rank that asks for nothing holds nobody up: it holds
// its own slots.
//
// Threading: serve() from any thread. A rank has a thread that listens, one that answers questions, and one for each
// stream. A rank that ends, or says what is no message of service/messages.h, is let go of with all it had.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/data/reader/reader.h"

namespace paceline::data {

struct DataServiceOptions {
  /// Opens the dataset of that name; KeyError where there is none. Called once for each, again after an error.
  std::function<arrow::Result<std::shared_ptr<DatasetReader>>(const std::string&)> open;
  /// What a rank can make the exception of again that an error holds; "" for none.
  std::function<std::string(const arrow::Status&)> serialized;
  int64_t threads = 2;                        ///< that read and decode
  int64_t read_ahead_bytes = kDefaultBudget;  ///< of blocks, and of batches that ranks have
  int64_t arena_bytes = 0;                    ///< of each rank at most; 0: the machine's memory
};

/// Serves ranks until it is destroyed.
///
///     const std::unique_ptr<DataService> service = start_data_service({.open = …});
///     service->serve(std::move(socket));  // of a rank that has a DataClient at the other end
class DataService {
 public:
  virtual ~DataService() = default;
  /// From now on whoever is at the other end is served. Returns at once.
  virtual void serve(Descriptor rank) = 0;
  /// What has been done so far, of the datasets that are open.
  virtual std::vector<DatasetFigures> figures() = 0;
};

std::unique_ptr<DataService> start_data_service(DataServiceOptions options);

}  // namespace paceline::data
