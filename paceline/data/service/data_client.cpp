#include "paceline/data/service/data_client.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "paceline/core/posix/forks.h"
#include "paceline/core/posix/thread.h"
#include "paceline/data/reader/home_batches_internal.h"
#include "paceline/data/service/batch_memory_internal.h"
#include "paceline/data/service/data_link_internal.h"

namespace paceline::data {
namespace {

// A rank that waits says so that often.
constexpr std::chrono::seconds kToldEvery{1};
// Of batches that are small, handing one over costs more than making it: more are asked for, some at a time.
constexpr int64_t kSmallBatch = int64_t{16} << 10;  // bytes
constexpr int64_t kSmallAhead = 16;

// A stream as the rank sees it. Its client's mutex protects it.
struct RemoteStream {
  OpenStream asked;  // `from` moves on with what has arrived
  int64_t prefetch_batches = 0;
  int64_t owed = 0;  // batches that were asked for and have not arrived
  struct Arrived {
    std::shared_ptr<arrow::Buffer> slot;
    StreamState after;
    bool is_near_end = false;
  };
  std::deque<Arrived> arrived;
  std::chrono::duration<double> waited{};  // that the data process has not been told of
  std::chrono::steady_clock::time_point told = std::chrono::steady_clock::now();  // when it was told last
  std::optional<arrow::Status> end;  // no further batch: OK at the end of the epoch
};

class Client : public DataClient, public std::enable_shared_from_this<Client> {
 public:
  explicit Client(DataClientOptions options) : options_(std::move(options)) {}

  ~Client() override {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      if (link_ != nullptr) link_->shut_down();
    }
    // The listener may be the one that lets go of the last reference, and it may wait for a process that never comes.
    if (thread_.joinable()) thread_.detach();
  }

  std::shared_ptr<DatasetReader> reader(const std::string& name) override;

  // The answer to a question, of a data process that is there: where one dies over it, the next one is asked.
  arrow::Result<rpc::Envelope> ask(const rpc::Envelope& question) {
    ARROW_RETURN_NOT_OK(check_home());
    std::unique_lock lock(mutex_);
    begin_to_listen();
    const int64_t number = ++last_number_;
    Question& waiting = questions_[number];
    waiting.type = question.type;
    waiting.body = question.body;
    send_question(number, waiting);
    changed_.wait(lock, [&] { return broken_ || waiting.reply; });
    std::optional<rpc::Envelope> reply = std::move(waiting.reply);
    questions_.erase(number);
    if (!reply) return *broken_;
    lock.unlock();
    if (reply->type == ReadFailed::kType) return failure_in(*reply);
    return *std::move(reply);
  }

  arrow::Status check_home() const {
    if (home_.is_here()) return arrow::Status::OK();
    return arrow::Status::Invalid("the data process makes batches for process ", home_.pid(),
                                  ", of which this one is a fork: read them there (a DataLoader with num_workers=0)");
  }

  std::shared_ptr<RemoteStream> open(OpenStream asked, int64_t prefetch_batches) {
    auto stream = std::make_shared<RemoteStream>();
    const std::lock_guard lock(mutex_);
    begin_to_listen();
    asked.stream = ++last_number_;
    stream->asked = std::move(asked);
    stream->prefetch_batches = prefetch_batches;
    stream->owed = prefetch_batches;
    streams_[stream->asked.stream] = stream;
    open_over_link(*stream);
    return stream;
  }

  void close(const std::shared_ptr<RemoteStream>& stream) {
    std::deque<RemoteStream::Arrived> arrived;  // freed without the lock
    const std::lock_guard lock(mutex_);
    arrived.swap(stream->arrived);
    streams_.erase(stream->asked.stream);
    if (stream->asked.begins_early) stream->told = std::chrono::steady_clock::now();  // nobody has read it
    send(rpc::pack(with_times(CloseStream{.stream = stream->asked.stream}, *stream)));
  }

  void read(RemoteStream& stream) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(stream.asked.begins_early, false)) return;
    stream.told = std::chrono::steady_clock::now();
    send(rpc::pack(ReadStream{.stream = stream.asked.stream}));
  }

  // The next batch; nothing at the end.
  arrow::Result<std::optional<RemoteStream::Arrived>> next(RemoteStream& stream) {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return !stream.arrived.empty() || stream.end || broken_; };
    if (!is_there() && stream.owed == 0) want(stream, 1);
    if (!is_there()) {
      auto since = std::chrono::steady_clock::now();
      const auto note_wait = [&] {
        const auto now = std::chrono::steady_clock::now();
        stream.waited += now - std::exchange(since, now);
      };
      if (options_.on_wait) options_.on_wait(true);
      while (!changed_.wait_for(lock, kToldEvery, is_there)) {  // who looks on sees who waits before it is over
        note_wait();
        want(stream, 0);
      }
      if (options_.on_wait) options_.on_wait(false);
      note_wait();
    }
    if (stream.arrived.empty()) {
      ARROW_RETURN_NOT_OK(stream.end ? *stream.end : *broken_);
      return std::nullopt;
    }
    RemoteStream::Arrived batch = std::move(stream.arrived.front());
    stream.arrived.pop_front();
    if (stream.prefetch_batches > 0 && !stream.end) want_ahead(stream, batch.slot->size());
    return batch;
  }

  bool is_ready(const RemoteStream& stream) const {
    const std::lock_guard lock(mutex_);
    return !stream.arrived.empty() || stream.end || broken_;
  }
  /// Where the epoch ends.
  StreamState end_of(const RemoteStream& stream) const {
    const std::lock_guard lock(mutex_);
    return stream.asked.from;
  }

 private:
  struct Question {
    std::string type;
    Json body;
    std::optional<rpc::Envelope> reply;
  };

  void begin_to_listen() {
    if (!thread_.joinable()) thread_ = start_thread([weak = weak_from_this()] { listen(weak); });
  }

  // Without a link nothing is lost: whatever is open is said to the next one.
  void send(rpc::Envelope message) {
    if (link_ != nullptr) (void)link_->send(std::move(message));
  }

  void want(RemoteStream& stream, int64_t batches) {
    stream.owed += batches;
    send(rpc::pack(with_times(WantBatches{.stream = stream.asked.stream, .batches = batches}, stream)));
  }

  // Behind a batch of so many bytes.
  void want_ahead(RemoteStream& stream, int64_t bytes) {
    const bool is_small = bytes <= kSmallBatch;
    const int64_t wanted = is_small ? std::max(stream.prefetch_batches, kSmallAhead) : stream.prefetch_batches;
    const int64_t ahead = stream.owed + std::ssize(stream.arrived);
    if (ahead <= (is_small ? wanted / 2 : wanted - 1)) want(stream, wanted - ahead);
  }

  template <class Message>
  static Message with_times(Message message, RemoteStream& stream) {
    const auto now = std::chrono::steady_clock::now();
    message.waited_s = std::exchange(stream.waited, {}).count();
    message.open_s = std::chrono::duration<double>(now - std::exchange(stream.told, now)).count();
    return message;
  }

  void open_over_link(const RemoteStream& stream) {
    if (stream.end) return;
    send(rpc::pack(stream.asked));
    if (stream.owed > 0) send(rpc::pack(WantBatches{.stream = stream.asked.stream, .batches = stream.owed}));
  }

  void send_question(int64_t number, const Question& question) {
    rpc::Envelope message;
    message.type = question.type;
    message.body = question.body;
    message.request = number;
    send(std::move(message));
  }

  // The life of the listening thread: one link after another. It holds the client only while it changes something.
  static void listen(const std::weak_ptr<Client>& weak) {
    while (true) {
      decltype(options_.connect) connect;
      if (const auto client = weak.lock()) connect = client->options_.connect;
      if (!connect) return;
      auto link = open_link(connect);
      if (const auto client = weak.lock(); client == nullptr || !client->take_link(link)) return;
      while (true) {
        auto message = (*link)->receive();
        const auto client = weak.lock();
        if (client == nullptr) return;
        if (!message.ok()) break;
        const arrow::Status taken = client->take(**link, *std::move(message));
        if (!taken.ok()) break;
      }
      (*link)->shut_down();
    }
  }

  static arrow::Result<std::shared_ptr<DataLink>> open_link(const decltype(DataClientOptions::connect)& connect) {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(Descriptor socket, connect());
      auto link = DataLink::open(std::move(socket));
      if (link.ok() || link.status().IsInvalid()) return link;  // otherwise it died meanwhile
    }
  }

  // False when there is no use in going on.
  bool take_link(const arrow::Result<std::shared_ptr<DataLink>>& link) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    if (!link.ok()) {
      broken_ = link.status();
      changed_.notify_all();
      return false;
    }
    link_ = *link;
    for (const auto& [number, stream] : streams_) open_over_link(*stream);
    for (const auto& [number, question] : questions_) {
      if (!question.reply) send_question(number, question);
    }
    return true;
  }

  arrow::Status take(DataLink& link, rpc::Envelope message) {
    if (message.reply_to != 0) {
      const std::lock_guard lock(mutex_);
      const auto question = questions_.find(message.reply_to);
      if (question != questions_.end()) question->second.reply = std::move(message);
    } else if (message.type == BatchMade::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, rpc::unpack<BatchMade>(message));
      ARROW_ASSIGN_OR_RAISE(auto slot, link.slot(batch));  // freed without the lock, where nobody wants it any more
      const std::lock_guard lock(mutex_);
      const auto stream = streams_.find(batch.stream);
      if (stream == streams_.end()) return arrow::Status::OK();
      --stream->second->owed;
      stream->second->asked.from = batch.state;
      stream->second->arrived.push_back({std::move(slot), batch.state, batch.is_near_end});
    } else if (message.type == StreamEnded::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto ended, rpc::unpack<StreamEnded>(message));
      end(ended.stream, arrow::Status::OK(), &ended.state);
    } else if (message.type == ReadFailed::kType) {
      ARROW_ASSIGN_OR_RAISE(const auto failed, rpc::unpack<ReadFailed>(message));
      end(failed.stream, failure_in(message), nullptr);
    }
    changed_.notify_all();
    return arrow::Status::OK();
  }

  void end(int64_t number, arrow::Status status, const StreamState* state) {
    const std::lock_guard lock(mutex_);
    const auto stream = streams_.find(number);
    if (stream == streams_.end()) return;
    if (state != nullptr) stream->second->asked.from = *state;
    stream->second->end = std::move(status);
  }

  arrow::Status failure_in(const rpc::Envelope& message) const {
    ARROW_ASSIGN_OR_RAISE(const auto failed, rpc::unpack<ReadFailed>(message));
    arrow::Status status(static_cast<arrow::StatusCode>(failed.code), failed.text);
    if (status.ok()) status = arrow::Status::IOError("the data process failed without saying why");
    return options_.restored && !message.bytes.empty() ? options_.restored(status, message.bytes) : status;
  }

  const HomeProcess home_;
  const DataClientOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<DataLink> link_;
  std::map<int64_t, std::shared_ptr<RemoteStream>> streams_;
  std::map<int64_t, Question> questions_;
  int64_t last_number_ = 0;
  std::optional<arrow::Status> broken_;  // for good
  bool closed_ = false;
  std::thread thread_;
};

class RemoteBatches : public RankBatches {
 public:
  RemoteBatches(std::shared_ptr<Client> client, OpenStream asked, int64_t prefetch_batches)
      : client_(std::move(client)), state_(asked.from), stream_(client_->open(std::move(asked), prefetch_batches)) {}
  ~RemoteBatches() override { client_->close(stream_); }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() override {
    ARROW_ASSIGN_OR_RAISE(auto arrived, client_->next(*stream_));
    if (!arrived) {
      state_ = client_->end_of(*stream_);
      return nullptr;
    }
    state_ = arrived->after;
    is_near_end_ = arrived->is_near_end;
    return batch_in(std::move(arrived->slot));
  }
  bool is_ready() const override { return client_->is_ready(*stream_); }
  const StreamState& state() const override { return state_; }
  bool is_near_end() const override { return is_near_end_; }
  void read() override { client_->read(*stream_); }

 private:
  const std::shared_ptr<Client> client_;
  StreamState state_;
  bool is_near_end_ = false;
  const std::shared_ptr<RemoteStream> stream_;
};

class RemoteReader : public DatasetReader {
 public:
  RemoteReader(std::shared_ptr<Client> client, std::string dataset)
      : client_(std::move(client)), dataset_(std::move(dataset)) {}

  arrow::Result<DatasetFacts> facts() override {
    ARROW_ASSIGN_OR_RAISE(const auto reply, client_->ask(rpc::pack(FactsRequest{dataset_})));
    ARROW_ASSIGN_OR_RAISE(const auto facts, rpc::unpack<FactsReply>(reply));
    return facts.facts;
  }

  arrow::Result<std::shared_ptr<arrow::Schema>> schema() override {
    ARROW_ASSIGN_OR_RAISE(auto reply, client_->ask(rpc::pack(SchemaRequest{dataset_})));
    ARROW_RETURN_NOT_OK(rpc::unpack<SchemaReply>(reply));
    arrow::io::BufferReader bytes(arrow::Buffer::FromString(std::move(reply.bytes)));
    arrow::ipc::DictionaryMemo dictionaries;
    return arrow::ipc::ReadSchema(&bytes, &dictionaries);
  }

  arrow::Result<std::unique_ptr<RankBatches>> batches(const BatchRequest& request) override {
    ARROW_RETURN_NOT_OK(client_->check_home());
    return at_home(std::make_unique<RemoteBatches>(client_,
                                                   OpenStream{.dataset = dataset_,
                                                              .epoch = request.epoch,
                                                              .seed = request.seed,
                                                              .from = request.from,
                                                              .batch_size = request.options.batch_size,
                                                              .rank = request.options.rank,
                                                              .world_size = request.options.world_size,
                                                              .equal = request.options.equal,
                                                              .drop_last = request.options.drop_last,
                                                              .local_shuffle_seed = request.local_shuffle_seed,
                                                              .begins_early = request.options.begins_early},
                                                   request.options.prefetch_batches));
  }

  arrow::Result<StreamState> skipped(int64_t epoch, std::optional<int64_t> seed, int64_t rows,
                                     const StreamState& from) override {
    ARROW_ASSIGN_OR_RAISE(const auto reply, client_->ask(rpc::pack(SkipRequest{dataset_, epoch, seed, rows, from})));
    ARROW_ASSIGN_OR_RAISE(const auto skipped, rpc::unpack<SkipReply>(reply));
    return skipped.state;
  }

  arrow::Result<DatasetFigures> statistics() override {
    ARROW_ASSIGN_OR_RAISE(const auto reply, client_->ask(rpc::pack(StatisticsRequest{dataset_})));
    ARROW_ASSIGN_OR_RAISE(auto statistics, rpc::unpack<StatisticsReply>(reply));
    return std::move(statistics.figures);
  }

 private:
  const std::shared_ptr<Client> client_;
  const std::string dataset_;
};

std::shared_ptr<DatasetReader> Client::reader(const std::string& name) {
  return std::make_shared<RemoteReader>(shared_from_this(), name);
}

}  // namespace

std::shared_ptr<DataClient> make_data_client(DataClientOptions options) {
  return make_shared_at_home<Client>(std::move(options));
}

}  // namespace paceline::data
