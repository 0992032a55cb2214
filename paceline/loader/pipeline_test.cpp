#include "paceline/loader/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>

namespace paceline::loader {
namespace {

TEST(BatchPipeline, GivesBatchesInOrderWhateverTheThreads) {
  for (const int64_t workers : {0, 1, 2, 5}) {
    for (const int64_t ahead : {1, 2, 7}) {
      BatchPipeline<int64_t> pipeline([](int64_t, int64_t batch) { return batch * batch; }, 3, 200, workers, ahead);
      for (int64_t batch = 3; batch < 200; ++batch) ASSERT_EQ(pipeline.next(), batch * batch);
    }
  }
}

TEST(BatchPipeline, LoadsNoMoreAheadThanAsked) {
  std::atomic<int64_t> loaded{0};
  std::latch full(4);
  BatchPipeline<int64_t> pipeline(
      [&](int64_t, int64_t batch) {
        if (++loaded <= 4) full.count_down();
        return batch;
      },
      0, 100, 2, 3);
  EXPECT_EQ(pipeline.next(), 0);
  full.wait();  // three wait, one was taken; a fifth would need another next()
  EXPECT_LE(loaded, 4);
}

TEST(BatchPipeline, AnExceptionSurfacesAtItsBatch) {
  for (const int64_t workers : {0, 2}) {
    BatchPipeline<int64_t> pipeline(
        [](int64_t, int64_t batch) {
          if (batch == 2) throw std::runtime_error("row 17");
          return batch;
        },
        0, 5, workers, 4);
    EXPECT_EQ(pipeline.next(), 0);
    EXPECT_EQ(pipeline.next(), 1);
    EXPECT_THROW(pipeline.next(), std::runtime_error);
    EXPECT_EQ(pipeline.next(), 3);
  }
}

TEST(BatchPipeline, EndsWithoutBeingEmptied) {
  auto counted = std::make_shared<int>(7);
  {
    BatchPipeline<std::shared_ptr<int>> pipeline([counted](int64_t, int64_t) { return counted; }, 0, 1000, 3, 8);
    EXPECT_EQ(*pipeline.next(), 7);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

}  // namespace
}  // namespace paceline::loader
