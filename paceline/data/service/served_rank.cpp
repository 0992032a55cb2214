#include <arrow/ipc/writer.h>
#include <unistd.h>

#include <utility>

#include "paceline/core/posix/thread.h"
#include "paceline/data/service/batch_memory_internal.h"
#include "paceline/data/service/served_rank_internal.h"

namespace paceline::data {
namespace {

int64_t memory_of_machine() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

ServedRank::ServedRank(Descriptor socket, const DataServiceOptions& options, const std::shared_ptr<Ledger>& ledger,
                       Given& given)
    : options_(options), ledger_(ledger), given_(given), socket_(std::move(socket)) {}

ServedRank::~ServedRank() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const auto& [number, stream] : streams_) {
      stream->closed = true;
      stream->go_on();
    }
  }
  changed_.notify_all();
  socket_.shut_down();
  if (listener_.joinable()) listener_.join();
  if (answerer_.joinable()) answerer_.join();
  for (const auto& [number, stream] : streams_) stream->thread.join();
  for (const auto& stream : closed_) stream->thread.join();
}

void ServedRank::start(std::function<void()> on_done) {
  listener_ = start_thread([this, on_done = std::move(on_done)] {
    listen();
    done_ = true;
    on_done();
  });
}

void ServedRank::listen() {
  const auto welcome = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(
        arena_, Arena::create(options_.arena_bytes > 0 ? options_.arena_bytes : memory_of_machine(), ledger_));
    rpc::Envelope opened = rpc::pack(ArenaOpened{.bytes = arena_->capacity()});
    ARROW_ASSIGN_OR_RAISE(Descriptor descriptor, arena_->descriptor().duplicate());
    opened.descriptors.push_back(std::move(descriptor));
    return send(std::move(opened));
  };
  arrow::Status status = welcome();
  if (status.ok()) answerer_ = start_thread([this] { answer_questions(); });
  while (status.ok()) {
    auto message = socket_.receive();
    if (!message.ok() || !*message) break;
    status = take(**std::move(message));
  }
  socket_.shut_down();  // the rank sees the end, if it still looks
}

arrow::Status ServedRank::take(rpc::Envelope message) {
  if (message.type == FreeSlot::kType) {
    ARROW_ASSIGN_OR_RAISE(const auto slot, rpc::unpack<FreeSlot>(message));
    arena_->free(slot.offset);
  } else if (message.type == WantBatches::kType) {
    ARROW_ASSIGN_OR_RAISE(const auto want, rpc::unpack<WantBatches>(message));
    const std::lock_guard lock(mutex_);
    const auto stream = streams_.find(want.stream);
    if (stream != streams_.end()) {
      stream->second->wanted += want.batches;
      note(*stream->second, {.waited_s = want.waited_s, .open_s = want.open_s});
    }
    changed_.notify_all();
  } else if (message.type == ReadStream::kType) {
    ARROW_ASSIGN_OR_RAISE(const auto read, rpc::unpack<ReadStream>(message));
    const std::lock_guard lock(mutex_);
    const auto stream = streams_.find(read.stream);
    if (stream == streams_.end()) return arrow::Status::OK();
    stream->second->is_read = true;
    stream->second->go_on();
    for (const RankFigures& made : std::exchange(stream->second->unread, {})) note(*stream->second, made);
  } else if (message.type == OpenStream::kType) {
    ARROW_ASSIGN_OR_RAISE(auto asked, rpc::unpack<OpenStream>(message));
    open(std::move(asked));
  } else if (message.type == CloseStream::kType) {
    ARROW_ASSIGN_OR_RAISE(const auto closed, rpc::unpack<CloseStream>(message));
    close(closed);
  } else {
    const std::lock_guard lock(mutex_);
    questions_.push_back(std::move(message));
    changed_.notify_all();
  }
  return arrow::Status::OK();
}

void ServedRank::open(OpenStream asked) {
  const std::lock_guard lock(mutex_);
  auto& stream = streams_[asked.stream];
  if (stream != nullptr) return;  // numbers are not used twice
  stream = std::make_unique<Stream>();
  stream->asked = std::move(asked);
  stream->thread = start_thread([this, one = stream.get()] { give(*one); });
}

// What it reads at the moment is not waited for: the rank's other messages come behind.
void ServedRank::close(const CloseStream& asked) {
  const std::lock_guard lock(mutex_);
  const auto stream = streams_.find(asked.stream);
  if (stream == streams_.end()) return;
  note(*stream->second, {.waited_s = asked.waited_s, .open_s = asked.open_s});
  stream->second->closed = true;
  stream->second->go_on();  // so that it does not wait for room
  closed_.push_back(std::move(stream->second));
  streams_.erase(stream);
  changed_.notify_all();
}

void ServedRank::note(const Stream& stream, RankFigures more) {
  more.rank = stream.asked.rank;
  given_.add(stream.asked.dataset, more);
}

// What is begun early counts once it is read.
void ServedRank::note_made(Stream& stream, const RankFigures& made) {
  const std::lock_guard lock(mutex_);
  if (stream.is_read || !stream.asked.begins_early) {
    note(stream, made);
  } else {
    stream.unread.push_back(made);
  }
}

// False once the stream is closed.
bool ServedRank::waits_until_wanted(Stream& stream) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || stream.closed || stream.wanted > 0; });
  --stream.wanted;
  return !stopped_ && !stream.closed;
}

void ServedRank::give(Stream& stream) {
  const arrow::Status status = give_batches(stream);
  // Where the rank cannot be told, it is gone, and its end comes to the listener.
  if (!status.ok()) (void)send(failure(status, stream.asked.stream));
  std::shared_ptr<RankBatches> done;  // goes without the lock
  const std::lock_guard lock(mutex_);
  done.swap(stream.batches);
}

arrow::Status ServedRank::give_batches(Stream& stream) {
  const OpenStream& asked = stream.asked;
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<DatasetReader> reader, options_.open(asked.dataset));
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<RankBatches> batches,
                        reader->batches({.epoch = asked.epoch,
                                         .seed = asked.seed,
                                         .from = asked.from,
                                         .options = {.batch_size = asked.batch_size,
                                                     .rank = asked.rank,
                                                     .world_size = asked.world_size,
                                                     .equal = asked.equal,
                                                     .drop_last = asked.drop_last,
                                                     .prefetch_batches = 0,  // this thread is ahead of the rank
                                                     .begins_early = asked.begins_early},
                                         .local_shuffle_seed = asked.local_shuffle_seed,
                                         .threads = options_.threads,
                                         .read_ahead_bytes = options_.read_ahead_bytes,
                                         .consumers = asked.world_size}));  // of which all are on this node
  {
    const std::lock_guard lock(mutex_);
    stream.batches = batches;
    if (stream.is_read || stream.closed) stream.go_on();
  }
  while (waits_until_wanted(stream)) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, batches->next());
    if (batch == nullptr) return send(rpc::pack(StreamEnded{.stream = asked.stream, .state = batches->state()}));
    ARROW_ASSIGN_OR_RAISE(const Slot slot, write_batch(*batch, *arena_));
    note_made(stream, {.batches = 1, .rows = batch->num_rows(), .bytes = slot.bytes});
    ARROW_RETURN_NOT_OK(send(rpc::pack(BatchMade{.stream = asked.stream,
                                                 .offset = slot.offset,
                                                 .bytes = slot.bytes,
                                                 .state = batches->state(),
                                                 .is_near_end = batches->is_near_end()})));
  }
  return arrow::Status::OK();
}

// Apart from the listener: opening a dataset may take a while, in which streams go on. The ends of streams are waited
// for here as well.
void ServedRank::answer_questions() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || !questions_.empty() || !closed_.empty(); });
    if (stopped_) return;
    if (!closed_.empty()) {
      const std::unique_ptr<Stream> stream = std::move(closed_.back());
      closed_.pop_back();
      lock.unlock();
      stream->thread.join();
      lock.lock();
      continue;
    }
    const rpc::Envelope question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    auto answered = answer(question);
    rpc::Envelope reply = answered.ok() ? *std::move(answered) : failure(answered.status(), 0);
    reply.reply_to = question.request;
    (void)send(std::move(reply));
    lock.lock();
  }
}

arrow::Result<rpc::Envelope> ServedRank::answer(const rpc::Envelope& question) {
  if (!question.body.is_object()) return arrow::Status::Invalid("a question that is no JSON object");
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<DatasetReader> reader,
                        options_.open(question.body.value("dataset", std::string())));
  if (question.type == FactsRequest::kType) {
    ARROW_ASSIGN_OR_RAISE(DatasetFacts facts, reader->facts());
    return rpc::pack(FactsReply{std::move(facts)});
  }
  if (question.type == StatisticsRequest::kType) {
    ARROW_ASSIGN_OR_RAISE(DatasetFigures figures, reader->statistics());
    return rpc::pack(StatisticsReply{std::move(figures)});
  }
  if (question.type == SkipRequest::kType) {
    ARROW_ASSIGN_OR_RAISE(const auto skip, rpc::unpack<SkipRequest>(question));
    ARROW_ASSIGN_OR_RAISE(const StreamState state, reader->skipped(skip.epoch, skip.seed, skip.rows, skip.from));
    return rpc::pack(SkipReply{state});
  }
  if (question.type == SchemaRequest::kType) {
    ARROW_ASSIGN_OR_RAISE(const auto schema, reader->schema());
    ARROW_ASSIGN_OR_RAISE(const auto bytes, arrow::ipc::SerializeSchema(*schema));
    rpc::Envelope reply = rpc::pack(SchemaReply{});
    reply.bytes = bytes->ToString();
    return reply;
  }
  return arrow::Status::Invalid("a data process does not know the message ", question.type);
}

rpc::Envelope ServedRank::failure(const arrow::Status& status, int64_t stream) const {
  rpc::Envelope message =
      rpc::pack(ReadFailed{.stream = stream, .code = static_cast<int64_t>(status.code()), .text = status.message()});
  if (options_.serialized) message.bytes = options_.serialized(status);
  return message;
}

}  // namespace paceline::data
