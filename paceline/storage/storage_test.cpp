#include "paceline/storage/storage.h"

#include "paceline/storage/local/local_storage.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/storage/objects/retrying_storage.h"
#include "paceline/testing/faulty_storage.h"
#include "paceline/testing/storage_conformance.h"

namespace paceline::testing {
namespace {

using storage::LocalStorage;
using storage::MemoryStorage;
using storage::RetryingStorage;
using storage::RetryPolicy;
using storage::Storage;

struct Memory {
  std::shared_ptr<Storage> storage() { return std::make_shared<MemoryStorage>(); }
};

struct Local {
  TemporaryFolder folder;
  std::shared_ptr<Storage> storage() { return std::make_shared<LocalStorage>(folder / "storage"); }
};

std::shared_ptr<Storage> retrying(std::shared_ptr<Storage> inner) {
  return std::make_shared<RetryingStorage>(std::move(inner), RetryPolicy{}, [](Duration) {});
}

struct EverySecondCallFails {
  std::shared_ptr<Storage> storage() { return retrying(every_nth_fails(std::make_shared<MemoryStorage>(), 2)); }
};

struct Slow {
  std::shared_ptr<Storage> storage() {
    return each_takes(std::make_shared<MemoryStorage>(), std::chrono::milliseconds(1));
  }
};

struct LocalWithFailures {
  Local local;
  std::shared_ptr<Storage> storage() { return retrying(every_nth_fails(local.storage(), 3)); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StorageConformance, Memory);
INSTANTIATE_TYPED_TEST_SUITE_P(Local, StorageConformance, Local);
INSTANTIATE_TYPED_TEST_SUITE_P(EverySecondCallFails, StorageConformance, EverySecondCallFails);
INSTANTIATE_TYPED_TEST_SUITE_P(LocalWithFailures, StorageConformance, LocalWithFailures);
INSTANTIATE_TYPED_TEST_SUITE_P(Slow, StorageConformance, Slow);

TEST(RetryBudget, IsANumberOfSecondsOrAnError) {
  for (const char* wrong : {"abc", "", "12s", "-1", "0", "nan", "inf"}) {
    ::setenv("PACELINE_STORAGE_RETRY_S", wrong, 1);
    const auto opened = storage::with_retries(std::make_shared<MemoryStorage>());
    EXPECT_THAT(opened.status().ToString(),
                ::testing::AllOf(::testing::HasSubstr("PACELINE_STORAGE_RETRY_S is \"" + std::string(wrong) + "\""),
                                 ::testing::HasSubstr("seconds")));
  }
  ::setenv("PACELINE_STORAGE_RETRY_S", "0.5", 1);
  EXPECT_TRUE(storage::with_retries(std::make_shared<MemoryStorage>()).ok());
  ::unsetenv("PACELINE_STORAGE_RETRY_S");
}

TEST(FullStorage, FailsAtOnceAndKeepsWhatThereIs) {
  const auto storage = retrying(room_for(std::make_shared<MemoryStorage>(), 10));
  ASSERT_TRUE(storage->write("file", "12345678").ok());
  const arrow::Status full = storage->write("file", "123456789");
  EXPECT_THAT(full.ToString(), ::testing::HasSubstr("No space left on device"));
  EXPECT_EQ(storage::read_whole(*storage, "file").ValueOrDie(), "12345678");
}

}  // namespace
}  // namespace paceline::testing
