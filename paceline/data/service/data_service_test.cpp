#include "paceline/data/service/data_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/data/service/data_client.h"
#include "paceline/data/testing_internal.h"
#include "paceline/testing/in_fork.h"

namespace paceline::data {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

// Counts how often its chunks are read.
class Counting : public Source {
 public:
  explicit Counting(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return source_->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return source_->chunks(); }
  bool counts_rows() const override { return source_->counts_rows(); }
  uint64_t fingerprint() const override { return source_->fingerprint(); }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ++reads;
    if (fails) return arrow::Status::IOError("the disk is gone");
    return source_->read(chunk, key);
  }
  mutable std::atomic<int64_t> reads = 0;
  std::atomic<bool> fails = false;

 private:
  const std::shared_ptr<const Source> source_;
};

// A data process that can die, and one rank's way to it.
class Node {
 public:
  explicit Node(const std::shared_ptr<const Source>& source, OrderOptions order = {}, int64_t arena_bytes = 0) {
    options_.open = [source, order](const std::string& name) -> arrow::Result<std::shared_ptr<DatasetReader>> {
      if (name != "train") return arrow::Status::KeyError("there is no dataset '", name, "'");
      return local_reader({.source = source, .order = order, .statistics = {}});
    };
    options_.serialized = [](const arrow::Status& status) { return "pickled " + status.message(); };
    options_.arena_bytes = arena_bytes;
    restart();
  }
  ~Node() { end(); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void restart() {
    const std::lock_guard lock(running_->mutex);
    running_->service.reset();
    running_->service = start_data_service(options_);
  }

  std::shared_ptr<DataClient> client() {
    return make_data_client({.connect = [running = running_]() -> arrow::Result<Descriptor> {
                               const std::lock_guard lock(running->mutex);
                               if (running->service == nullptr) return arrow::Status::IOError("the run ends");
                               ARROW_ASSIGN_OR_RAISE(auto ends, make_socket_pair());
                               running->service->serve(std::move(ends.first));
                               return std::move(ends.second);
                             },
                             .restored =
                                 [](const arrow::Status& status, const std::string& serialized) {
                                   return status.WithMessage(status.message(), " (", serialized, ")");
                                 }});
  }

  std::vector<DatasetFigures> figures() {
    const std::lock_guard lock(running_->mutex);
    return running_->service->figures();
  }

  void end() {
    const std::lock_guard lock(running_->mutex);
    running_->service.reset();
  }

 private:
  struct Running {
    std::mutex mutex;
    std::unique_ptr<DataService> service;
  };

  DataServiceOptions options_;
  const std::shared_ptr<Running> running_ = std::make_shared<Running>();  // a client's thread may ask after its end
};

Numbers rest_of(RankBatches& batches) {
  Numbers all;
  while (const auto batch = batches.next().ValueOrDie()) {
    for (const int64_t value : values_of(*batch)) all.push_back(value);
  }
  return all;
}

TEST(DataService, GivesTheBatchesOfALocalReader) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 30; ++round) {
    const auto source = random_source(random);
    const OrderOptions order{.shuffle = round % 2 == 0 ? Shuffle::rows : Shuffle::none, .seed = 5};
    Node node(round % 3 == 0 ? std::make_shared<OddRows>(source) : source, order);
    const auto local = local_reader(
        {.source = round % 3 == 0 ? std::make_shared<OddRows>(source) : source, .order = order, .statistics = {}});
    const int64_t world_size = 1 + static_cast<int64_t>(random() % 4);
    for (int64_t rank = 0; rank < world_size; ++rank) {
      const BatchRequest request{
          .epoch = round,
          .from = {.buffer_rows = round % 5 == 0 ? 20 : 0},
          .options = {.batch_size = 1 + static_cast<int64_t>(random() % 9),
                      .rank = rank,
                      .world_size = world_size,
                      .equal = static_cast<Equal>(random() % 2 == 0 ? Equal::uneven : Equal::drop),
                      .prefetch_batches = static_cast<int64_t>(random() % 3)}};
      const auto reader = node.client()->reader("train");
      const auto near = local->batches(request).ValueOrDie();
      const auto far = reader->batches(request).ValueOrDie();
      while (true) {
        const auto wanted = near->next().ValueOrDie();
        const auto got = far->next().ValueOrDie();
        ASSERT_EQ(wanted == nullptr, got == nullptr);
        ASSERT_EQ(far->state(), near->state());
        if (wanted == nullptr) break;
        ASSERT_TRUE(got->Equals(*wanted));
      }
      EXPECT_EQ(reader->facts().ValueOrDie(), local->facts().ValueOrDie());
      EXPECT_TRUE(reader->schema().ValueOrDie()->Equals(**local->schema()));
      EXPECT_EQ(reader->skipped(2, 5, 7, {}).ValueOrDie(), local->skipped(2, 5, 7, {}).ValueOrDie());
    }
  }
}

TEST(DataService, AnEpochCanBeBegunEarly) {
  std::mt19937_64 random(3);
  const auto source = random_source(random, 12);
  Node node(source);
  const auto reader = node.client()->reader("train");
  const BatchRequest request{.options = {.batch_size = 5, .prefetch_batches = 2}};
  const Numbers wanted = rest_of(**reader->batches(request));
  BatchRequest early = request;
  early.options.begins_early = true;
  const auto following = reader->batches(early).ValueOrDie();
  while (!following->is_ready()) std::this_thread::yield();
  (void)reader->batches(early).ValueOrDie();  // is left at once
  node.restart();
  following->read();
  EXPECT_EQ(rest_of(*following), wanted);
  EXPECT_TRUE(following->is_near_end());
  const auto rows = static_cast<int64_t>(wanted.size());
  EXPECT_GE(node.figures().at(0).ranks.at(0).rows, rows - 2 * 5);  // since the restart
  EXPECT_LE(node.figures().at(0).ranks.at(0).rows, rows);          // without the stream that nobody read
}

TEST(DataService, AForkOfARankLeavesItsBatchesAlone) {
  std::mt19937_64 random(3);
  Node node(random_source(random, 12));
  auto client = node.client();
  const auto reader = client->reader("train");
  const BatchRequest request{.options = {.batch_size = 5}};
  const Numbers wanted = rest_of(**reader->batches(request));
  auto batches = reader->batches(request).ValueOrDie();
  auto first = batches->next().ValueOrDie();
  Numbers got = values_of(*first);
  EXPECT_TRUE(testing::holds_in_fork([&] {
    const bool is_refused = batches->next().status().IsInvalid() && reader->batches(request).status().IsInvalid() &&
                            reader->facts().status().IsInvalid();
    first.reset();
    batches.reset();
    client.reset();
    return is_refused;
  }));
  const Numbers rest = rest_of(*batches);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(values_of(*first), Numbers(wanted.begin(), wanted.begin() + 5));  // the slot is not used again
}

TEST(DataService, AnotherProcessGoesOnWhereTheLastOneDied) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 40; ++round) {
    const auto source = random_source(random, 12);
    const OrderOptions order{.shuffle = Shuffle::rows, .seed = round};
    Node node(source, order);
    const BatchRequest request{.options = {.batch_size = 5, .prefetch_batches = static_cast<int64_t>(random() % 4)}};
    const Numbers wanted =
        rest_of(**local_reader({.source = source, .order = order, .statistics = {}})->batches(request));
    const auto client = node.client();
    const auto batches = client->reader("train")->batches(request).ValueOrDie();
    Numbers got;
    std::vector<std::shared_ptr<arrow::RecordBatch>> kept;
    while (const auto batch = batches->next().ValueOrDie()) {
      kept.push_back(batch);
      if (random() % 4 == 0) node.restart();
    }
    for (const auto& batch : kept) {  // also those of processes that are gone
      for (const int64_t value : values_of(*batch)) got.push_back(value);
    }
    ASSERT_EQ(got, wanted) << round;
  }
}

TEST(DataService, ReadsOnceForAllRanks) {
  std::mt19937_64 random(5);
  const auto source = std::make_shared<Counting>(random_source(random, 20));
  Node node(source);
  std::vector<std::unique_ptr<RankBatches>> ranks;
  for (int64_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(*node.client()->reader("train")->batches(
        {.options = {.batch_size = 3, .rank = rank, .world_size = 4, .equal = Equal::drop}}));
  }
  bool done = false;
  while (!done) {
    for (const auto& rank : ranks) done = rank->next().ValueOrDie() == nullptr;
  }
  EXPECT_LE(source->reads, 20);
}

std::shared_ptr<Counting> blocks_of(int64_t blocks, int64_t rows) {
  arrow::RecordBatchVector all;
  for (int64_t block = 0; block < blocks; ++block) all.push_back(numbers_of(Numbers(static_cast<size_t>(rows), block)));
  return std::make_shared<Counting>(memory_source(numbers_of({})->schema(), all).ValueOrDie());
}

TEST(DataService, ReadsOnceAlsoForRanksThatBeginLater) {
  const auto source = blocks_of(20, 12);
  Node node(source, {.shuffle = Shuffle::rows, .seed = 1});
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    size_t rows = 0;
    for (int64_t rank = 0; rank < 3; ++rank) {  // one after the other has had all of the epoch
      const auto reader = node.client()->reader("train");
      rows += rest_of(**reader->batches(
                          {.epoch = epoch,
                           .options = {.batch_size = 5, .rank = rank, .world_size = 3, .prefetch_batches = 2}}))
                  .size();
    }
    EXPECT_EQ(rows, 240U);
    EXPECT_EQ(source->reads, 20 * (epoch + 1));
  }
}

TEST(DataService, WhatIsKeptForOtherRanksMakesRoom) {
  const auto source = blocks_of(20, 1000);
  const auto reader = local_reader({.source = source, .order = {}, .statistics = {}});
  const auto batches_of = [&](int64_t rank, int64_t epoch) {
    return reader
        ->batches({.epoch = epoch,
                   .options = {.batch_size = 100, .rank = rank, .world_size = 2, .prefetch_batches = 0},
                   .threads = 0,
                   .read_ahead_bytes = 40'000,  // of five blocks
                   .consumers = 2})
        .ValueOrDie();
  };
  EXPECT_EQ(rest_of(*batches_of(0, 0)).size(), 10'000U);
  EXPECT_EQ(source->reads, 20) << "the first has read on, though the other has not come";
  EXPECT_EQ(rest_of(*batches_of(1, 0)).size(), 10'000U);
  EXPECT_EQ(source->reads, 40) << "as nothing is kept any more, once that has made room";
}

TEST(DataService, ARankWritesToItsBatchesAlone) {
  std::mt19937_64 random(6);
  Node node(random_source(random, 3));
  const auto reader = node.client()->reader("train");
  const BatchRequest request{.options = {.batch_size = 4}};
  const auto batch = (*reader->batches(request))->next().ValueOrDie();
  const Numbers before = values_of(*batch);
  const auto& column = static_cast<const arrow::Int64Array&>(*batch->column(0));
  const_cast<int64_t*>(column.raw_values())[0] = -1;
  EXPECT_EQ(values_of(**(*reader->batches(request))->next()), before);
}

TEST(DataService, SlotsAreUsedAgainOnceTheirBatchIsGone) {
  Node node(memory_source(numbers_of({})->schema(), {numbers_of(Numbers(100'000, 7))}).ValueOrDie(), {}, 200'000);
  const auto reader = node.client()->reader("train");
  const auto batches = reader->batches({.options = {.batch_size = 5'000, .prefetch_batches = 1}}).ValueOrDie();
  EXPECT_EQ(rest_of(*batches).size(), 100'000U);  // 800 kB through 200 kB
  // Whoever keeps all batches is told, and what it has stays.
  const auto again = reader->batches({.options = {.batch_size = 5'000, .prefetch_batches = 1}}).ValueOrDie();
  std::vector<std::shared_ptr<arrow::RecordBatch>> kept;
  arrow::Status status;
  while (status.ok()) {
    auto batch = again->next();
    status = batch.status();
    if (status.ok()) kept.push_back(*batch);
  }
  EXPECT_TRUE(status.IsOutOfMemory()) << status;
  EXPECT_THAT(status.message(), HasSubstr("the rank still holds"));
  EXPECT_EQ(values_of(*kept.front()).front(), 7);
}

TEST(DataService, ErrorsComeToTheRankWithTheirExceptions) {
  std::mt19937_64 random(7);
  const auto source = std::make_shared<Counting>(random_source(random, 3));
  Node node(source);
  const auto client = node.client();
  EXPECT_TRUE(client->reader("val")->facts().status().IsKeyError());
  EXPECT_THAT(client->reader("val")->batches({}).ValueOrDie()->next().status().message(),
              HasSubstr("there is no dataset 'val'"));
  source->fails = true;
  const auto batches = client->reader("train")->batches({}).ValueOrDie();
  for (int i = 0; i < 2; ++i) {
    const arrow::Status status = batches->next().status();
    EXPECT_TRUE(status.IsIOError());
    EXPECT_EQ(status.message(), "the disk is gone (pickled the disk is gone)");
  }
  source->fails = false;
  EXPECT_TRUE(client->reader("train")->batches({}).ValueOrDie()->next().ok());
}

TEST(DataService, AnErrorIsNotForThoseWhoComeLaterWhileAnotherStillHoldsIt) {
  std::mt19937_64 random(7);
  const auto source = std::make_shared<Counting>(random_source(random, 3));
  const auto reader = local_reader({.source = source, .order = {}, .statistics = {}});
  source->fails = true;
  const auto failed = reader->batches({.consumers = 2}).ValueOrDie();
  EXPECT_TRUE(failed->next().status().IsIOError());
  source->fails = false;
  EXPECT_TRUE(reader->batches({.consumers = 2}).ValueOrDie()->next().ok());
  EXPECT_TRUE(failed->next().status().IsIOError());
}

TEST(DataService, CountsWhatRanksGetAndHowLongTheyWait) {
  std::mt19937_64 random(9);
  Node node(
      memory_source(numbers_of({})->schema(), {numbers_of(Numbers(30, 7)), numbers_of(Numbers(30, 8))}).ValueOrDie());
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto reader = node.client()->reader("train");
    rest_of(**reader->batches({.options = {.batch_size = 10, .rank = rank, .world_size = 2}}));
    ASSERT_TRUE(reader->facts().ok());  // what the rank said before has been heard
  }
  const std::vector<DatasetFigures> figures = node.figures();
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].name, "train");
  ASSERT_EQ(figures[0].ranks.size(), 2U);
  for (const RankFigures& rank : figures[0].ranks) {
    EXPECT_EQ(rank.batches, 3);
    EXPECT_EQ(rank.rows, 30);
    EXPECT_GE(rank.bytes, 30 * 8);
    EXPECT_GE(rank.waited_s, 0);  // what is there already is not waited for
    EXPECT_LE(rank.waited_s, rank.open_s);
  }
}

TEST(DataService, WithoutAnotherProcessWhoeverWaitsIsTold) {
  std::mt19937_64 random(8);
  Node node(random_source(random, 3));
  const auto reader = node.client()->reader("train");
  const auto batches = reader->batches({.options = {.batch_size = 1, .prefetch_batches = 0}}).ValueOrDie();
  ASSERT_TRUE(batches->next().ok());
  node.end();
  EXPECT_THAT(batches->next().status().message(), HasSubstr("the run ends"));
  EXPECT_THAT(reader->facts().status().message(), HasSubstr("the run ends"));
}

}  // namespace
}  // namespace paceline::data
