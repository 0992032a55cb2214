#include "paceline/comm/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <set>
#include <sstream>

#include "paceline/core/error.h"
#include "paceline/rpc/memory_key_value.h"
#include "paceline/testing/ranks.h"

namespace paceline::comm {
namespace {

// One backward of two parameters of which this rank's gradients are `value`; gives the averaged ones.
std::vector<torch::Tensor> averaged(const std::shared_ptr<Group>& group, double value, const ReducerOptions& options) {
  std::vector<torch::Tensor> parameters = {torch::zeros({100}, torch::requires_grad()),
                                           torch::zeros({3, 4}, torch::requires_grad())};
  auto reducer = GradientReducer::create(group, parameters, {"a", "b"}, {false, false}, options);
  reducer->begin_backward();
  ((parameters[0].sum() + parameters[1].sum()) * value).backward();
  return {parameters[0].grad().clone(), parameters[1].grad().clone()};
}

TEST(GradientReducer, AveragesWhatRanksComputed) {
  testing::run_ranks(Group::in_process(3), [](const std::shared_ptr<Group>& group) {
    for (const bool view : {false, true}) {
      ReducerOptions options;
      options.gradient_as_bucket_view = view;
      for (const auto& gradient : averaged(group, group->rank() + 1.0, options)) {
        EXPECT_TRUE(torch::allclose(gradient, torch::full_like(gradient, 2.0))) << gradient;
      }
    }
  });
}

TEST(GradientReducer, SaysWhetherABackwardIsAveraged) {
  testing::run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const torch::Tensor a = torch::zeros({2}, torch::requires_grad()), b = torch::zeros({2}, torch::requires_grad());
    const auto reducer = GradientReducer::create(group, {a, b}, {"a", "b"}, {false, false}, {});
    reducer->begin_backward();
    a.sum().backward();
    EXPECT_FALSE(reducer->is_finished());
    reducer->forget_broken();
    reducer->wait_for_broken();
    reducer->begin_backward();
    (a.sum() + b.sum()).backward();
    EXPECT_TRUE(reducer->is_finished());
  });
}

TEST(GradientReducer, CompressesWithinTheFormatsPrecision) {
  testing::run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const double value = group->rank() == 0 ? 1.003 : 2.009;
    for (const auto& [compression, precision] :
         {std::pair{Compression::bf16, 1.0 / 128}, std::pair{Compression::fp16, 1.0 / 1024}}) {
      ReducerOptions options;
      options.compression = compression;
      for (const auto& gradient : averaged(group, value, options)) {
        EXPECT_TRUE(torch::allclose(gradient, torch::full_like(gradient, 1.506), precision, 0)) << gradient;
        EXPECT_FALSE(torch::allclose(gradient, torch::full_like(gradient, 1.506), 1e-6, 0)) << "not compressed";
      }
    }
  });
}

TEST(GradientReducer, AnAbortEndsABackwardThatWaitsForOtherRanks) {
  auto groups = Group::in_process(2);
  auto waiting = std::async(
      std::launch::async, [&] { return testing::message_of<CollectiveError>([&] { averaged(groups[0], 1.0, {}); }); });
  groups[0]->abort();
  EXPECT_THAT(waiting.get(), ::testing::AllOf(::testing::HasSubstr("all_reduce failed on rank 0 of 2"),
                                              ::testing::HasSubstr("told to stop")));
}

std::vector<std::shared_ptr<Group>> over_shared_memory(int64_t world_size) {
  rpc::MemoryKeyValueStore store;
  const Identity generation{.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}};
  std::vector<std::future<std::shared_ptr<Group>>> futures;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    GroupOptions options;
    options.rank = rank;
    options.world_size = world_size;
    options.timeout = std::chrono::minutes(1);
    futures.push_back(std::async(
        std::launch::async, [options, client = store.client(generation)] { return Group::create(options, client); }));
  }
  std::vector<std::shared_ptr<Group>> groups;
  for (auto& future : futures) groups.push_back(future.get());
  return groups;
}

// This process's mappings, by inode: those of files, of which an arena is one.
std::map<std::string, std::pair<uintptr_t, uintptr_t>> mappings() {
  std::map<std::string, std::pair<uintptr_t, uintptr_t>> found;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device, inode;
    words >> range >> access >> offset >> device >> inode;
    if (inode == "0") continue;
    const size_t dash = range.find('-');
    found[device + " " + inode + " " + range] = {std::stoull(range.substr(0, dash), nullptr, 16),
                                                 std::stoull(range.substr(dash + 1), nullptr, 16)};
  }
  return found;
}

// The file of memory that a tensor is in.
std::string file_of(const torch::Tensor& tensor) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  for (const auto& [name, range] : mappings()) {
    if (address >= range.first && address < range.second) return name.substr(0, name.rfind(' '));
  }
  return "";
}

TEST(GradientReducer, GoesOnInMemoryOfAnotherGroupAndKeepsNoneOfTheOld) {
  ::setenv("DDP_DISABLE_COMM_MEM", "0", 1);
  auto groups = over_shared_memory(3);
  ReducerOptions options;
  options.gradient_as_bucket_view = true;
  std::vector<torch::Tensor> parameters;
  for (int rank = 0; rank < 3; ++rank) parameters.push_back(torch::zeros({1000}, torch::requires_grad()));
  std::vector<std::unique_ptr<GradientReducer>> reducers(3);
  std::vector<std::string> old_files(3);
  const auto averages_in_place = [&](const std::shared_ptr<Group>& group, double average) {
    const auto rank = static_cast<size_t>(group->rank());
    for (int step = 0; step < 3; ++step) {
      parameters[rank].mutable_grad().reset();
      reducers[rank]->begin_backward();
      (parameters[rank] * (group->rank() + 1)).sum().backward();
      reducers[rank]->adopt_order();
      EXPECT_TRUE(parameters[rank].grad().equal(torch::full({1000}, average)));
      EXPECT_EQ(file_of(parameters[rank].grad()), file_of(group->allocate(1, {}))) << "step " << step;
    }
    return file_of(parameters[rank].grad());
  };
  testing::run_ranks(groups, [&](const std::shared_ptr<Group>& group) {
    const auto rank = static_cast<size_t>(group->rank());
    reducers[rank] = GradientReducer::create(group, {parameters[rank]}, {"a"}, {false}, options);
    old_files[rank] = averages_in_place(group, 2);
  });
  EXPECT_EQ(std::set<std::string>(old_files.begin(), old_files.end()).size(), 3);

  groups.clear();
  reducers[2].reset();
  parameters[2].mutable_grad().reset();
  testing::run_ranks(over_shared_memory(2), [&](const std::shared_ptr<Group>& group) {
    const auto rank = static_cast<size_t>(group->rank());
    reducers[rank]->rebuild(group);
    EXPECT_FALSE(parameters[rank].grad().defined());
    averages_in_place(group, 1.5);
  });
  for (const auto& [name, range] : mappings()) {
    for (const std::string& old : old_files) EXPECT_FALSE(name.starts_with(old + " ")) << name;
  }
}

TEST(GradientReducer, SaysOverWhichGroupsItCannotGoOn) {
  testing::run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const auto reducer_with = [&](bool static_graph) {
      ReducerOptions options;
      options.static_graph = static_graph;
      return GradientReducer::create(group, {torch::zeros({2}, torch::requires_grad())}, {"a"}, {false}, options);
    };
    const auto alone = Group::in_process(1).front();
    EXPECT_THAT(testing::message_of<UsageError>([&] { reducer_with(false)->rebuild(alone); }),
                ::testing::HasSubstr("several ranks"));
    EXPECT_THAT(testing::message_of<UsageError>([&] { reducer_with(true)->rebuild(group); }),
                ::testing::HasSubstr("static_graph"));
  });
}

}  // namespace
}  // namespace paceline::comm
