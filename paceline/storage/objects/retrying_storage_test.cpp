#include "paceline/storage/objects/retrying_storage.h"

#include <gmock/gmock.h>

#include "paceline/storage/memory_storage.h"
#include "paceline/storage/objects/transience.h"
#include "paceline/testing/faulty_storage.h"

namespace paceline::storage {
namespace {

using ::testing::HasSubstr;

struct Pauses {
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::vector<double> seconds;

  std::shared_ptr<Storage> retrying(std::shared_ptr<Storage> inner, RetryPolicy policy = {}) {
    return std::make_shared<RetryingStorage>(
        std::move(inner), policy,
        [this](Duration pause) {
          seconds.push_back(std::chrono::duration<double>(pause).count());
          clock->advance(pause);
        },
        clock);
  }
};

std::shared_ptr<Storage> failing(const std::string& message, int64_t& calls) {
  return std::make_shared<testing::GuardedStorage>(std::make_shared<MemoryStorage>(),
                                                   [message, &calls](const auto&, const auto&, int64_t) {
                                                     ++calls;
                                                     return arrow::Status::IOError(message);
                                                   });
}

TEST(RetryingStorage, PausesGrowWithJitterUntilTheBudgetIsSpent) {
  Pauses pauses;
  int64_t calls = 0;
  const auto storage = pauses.retrying(failing("AWS Error SLOW_DOWN during PutObject (HTTP status 503)", calls),
                                       {.first_pause = std::chrono::seconds(1),
                                        .longest_pause = std::chrono::seconds(8),
                                        .budget = std::chrono::seconds(60)});
  const arrow::Status failed = storage->write("file", "x");
  EXPECT_THAT(failed.message(), HasSubstr("SLOW_DOWN"));
  EXPECT_THAT(failed.message(), HasSubstr("tried " + std::to_string(calls) + " times in 60 s"));
  ASSERT_GE(pauses.seconds.size(), 6u);
  double sum = 0;
  for (size_t i = 0; i < pauses.seconds.size(); ++i) {
    const double whole = std::min(8.0, static_cast<double>(1 << i));
    EXPECT_GE(pauses.seconds[i], whole / 2);
    EXPECT_LE(pauses.seconds[i], whole);
    sum += pauses.seconds[i];
  }
  EXPECT_LE(sum, 60);
  EXPECT_GE(sum, 60 - 8 - 8);
}

TEST(RetryingStorage, WhatIsPermanentFailsAtOnceAndSaysWhatToDo) {
  for (const auto& [message, advice] : std::map<std::string, std::string>{
           {"AWS Error NO_SUCH_BUCKET during PutObject operation: The specified bucket does not exist",
            "make the bucket"},
           {"AWS Error ACCESS_DENIED during PutObject operation (HTTP status 403)", "ask Alice"},
           {"google::cloud::Status(PERMISSION_DENIED: no)", "ask Alice"},
           {"Azure Error: [AuthenticationFailed] 403", "ask Alice"},
           {"curlCode: 6, Could not resolve host: nowhere", "endpoint_override"}}) {
    Pauses pauses;
    int64_t calls = 0;
    const auto storage = pauses.retrying(failing(message, calls));
    EXPECT_FALSE(storage->list("").ok());
    EXPECT_EQ(calls, 1) << message;
    EXPECT_THAT(remedy(arrow::Status::IOError(message), "ask Alice"), HasSubstr(advice));
  }
}

TEST(RetryingStorage, WhatPassesIsTriedAgain) {
  for (const char* message : {"AWS Error INTERNAL_FAILURE during PutObject operation (HTTP status 500)",
                              "AWS Error UNKNOWN (HTTP status 503)", "AWS Error THROTTLING",
                              "AWS Error REQUEST_TIMEOUT", "AWS Error NETWORK_CONNECTION: curlCode: 56, reset by peer",
                              "google::cloud::Status(UNAVAILABLE: try again)", "Azure Error: [ServerBusy] 503"}) {
    EXPECT_TRUE(is_transient(arrow::Status::IOError(message))) << message;
  }
  errno = ENOSPC;
  EXPECT_FALSE(is_transient(errno_status("writing a local file")));
  EXPECT_FALSE(is_transient(arrow::Status::KeyError("there is no file")));
  EXPECT_FALSE(is_transient(arrow::Status::OK()));
}

}  // namespace
}  // namespace paceline::storage
