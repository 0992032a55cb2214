// One rank that a DataService serves: its socket, its arena, its streams.
//
// Threads: one that listens, one that answers questions, one for each stream. Destruction ends them; a read that is
// under way is waited for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "paceline/data/service/arena.h"
#include "paceline/data/service/data_service.h"
#include "paceline/data/service/given_internal.h"
#include "paceline/data/service/messages.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::data {

class ServedRank {
 public:
  /// The options outlive it; their `open` gives a dataset that is open already.
  ServedRank(Descriptor socket, const DataServiceOptions& options, const std::shared_ptr<Ledger>& ledger, Given& given);
  ~ServedRank();

  /// `on_done` is called once, on the listening thread, when is_done() is true.
  void start(std::function<void()> on_done);
  /// Whether the rank is gone, or has to go.
  bool is_done() const { return done_; }

 private:
  struct Stream {
    OpenStream asked;
    int64_t wanted = 0;  // batches that are to be made
    bool is_read = false;
    bool closed = false;
    std::shared_ptr<RankBatches> batches;  // once it is open
    std::thread thread;
    std::vector<RankFigures> unread;  // of batches that were made early
    void go_on() const {
      if (batches != nullptr) batches->read();
    }
  };

  void listen();
  arrow::Status take(rpc::Envelope message);
  void open(OpenStream asked);
  void give(Stream& stream);
  arrow::Status give_batches(Stream& stream);
  bool waits_until_wanted(Stream& stream);
  void close(const CloseStream& asked);
  void answer_questions();
  arrow::Result<rpc::Envelope> answer(const rpc::Envelope& question);
  rpc::Envelope failure(const arrow::Status& status, int64_t stream) const;
  arrow::Status send(rpc::Envelope message) { return socket_.send(std::move(message)); }

  void note(const Stream& stream, RankFigures more);
  void note_made(Stream& stream, const RankFigures& made);

  const DataServiceOptions& options_;
  const std::shared_ptr<Ledger> ledger_;
  Given& given_;
  rpc::BlockingSocket socket_;
  std::shared_ptr<Arena> arena_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Stream>> closed_;  // whose threads have not ended yet
  std::deque<rpc::Envelope> questions_;
  bool stopped_ = false;
  std::atomic<bool> done_ = false;
  std::thread listener_, answerer_;
};

}  // namespace paceline::data
