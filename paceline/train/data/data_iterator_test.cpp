#include "paceline/train/data/data_iterator.h"

#include <arrow/compute/expression.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/data/dataset/read_api.h"
#include "paceline/train/data/map_batches.h"
#include "paceline/train/data/tensors.h"
#include "paceline/train/prepare_data_loader.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::vector<int64_t>;

TensorBatch squares(TensorBatch batch) {
  batch["square"] = batch.at("id") * batch.at("id");
  return batch;
}
PACELINE_MAP_BATCHES(squares);

TensorBatch pictures(TensorBatch batch) {
  batch["picture"] = batch.at("id").to(torch::kFloat32).view({-1, 1, 1}).expand({-1, 2, 3});
  return batch;
}
PACELINE_MAP_BATCHES(pictures);

TensorBatch noise(TensorBatch batch, torch::Generator& chance) {
  batch["noise"] = torch::rand({batch.at("id").size(0)}, chance);
  return batch;
}
PACELINE_MAP_BATCHES(noise);

TensorBatch ragged(TensorBatch batch) {
  batch["more"] = torch::ones({batch.at("id").size(0) + 1});
  return batch;
}
PACELINE_MAP_BATCHES(ragged);

torch::Tensor halves_of(TensorBatch batch) {
  return batch.at("id") / 2;
}
PACELINE_MAP_BATCHES(halves_of);

TensorBatch negative(TensorBatch row) {
  return {{"id", -row.at("id")}};
}
PACELINE_MAP(negative);

std::vector<TensorBatch> twice(TensorBatch row) {
  return {row, row};
}
PACELINE_MAP(twice);

bool is_odd(TensorBatch row) {
  return row.at("id").item<int64_t>() % 2 == 1;
}
PACELINE_MAP(is_odd);

TensorBatch with_noise(TensorBatch row, torch::Generator& chance) {
  row["noise"] = torch::rand({2}, chance);
  return row;
}
PACELINE_MAP(with_noise);

TensorBatch odd_columns(TensorBatch row) {
  if (!is_odd(row)) row["more"] = row.at("id");
  return row;
}
PACELINE_MAP(odd_columns);

PACELINE_BATCH(Squares, id, square);
PACELINE_BATCH(Missing, id, cube);

Rows rows_of(const torch::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DataIterator, GivesStructsOfTensors) {
  DataIterator rows(data::range(5).map_batches(squares));
  std::vector<Rows> seen;
  for (auto& [id, square] : rows.iter_batches<Squares>({.batch_size = 2})) {
    EXPECT_TRUE(torch::equal(id * id, square));
    seen.push_back(rows_of(id));
  }
  EXPECT_THAT(seen, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(message_of([&] { (void)rows.iter_batches<Missing>().begin(); }),
              HasSubstr("no column 'cube', which the batch's type wants; it has: id, square"));
}

TEST(DataIterator, GivesRows) {
  DataIterator all(data::range(600).map_batches(squares));
  Rows seen;
  for (auto& [id, square] : all.iter_rows<Squares>()) {
    ASSERT_EQ(id.dim(), 0);
    EXPECT_EQ(id.item<int64_t>() * id.item<int64_t>(), square.item<int64_t>());
    seen.push_back(id.item<int64_t>());
  }
  Rows wanted(600);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(seen, wanted);
  EXPECT_EQ(all.epoch(), 1);
  const auto none = DataIterator(data::range(0)).iter_rows();
  EXPECT_TRUE(none.begin() == none.end());
}

TEST(DataIterator, FunctionsOfRows) {
  const data::Dataset numbers = data::range(6).repartition(2);
  const auto ids = [](const data::Dataset& dataset) {
    Rows rows;
    for (auto& batch : DataIterator(dataset).iter_batches()) {
      const Rows more = rows_of(batch.at("id"));
      rows.insert(rows.end(), more.begin(), more.end());
    }
    return rows;
  };
  EXPECT_THAT(ids(numbers.map(negative)), ElementsAre(0, -1, -2, -3, -4, -5));
  EXPECT_EQ(numbers.map(negative).count(), 6);  // without reading
  EXPECT_THAT(ids(numbers.limit(2).flat_map(twice)), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(ids(numbers.filter(is_odd)), ElementsAre(1, 3, 5));
  for (auto& batch : DataIterator(numbers.add_column("half", halves_of)).iter_batches()) {
    EXPECT_TRUE(torch::equal(batch.at("half") * 2, batch.at("id").to(torch::kFloat32)));
  }
  EXPECT_TRUE(numbers.map(with_noise).take()->Equals(*numbers.map(with_noise).take()));
  EXPECT_EQ(numbers.map(with_noise).filter(is_odd).explain(),
            "Range\nRepartition(blocks=2)\nMap(with_noise)\nFilter(is_odd)\n");
  EXPECT_THAT(message_of([&] { numbers.map(odd_columns).take(); }), HasSubstr("rows of different columns"));
  EXPECT_THAT(ids(numbers.map(odd_columns, {.on_error = "skip"})), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(message_of([&] { numbers.map(squares); }), HasSubstr("registered for map_batches(), but given to map()"));
  EXPECT_THAT(message_of([&] { numbers.map_batches(is_odd); }), HasSubstr("registered for filter()"));
}

TEST(DataIterator, EachIterationIsTheNextEpoch) {
  DataIterator rows(data::range(20).random_shuffle({.seed = 7}));
  const auto batches = rows.iter_batches({.batch_size = 20});
  std::vector<Rows> epochs;
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(rows.epoch(), epoch);
    for (auto& batch : batches) epochs.push_back(rows_of(batch.at("id")));
  }
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_NE(epochs[0], epochs[1]);
  rows.set_epoch(0);
  for (auto& batch : batches) EXPECT_EQ(rows_of(batch.at("id")), epochs[0]);
}

TEST(DataIterator, AStateGoesOnWithTheNextRow) {
  const data::Dataset dataset = data::range(10);
  DataIterator first(dataset);
  for (auto& batch : first.iter_batches({.batch_size = 4})) {
    (void)batch;
    break;
  }
  auto halves = streaming_split(dataset, 2);
  for (DataIterator& half : halves) half.load_state_dict(first.state_dict());
  for (auto& batch : halves[1].iter_batches({.batch_size = 3}))
    EXPECT_THAT(rows_of(batch.at("id")), ElementsAre(7, 8, 9));
  EXPECT_EQ(halves[0].size(), 5);
  EXPECT_THAT(message_of([&] { DataIterator(data::range(9)).load_state_dict(first.state_dict()); }),
              HasSubstr("another dataset"));
}

TEST(DataIterator, WhatAFunctionDrawsBelongsToTheRows) {
  const data::Dataset noisy = data::range(12).repartition(3).map_batches(noise).random_shuffle({.seed = 1});
  std::map<int64_t, float> drawn;
  for (auto& batch : DataIterator(noisy).iter_batches({.batch_size = 12, .prefetch_batches = 0})) {
    for (int64_t row = 0; row < 12; ++row) {
      drawn[batch.at("id")[row].item<int64_t>()] = batch.at("noise")[row].item<float>();
    }
  }
  ASSERT_EQ(drawn.size(), 12u);
  for (auto& half : streaming_split(noisy, 2)) {
    for (auto& batch : half.iter_batches({.batch_size = 4})) {
      for (int64_t row = 0; row < batch.at("id").size(0); ++row) {
        EXPECT_EQ(drawn.at(batch.at("id")[row].item<int64_t>()), batch.at("noise")[row].item<float>());
      }
    }
  }
}

TEST(DataIterator, FunctionsGiveTensorsOfAnyShape) {
  for (auto& batch : DataIterator(data::range(4).map_batches(pictures)).iter_batches({.batch_size = 3})) {
    const torch::Tensor& picture = batch.at("picture");
    EXPECT_EQ(picture.sizes().slice(1), (torch::IntArrayRef{2, 3}));
    EXPECT_TRUE(torch::equal(picture.select(1, 1).select(1, 2), batch.at("id").to(torch::kFloat32)));
  }
  EXPECT_THAT(message_of([] { data::range(4).map_batches(ragged).take(); }),
              HasSubstr("the function ragged has failed: columns have different lengths (id: 4, more: 5)"));
}

TEST(DataIterator, OptionsThatAreNotAllowedAreErrors) {
  DataIterator rows(data::range(4));
  EXPECT_THAT(message_of([&] { (void)rows.iter_batches({.batch_size = 0}); }), HasSubstr("batch_size is 0"));
  EXPECT_THAT(message_of([&] { (void)DataIterator(data::range(4).filter(arrow::compute::literal(true))).size(); }),
              HasSubstr("not known before they are read"));
  EXPECT_THAT(message_of([] { get_dataset_shard("train"); }),
              AllOf(HasSubstr("get_dataset_shard()"), HasSubstr("outside a train loop")));
}

class NowhereSink final : public train::ReportSink {
 public:
  void submit(rpc::Report) override {}
  bool takes_from_any_thread() const override { return true; }
  void fail(const std::exception_ptr&) override {}
  PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest&) override { return {}; }
  void show_progress(rpc::ProgressBar) override {}
};

TEST(DataIterator, AVoidStepGetsItsBatchAgain) {
  NowhereSink sink;
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  train::Session session(options);
  session.datasets().offer({.plans = {{"train", data::range(6).plan()}}, .config = {}});
  auto shard = get_dataset_shard();
  std::vector<Rows> seen;
  for (auto& batch : shard.iter_batches({.batch_size = 2})) {
    seen.push_back(rows_of(batch.at("id")));
    if (seen.size() == 2) void_step();
    EXPECT_EQ(session.datasets().positions().at("train").at("rows"), seen.size() == 1 ? 2 : 2 * (seen.size() - 1));
  }
  EXPECT_THAT(seen, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(session.ledger()->count(), 3);
  EXPECT_THAT(message_of([] { get_dataset_shard("test"); }), HasSubstr("no dataset \"test\"; it was given train"));
}

TEST(Tensors, BecomeTheColumnsThatTheyWere) {
  for (const auto& tensor : {torch::arange(12).view({3, 2, 2}), torch::rand({4}), torch::ones({3, 2}, torch::kBool),
                             torch::arange(6, torch::kUInt8).view({2, 3})}) {
    EXPECT_TRUE(torch::equal(*to_tensor(*to_array(tensor)), tensor));
  }
  const torch::Tensor whole = torch::rand({4, 2});
  EXPECT_EQ(to_tensor(*to_array(whole))->const_data_ptr(), whole.const_data_ptr()) << "nothing is copied";
  EXPECT_THAT(to_array(torch::tensor(1.0)).status().message(), HasSubstr("a single number"));
  EXPECT_THAT(to_array(torch::ones({2}, torch::kBFloat16)).status().message(), HasSubstr("no column can hold"));
}

}  // namespace
}  // namespace paceline
