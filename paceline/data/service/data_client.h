// A rank's side of the data process: readers whose batches are made there.
//
// A client has one connection for all datasets and streams. When the data process dies, the client asks for a
// connection to the next one, and each stream goes on behind the last batch that had arrived: for the train loop that
// is a wait. Batches that are there stay what they are, also those of a process that is gone.
//
// Threading: any thread may call; a thread of the client's listens. Readers and batches keep the client alive; the
// batches' memory outlives both. After fork() a child must not use it.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/data/reader/reader.h"

namespace paceline::data {

struct DataClientOptions {
  /// Gives a socket to a data process, and waits for one to be there. Called on the client's thread, also after the
  /// first process has gone. Its error is final: everything that waits gets it. A client may end while this waits, and
  /// does not wait for it: what it uses must live on.
  std::function<arrow::Result<Descriptor>()> connect;
  /// Makes the error that the data process has had of its text and what DataServiceOptions::serialized() made of it.
  std::function<arrow::Status(const arrow::Status& text, const std::string& serialized)> restored;
  /// Called by the thread that wants a batch, when it begins to wait for one (true) and when it has it. May be empty.
  std::function<void(bool waits)> on_wait;
};

class DataClient {
 public:
  virtual ~DataClient() = default;
  /// Reads the dataset of that name. Whether there is one is found out with the first call.
  virtual std::shared_ptr<DatasetReader> reader(const std::string& name) = 0;
};

std::shared_ptr<DataClient> make_data_client(DataClientOptions options);

}  // namespace paceline::data
