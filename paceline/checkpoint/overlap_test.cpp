#include <gtest/gtest.h>

#include <random>

#include "paceline/checkpoint/overlap_internal.h"

namespace paceline::checkpoint {
namespace {

Slice slice(Shape start, Shape shape) {
  return {.file = "f", .start = std::move(start), .shape = std::move(shape)};
}

std::vector<const Slice*> pointers(const std::vector<Slice>& slices) {
  std::vector<const Slice*> pointers;
  for (const Slice& one : slices) pointers.push_back(&one);
  return pointers;
}

// However many ranks a tensor is spread over, in rows, columns or both, and in whatever order they come.
TEST(Overlap, OfAGridIsFoundWithoutComparingPairs) {
  for (const auto& [rows, columns] : {std::pair(4000, 1), std::pair(1, 4000), std::pair(60, 70)}) {
    std::vector<Slice> slices;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) slices.push_back(slice({3 * row, 2 * column}, {3, 2}));
    }
    std::shuffle(slices.begin(), slices.end(), std::mt19937_64(1));
    int64_t compared = 0;
    EXPECT_FALSE(find_overlap(pointers(slices), &compared));
    EXPECT_EQ(compared, 0) << rows << " x " << columns;
    slices.push_back(slices[slices.size() / 2]);
    const auto found = find_overlap(pointers(slices), &compared);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first->start, found->second->start);
    EXPECT_EQ(compared, 1) << rows << " x " << columns;
  }
}

TEST(Overlap, OfSlicesThatNoCutPartsIsThatOfAllPairs) {
  // A pinwheel round a hole.
  std::vector<Slice> slices = {slice({0, 0}, {2, 1}), slice({0, 1}, {1, 2}), slice({1, 2}, {2, 1}),
                               slice({2, 0}, {1, 2})};
  EXPECT_FALSE(find_overlap(pointers(slices)));
  slices.push_back(slice({1, 1}, {1, 1}));
  EXPECT_FALSE(find_overlap(pointers(slices)));
  slices.push_back(slice({1, 0}, {1, 2}));
  EXPECT_TRUE(find_overlap(pointers(slices)));
  // Scalars have no dimension to be cut along.
  const std::vector<Slice> scalars = {slice({}, {}), slice({}, {})};
  EXPECT_TRUE(find_overlap(pointers(scalars)));
  EXPECT_FALSE(find_overlap({&scalars.front()}));
}

TEST(Overlap, OfRandomSlicesIsThatOfAllPairs) {
  std::mt19937_64 random(7);
  const auto below = [&random](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  int with = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Slice> slices;
    for (int64_t count = 2 + below(6); count > 0; --count) {
      slices.push_back(slice({below(6), below(6), below(3)}, {1 + below(3), 1 + below(3), 1 + below(2)}));
    }
    bool expected = false;
    for (size_t i = 0; i < slices.size(); ++i) {
      for (size_t j = i + 1; j < slices.size(); ++j) {
        bool apart = false;
        for (size_t dim = 0; dim < 3; ++dim) {
          const Slice &a = slices[i], &b = slices[j];
          apart |= a.start[dim] + a.shape[dim] <= b.start[dim] || b.start[dim] + b.shape[dim] <= a.start[dim];
        }
        expected |= !apart;
      }
    }
    with += expected ? 1 : 0;
    EXPECT_EQ(find_overlap(pointers(slices)).has_value(), expected) << "round " << round;
  }
  EXPECT_GT(with, 500);
  EXPECT_LT(with, 1900);
}

}  // namespace
}  // namespace paceline::checkpoint
