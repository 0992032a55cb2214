// The part of group_conformance.h for what sharding needs of a group: parts of tensors, messages, groups of some ranks,
// several works under way. The expected values are computed in plain loops.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "paceline/testing/group_worlds.h"

namespace paceline::testing {

/// Small whole numbers, so that every type has every sum exactly; they tell ranks and places apart.
inline torch::Tensor numbers_of(int64_t rank, int64_t elements, torch::ScalarType dtype = torch::kFloat32) {
  return ((torch::arange(elements) + rank * 3) % 5 + 1).to(dtype);
}

/// The naive reference of a reduction over all ranks.
inline torch::Tensor reduced(int64_t world, int64_t elements, comm::ReduceOp op) {
  torch::Tensor result = numbers_of(0, elements, torch::kFloat64);
  for (int64_t rank = 1; rank < world; ++rank) {
    const torch::Tensor next = numbers_of(rank, elements, torch::kFloat64);
    switch (op) {
      case comm::ReduceOp::sum:
      case comm::ReduceOp::mean:
        result += next;
        break;
      case comm::ReduceOp::product:
        result *= next;
        break;
      case comm::ReduceOp::min:
        result = torch::minimum(result, next);
        break;
      case comm::ReduceOp::max:
        result = torch::maximum(result, next);
        break;
    }
  }
  return op == comm::ReduceOp::mean ? result / world : result;
}

/// What is sent in one piece, and what is not.
inline constexpr std::array<int64_t, 4> kPartSizes = {0, 1, 33, 40'000};

TEST_P(GroupConformance, ReduceScatterGivesEachRankItsPart) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    for (const auto dtype : kReducibleTypes) {
      for (const auto op : {comm::ReduceOp::sum, comm::ReduceOp::min, comm::ReduceOp::max, comm::ReduceOp::mean}) {
        if (op == comm::ReduceOp::mean && !torch::isFloatingType(dtype)) continue;
        torch::Tensor part = torch::zeros({33}, dtype);
        group->reduce_scatter(part, numbers_of(group->rank(), 33 * world(), dtype), op);
        const torch::Tensor all = reduced(world(), 33 * world(), op).to(dtype);
        EXPECT_TRUE(torch::allclose(part, all.slice(0, group->rank() * 33, group->rank() * 33 + 33)))
            << dtype << " " << comm::to_string(op);
      }
    }
  });
}

TEST_P(GroupConformance, PartsMayHaveAnySizeShapeAndStride) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const int64_t n = world(), rank = group->rank();
    for (const int64_t size : kPartSizes) {
      const torch::Tensor own = numbers_of(rank, size * n);
      const torch::Tensor expected = reduced(n, size * n, comm::ReduceOp::sum).to(torch::kFloat32);
      torch::Tensor part = torch::zeros({size});
      group->reduce_scatter(part, own, comm::ReduceOp::sum);
      EXPECT_TRUE(torch::equal(part, expected.slice(0, rank * size, (rank + 1) * size))) << size;
      torch::Tensor whole = torch::zeros({n, size});
      group->all_gather_into(whole, part);
      EXPECT_TRUE(torch::equal(whole.view({-1}), expected)) << size;

      torch::Tensor columns = torch::zeros({size, 2}), sheet = torch::zeros({n * size, 3});
      group->reduce_scatter(columns.select(1, 1), torch::stack({own, own}, 1).select(1, 0), comm::ReduceOp::sum);
      EXPECT_TRUE(torch::equal(columns.select(1, 1), part)) << size;
      EXPECT_EQ(columns.select(1, 0).abs().sum().item<double>(), 0) << size;
      group->all_gather_into(sheet.select(1, 2), columns.select(1, 1));
      EXPECT_TRUE(torch::equal(sheet.select(1, 2), expected)) << size;
      EXPECT_EQ(sheet.slice(1, 0, 2).abs().sum().item<double>(), 0) << size;
    }
  });
}

TEST_P(GroupConformance, ReducesPartsOfTruthValuesAndComplexNumbers) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const bool first = group->rank() == 0;
    torch::Tensor any = torch::zeros({1}, torch::kBool);
    group->reduce_scatter(any, torch::full({world()}, first, torch::kBool), comm::ReduceOp::sum);
    EXPECT_TRUE(any.item<bool>());
    torch::Tensor all = torch::zeros({1}, torch::kBool);
    group->reduce_scatter(all, torch::full({world()}, first, torch::kBool), comm::ReduceOp::product);
    EXPECT_EQ(all.item<bool>(), world() == 1);
    const c10::complex<float> one(1, -2);
    torch::Tensor mean = torch::zeros({3}, torch::kComplexFloat);
    group->reduce_scatter(mean, torch::full({3 * world()}, one, torch::kComplexFloat), comm::ReduceOp::mean);
    EXPECT_TRUE(torch::allclose(mean, torch::full({3}, one, torch::kComplexFloat)));
  });
}

TEST_P(GroupConformance, GathersIntoOneTensorAnyType) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    for (const auto dtype : {torch::kFloat32, torch::kInt16, torch::kBool, torch::kComplexDouble, torch::kBFloat16}) {
      const auto own = [&](int64_t rank) { return (numbers_of(rank, 6, torch::kInt64) % 2).to(dtype).view({2, 3}); };
      torch::Tensor whole = torch::zeros({2 * world(), 3}, dtype);
      group->all_gather_into(whole, own(group->rank()));
      for (int64_t rank = 0; rank < world(); ++rank) {
        EXPECT_TRUE(torch::equal(whole.slice(0, rank * 2, rank * 2 + 2), own(rank))) << dtype;
      }
    }
  });
}

TEST_P(GroupConformance, SendsRowsToAll) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const int64_t n = world(), rank = group->rank();
    const auto row = [](int64_t from, int64_t to, int64_t rows) {
      return torch::full({rows, 2}, static_cast<double>(from * 10 + to));
    };
    std::vector<torch::Tensor> given, expected;
    for (int64_t other = 0; other < n; ++other) {
      given.push_back(row(rank, other, 4));
      expected.push_back(row(other, rank, 4));
    }
    torch::Tensor taken = torch::zeros({4 * n, 2});
    group->all_to_all(taken, torch::cat(given));
    EXPECT_TRUE(torch::equal(taken, torch::cat(expected)));

    // As many as the ranks' numbers: some give nothing to some, and rank 0 nothing to itself.
    std::vector<int64_t> input_rows, output_rows;
    given.clear();
    expected.clear();
    for (int64_t other = 0; other < n; ++other) {
      input_rows.push_back(rank * other);
      output_rows.push_back(other * rank);
      given.push_back(row(rank, other, rank * other));
      expected.push_back(row(other, rank, rank * other));
    }
    const torch::Tensor rows = torch::cat(expected);
    torch::Tensor sheet = torch::zeros({2, rows.size(0)});
    group->all_to_all(sheet.t(), torch::cat(given).t().contiguous().t(), output_rows, input_rows);
    EXPECT_TRUE(torch::equal(sheet.t(), rows));
  });
}

TEST_P(GroupConformance, MessagesOfATagArriveInTheirOrder) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    if (world() == 1) return;
    const int64_t next = (group->rank() + 1) % world(), previous = (group->rank() + world() - 1) % world();
    const auto value = [](int64_t rank, int64_t message) {
      return torch::full({50'000, 2}, rank * 10 + message, torch::kInt16);
    };
    std::vector<std::shared_ptr<comm::Work>> works;
    std::vector<torch::Tensor> received;
    for (const int64_t message : {0, 1, 2}) {
      works.push_back(group->start_send(value(group->rank(), message), next, message == 2 ? 5 : 0));
    }
    for (const int64_t message : {2, 0, 1}) {
      received.push_back(torch::zeros({2, 50'000}, torch::kInt16).t());
      works.push_back(group->start_receive(received.back(), previous, message == 2 ? 5 : 0));
    }
    for (const auto& work : works) work->wait();
    EXPECT_TRUE(torch::equal(received[0], value(previous, 2)));
    EXPECT_TRUE(torch::equal(received[1], value(previous, 0)));
    EXPECT_TRUE(torch::equal(received[2], value(previous, 1)));
    // Between two ranks, each of which waits at once.
    if (group->rank() == 0) group->send(torch::ones({3}), 1);
    if (group->rank() != 1) return;
    torch::Tensor tensor = torch::zeros({3});
    group->receive(tensor, 0);
    EXPECT_TRUE(torch::equal(tensor, torch::ones({3})));
  });
}

TEST_P(GroupConformance, SeveralWorksAreUnderWayAndEndInAnyOrder) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const int64_t n = world(), rank = group->rank();
    for (const int64_t size : {int64_t{7}, int64_t{30'000}}) {
      std::vector<std::shared_ptr<comm::Work>> works;
      std::vector<torch::Tensor> sums, parts, wholes;
      for (int64_t depth = 0; depth < 6; ++depth) {
        sums.push_back(numbers_of(rank, size) * (depth + 1));
        parts.push_back(torch::zeros({size}));
        wholes.push_back(torch::zeros({size * n}));
        works.push_back(group->start_all_reduce(sums.back(), comm::ReduceOp::sum));
        works.push_back(
            group->start_reduce_scatter(parts.back(), numbers_of(rank, size * n) * (depth + 1), comm::ReduceOp::sum));
        works.push_back(group->start_all_gather_into(wholes.back(), numbers_of(rank, size) * (depth + 1)));
      }
      // The last first on some ranks, and twice: the second time it is over.
      if (rank % 2 == 0) std::ranges::reverse(works);
      for (const auto& work : works) work->wait();
      works.front()->wait();
      const torch::Tensor sum = reduced(n, size, comm::ReduceOp::sum).to(torch::kFloat32);
      const torch::Tensor all = reduced(n, size * n, comm::ReduceOp::sum).to(torch::kFloat32);
      for (int64_t depth = 0; depth < 6; ++depth) {
        EXPECT_TRUE(torch::equal(sums[depth], sum * (depth + 1)));
        EXPECT_TRUE(torch::equal(parts[depth], all.slice(0, rank * size, (rank + 1) * size) * (depth + 1)));
        EXPECT_TRUE(torch::equal(wholes[depth].slice(0, (n - 1) * size), numbers_of(n - 1, size) * (depth + 1)));
      }
    }
  });
}

TEST_P(GroupConformance, AWorkThatNobodyWaitsForHurtsNobody) {
  on_all_ranks([](const std::shared_ptr<comm::Group>& group) {
    group->start_all_reduce(torch::ones({50'000}), comm::ReduceOp::sum);
    torch::Tensor tensor = torch::ones({1});
    group->all_reduce(tensor, comm::ReduceOp::max);
    EXPECT_EQ(tensor.item<double>(), 1);
  });
}

TEST_P(GroupConformance, RefusesPartsThatDoNotFitBeforeAnythingIsSent) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    using ::testing::AllOf, ::testing::HasSubstr;
    const int64_t n = world();
    const auto said = [](const auto& body) {
      const CollectiveError error = failure_of(body);
      EXPECT_EQ(error.cause(), CollectiveCause::this_rank);
      return std::string(error.what());
    };
    const torch::Tensor part = torch::zeros({3}), whole = torch::zeros({3 * n + 1});
    const std::string wanted = "wanted " + std::to_string(3 * n), got = "got " + std::to_string(3 * n + 1);
    EXPECT_THAT(said([&] { group->reduce_scatter(part, whole, comm::ReduceOp::sum); }),
                AllOf(HasSubstr("reduce_scatter"), HasSubstr(wanted), HasSubstr(got)));
    EXPECT_THAT(said([&] { group->all_gather_into(whole, part); }),
                AllOf(HasSubstr("all_gather_into"), HasSubstr(wanted), HasSubstr(got)));
    EXPECT_THAT(said([&] { group->all_gather_into(torch::zeros({3 * n}, torch::kInt64), part); }),
                AllOf(HasSubstr("Float"), HasSubstr("Long")));
    EXPECT_THAT(said([&] {
                  group->reduce_scatter(torch::zeros({1}, torch::kInt64), torch::zeros({n}, torch::kInt64),
                                        comm::ReduceOp::mean);
                }),
                AllOf(HasSubstr("reduce_scatter"), HasSubstr("mean"), HasSubstr("Long")));
    EXPECT_THAT(said([&] { group->all_to_all(torch::zeros({n, 2}), torch::zeros({n, 3})); }),
                AllOf(HasSubstr("2]"), HasSubstr("3]")));
    EXPECT_THAT(said([&] { group->all_to_all(torch::zeros({n}), torch::zeros({n}), {}, std::vector<int64_t>(n, 2)); }),
                AllOf(HasSubstr("input"), HasSubstr(std::to_string(n) + " rows"), HasSubstr("2")));
    for (const int64_t rank : {group->rank(), n, int64_t{-1}}) {
      EXPECT_THAT(said([&] { group->send(part, rank); }), AllOf(HasSubstr("send"), HasSubstr(std::to_string(rank))));
      EXPECT_THAT(said([&] { group->receive(part, rank); }), HasSubstr("receive"));
    }
    EXPECT_THAT(said([&] { group->split({0, n}); }), AllOf(HasSubstr("split"), HasSubstr(std::to_string(n))));
    EXPECT_THAT(said([&] { group->split({0, 0}); }), HasSubstr("[0, 0]"));
    EXPECT_THAT(said([&] { group->split({}); }), HasSubstr("split"));
    EXPECT_THAT(said([&] { group->allocate(-1, torch::kFloat32); }), HasSubstr("-1"));
    group->barrier();  // nobody is left waiting
  });
}

TEST_P(GroupConformance, SplitsIntoGroupsInAnyOrderOfRanks) {
  on_all_ranks([this](const std::shared_ptr<comm::Group>& group) {
    const int64_t n = world(), rank = group->rank();
    std::vector<int64_t> own, backwards;  // every rank names its own half
    for (int64_t other = 0; other < n; ++other) {
      if (other % 2 == rank % 2) own.push_back(other);
      backwards.insert(backwards.begin(), other);
    }
    const auto half = group->split(own);
    ASSERT_EQ(half->size(), std::ssize(own));
    EXPECT_EQ(half->rank(), rank / 2);
    torch::Tensor sum = torch::full({3}, static_cast<double>(rank));
    half->all_reduce(sum, comm::ReduceOp::sum);
    int64_t expected = 0;
    for (const int64_t other : own) expected += other;
    EXPECT_EQ(sum[0].item<int64_t>(), expected);

    const auto reversed = group->split(backwards);
    EXPECT_EQ(reversed->rank(), n - 1 - rank);
    torch::Tensor places = torch::zeros({n}, torch::kInt64);
    reversed->all_gather_into(places, torch::full({1}, rank, torch::kInt64));
    EXPECT_TRUE(torch::equal(places, torch::arange(n - 1, -1, -1)));

    const auto last = group->split({n - 1});  // those outside may call, and get nothing
    EXPECT_EQ(last != nullptr, rank == n - 1);
    if (n < 3) return;
    if (rank < 2) {  // and need not
      const auto pair = group->split({0, 1});
      const auto again = pair->split({1, 0});
      torch::Tensor tensor = torch::ones({2});
      again->all_reduce(tensor, comm::ReduceOp::sum);
      EXPECT_EQ(tensor[1].item<double>(), 2);
    }
    group->barrier();
  });
}

TEST_P(GroupConformance, AnAbortEndsWhatASplitWaitsFor) {
  std::vector<std::shared_ptr<comm::Group>> pairs(3);
  run_ranks(GetParam().make_groups(3), [&](const std::shared_ptr<comm::Group>& group) {
    if (group->rank() == 1) return;
    const auto& pair = pairs[group->rank()] = group->split({0, 2});
    if (group->rank() != 0) return;
    torch::Tensor part = torch::zeros({2});
    // With checks it waits for the others where it is started.
    auto waiting = std::async(std::launch::async, [&] {
      return failure_of([&] { pair->reduce_scatter(part, torch::zeros({4}), comm::ReduceOp::sum); });
    });
    group->abort();
    EXPECT_EQ(waiting.get().cause(), CollectiveCause::stopped);
    EXPECT_EQ(failure_of([&] { pair->all_gather_into(torch::zeros({4}), part); }).cause(), CollectiveCause::stopped);
    EXPECT_EQ(failure_of([&] { group->split({0, 2}); }).cause(), CollectiveCause::stopped);
  });
}

TEST_P(GroupConformance, AllocatesMemoryThatOutlivesTheGroup) {
  std::vector<torch::Tensor> kept(static_cast<size_t>(GetParam().sizes.back()));
  on_all_ranks([&](const std::shared_ptr<comm::Group>& group) {
    EXPECT_EQ(group->allocate(0, torch::kFloat32).numel(), 0);
    torch::Tensor tensor = group->allocate(20'000, torch::kBFloat16);
    EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{20'000}));
    EXPECT_EQ(tensor.scalar_type(), torch::kBFloat16);
    tensor.fill_(1);
    group->all_reduce(tensor, comm::ReduceOp::sum);
    EXPECT_TRUE((tensor == static_cast<double>(world())).all().item<bool>());
    kept[static_cast<size_t>(group->rank())] = tensor;
  });
  for (torch::Tensor& tensor : kept) tensor.fill_(2);
}

}  // namespace paceline::testing
