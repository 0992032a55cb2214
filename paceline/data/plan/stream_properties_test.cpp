// What holds of every dataset, whatever it is read from and whatever is done to it: the stream of an epoch is one and
// the same for any number of threads, ranks and batches read ahead, and whoever goes on from a state, at any world
// size, gets the very next rows. Random plans over files of every kind, seeded.
#include <arrow/compute/expression.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/util/base64.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "paceline/data/executor/batch_stream.h"
#include "paceline/data/plan/edit.h"
#include "paceline/data/plan/plan.h"
#include "paceline/data/source/source_testing_internal.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

namespace cp = arrow::compute;
using Random = std::mt19937_64;
using Made = std::shared_ptr<const Plan>;

constexpr int kFiles = 3;

int64_t below(Random& random, int64_t count) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
}

Made plan_of(const std::string& kind, Json options, std::vector<Made> inputs) {
  return std::make_shared<Plan>(Plan{.kind = kind, .options = std::move(options), .inputs = std::move(inputs)});
}

// Values that are odd in some way: a third of the rows, unevenly among chunks.
Json keep_some() {
  const auto rest = cp::call(
      "subtract",
      {cp::field_ref("row"), cp::call("multiply", {cp::call("divide", {cp::field_ref("row"), cp::literal(int64_t{7})}),
                                                   cp::literal(int64_t{7})})});
  const auto kept = cp::less(rest, cp::literal(int64_t{3}));
  return {{"expression", arrow::util::base64_encode(std::string_view(*cp::Serialize(kept).ValueOrDie()))}};
}

class StreamProperties : public FilesTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // The numbers from `first` on in files of this kind, of different sizes and with chunks of different sizes.
  Made files(Random& random, int64_t first) {
    const std::string kind = GetParam();
    if (kind == "rows") {
      Plan plan{.kind = kind};
      for (int i = 0; i < 6; ++i) plan.rows.push_back(numbers(first, below(random, 30) + (i == 0)));
      return std::make_shared<Plan>(std::move(plan));
    }
    if (kind == "numbers") {
      return plan_of("rename_columns", {{"names", {{"id", "row"}}}},
                     {plan_of(kind, {{"rows", 1 + below(random, 200)}}, {})});
    }
    Json paths = Json::array();
    for (int file = 0; file < kFiles; ++file) {
      const std::string name = std::to_string(first) + "_" + std::to_string(file) + "." + kind;
      write_file(kind, name, *numbers(first, below(random, 60) + (file == 0)), 1 + below(random, 20));
      paths.push_back(folder_ / name);
    }
    return plan_of("read_" + kind, {{"paths", paths}}, {});
  }

  std::shared_ptr<arrow::RecordBatch> numbers(int64_t& first, int64_t rows) {
    std::vector<int64_t> values(static_cast<size_t>(rows));
    std::iota(values.begin(), values.end(), first);
    first += rows;
    return numbers_of(values);
  }

  void write_file(const std::string& kind, const std::string& name, const arrow::RecordBatch& batch, int64_t rows) {
    const auto table = arrow::Table::FromRecordBatches({batch.Slice(0)}).ValueOrDie();
    const auto out = arrow::io::FileOutputStream::Open(folder_ / name).ValueOrDie();
    std::string text = kind == "csv" ? "row\n" : "";
    for (const int64_t value : values_of(batch)) {
      text += kind == "json" ? "{\"row\": " + std::to_string(value) + "}\n" : std::to_string(value) + "\n";
    }
    if (kind == "parquet") {
      EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, rows).ok());
    } else if (kind == "feather") {
      const auto writer = arrow::ipc::MakeFileWriter(out, table->schema()).ValueOrDie();
      EXPECT_TRUE(writer->WriteTable(*table, rows).ok());
      EXPECT_TRUE(writer->Close().ok());
    } else {
      EXPECT_TRUE(out->Write(text).ok());
    }
    EXPECT_TRUE(out->Close().ok());
  }

  Made random_plan(Random& random, int depth = 0) {
    Made plan = files(random, 1000 * depth++);
    for (int64_t steps = below(random, 4); steps > 0; --steps) {
      switch (below(random, 9)) {
        case 0:
          plan = plan_of("filter", keep_some(), {plan});
          break;
        case 1:
          plan = plan_of("range", {{"first", below(random, 20)}, {"rows", 1 + below(random, 200)}}, {plan});
          break;
        case 2:
          plan = plan_of("repartition", {{"blocks", 1 + below(random, 9)}}, {plan});
          break;
        case 3:
          plan = plan_of("union", Json::object(), {plan, files(random, 1000 * depth++)});
          break;
        case 4:
          plan = plan_of("mix", {{"weights", {3.0, 1.0}}}, {plan, files(random, 1000 * depth++)});
          break;
        case 5:
          plan = sampled_plan(plan, 0.7, below(random, 9)).ValueOrDie();
          break;
        case 6:
          plan = plan_of("zip", Json::object(), {plan, plan_of("shuffle", {{"what", "rows"}}, {plan})});
          break;
        default:
          plan =
              plan_of("shuffle", {{"what", random() % 2 == 0 ? "rows" : "chunks"}, {"seed", below(random, 9)}}, {plan});
      }
    }
    return plan;
  }
};

struct Layout {
  int64_t world_size = 1;
  int64_t batch_size = 16;
  int threads = 0;
  int64_t prefetch = 0;
};

// An opened dataset in one epoch.
class Epoch {
 public:
  Epoch(const Plan& plan, Random& random)
      : open_(data::open(plan).ValueOrDie()), buffer_rows_(random() % 3 == 0 ? 1 + below(random, 50) : 0) {
    open_.order.epoch = below(random, 3);
    open_.order.window_bytes = below(random, 3000);
  }

  std::vector<std::unique_ptr<BatchStream>> ranks(const Layout& layout, StreamState from = {}) const {
    from.buffer_rows = buffer_rows_;
    std::vector<std::unique_ptr<BatchStream>> streams;
    for (int64_t rank = 0; rank < layout.world_size; ++rank) {
      streams.push_back(std::make_unique<BatchStream>(open_.source, EpochOrder(open_.source->chunks(), open_.order),
                                                      StreamOptions{.threads = layout.threads, .read_ahead_bytes = 500},
                                                      BatchStreamOptions{.batch_size = layout.batch_size,
                                                                         .rank = rank,
                                                                         .world_size = layout.world_size,
                                                                         .prefetch_batches = layout.prefetch,
                                                                         .local_shuffle_key = 5},
                                                      from));
    }
    return streams;
  }

 private:
  OpenPlan open_;
  int64_t buffer_rows_;
};

// One step of all ranks, added to `rows`. Whether there was any.
bool take_step(const std::vector<std::unique_ptr<BatchStream>>& ranks, std::string& rows) {
  bool any = false;
  for (const auto& rank : ranks) {
    const auto batch = rank->next().ValueOrDie();
    if (batch == nullptr) continue;
    any = true;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      rows += batch->column(0)->GetScalar(row).ValueOrDie()->ToString() + " ";
    }
  }
  return any;
}

std::string rest_of(const std::vector<std::unique_ptr<BatchStream>>& ranks) {
  std::string rows;
  while (take_step(ranks, rows)) {
  }
  return rows;
}

TEST_P(StreamProperties, OneStreamForAnyThreadsAndRanks) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Made plan = random_plan(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + explain(*plan));
    const Epoch epoch(*plan, random);
    const std::string wanted = rest_of(epoch.ranks({}));
    for (const int threads : {1, 2, 8}) {
      for (const int64_t world_size : {1, 2, 4}) {
        const Layout layout{.world_size = world_size,
                            .batch_size = 1 + below(random, 20),
                            .threads = threads,
                            .prefetch = below(random, 4)};
        ASSERT_EQ(rest_of(epoch.ranks(layout)), wanted) << threads << " threads, " << world_size << " ranks";
      }
    }
  }
}

TEST_P(StreamProperties, AStateGoesOnAtAnyWorldSize) {
  for (uint64_t seed = 100; seed < 140; ++seed) {
    Random random(seed);
    const Made plan = random_plan(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + explain(*plan));
    const Epoch epoch(*plan, random);
    const std::string wanted = rest_of(epoch.ranks({}));
    // Through several world sizes, each of which goes on where the one before has stopped.
    std::string got;
    StreamState state;
    for (int64_t lives = below(random, 4); lives > 0; --lives) {
      const auto ranks =
          epoch.ranks({.world_size = 1 + below(random, 4), .batch_size = 1 + below(random, 20), .threads = 1}, state);
      for (int64_t steps = below(random, 4); steps > 0 && take_step(ranks, got); --steps) {
        state = ranks.front()->state();
      }
    }
    ASSERT_EQ(got + rest_of(epoch.ranks({.world_size = 1 + below(random, 4), .threads = 2}, state)), wanted);
  }
}

std::vector<int64_t> sorted_rows(const Plan& plan, int64_t epoch, int threads) {
  OpenPlan open = data::open(plan).ValueOrDie();
  open.order.epoch = epoch;
  BatchStream stream(open.source, EpochOrder(open.source->chunks(), open.order),
                     StreamOptions{.threads = threads, .read_ahead_bytes = 500}, BatchStreamOptions{.batch_size = 7},
                     {});
  std::vector<int64_t> rows;
  for (auto batch = stream.next().ValueOrDie(); batch != nullptr; batch = stream.next().ValueOrDie()) {
    for (const int64_t value : values_of(*batch)) rows.push_back(value);
  }
  std::ranges::sort(rows);
  return rows;
}

// What is for tests never comes in training, in no epoch, however the rows are shuffled before and behind.
TEST_P(StreamProperties, PartsHaveTheSameRowsInEveryEpoch) {
  for (uint64_t seed = 200; seed < 230; ++seed) {
    Random random(seed);
    const Made plan = random_plan(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + explain(*plan));
    const std::vector<int64_t> all = sorted_rows(*plan, 0, 0);
    std::vector<TwoPlans> splits{
        streaming_train_and_test(plan, 0.3, {.seed = below(random, 9)}).ValueOrDie(),
        streaming_train_and_test(plan, 0.3, {.split_type = "hash", .hash_column = "row"}).ValueOrDie()};
    if (all.size() > 3) splits.push_back(train_and_test(plan, std::ssize(all), 0.3, random() % 2, 4).ValueOrDie());
    for (auto& [train, test] : splits) {
      const std::vector<int64_t> tested = sorted_rows(*test, 0, 0);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<int64_t> rows = sorted_rows(*train, epoch, static_cast<int>(below(random, 3)));
        ASSERT_EQ(sorted_rows(*test, epoch, 2), tested) << explain(*test);
        rows.insert(rows.end(), tested.begin(), tested.end());
        std::ranges::sort(rows);
        ASSERT_EQ(rows, all) << explain(*train);
        if (epoch == 0) train = shuffled_plan(train, "rows", below(random, 9));
        if (epoch == 1 && !tested.empty()) test = shuffled_plan(test, "chunks", 3);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, StreamProperties,
                         ::testing::Values("rows", "numbers", "parquet", "feather", "csv", "json"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace paceline::data
