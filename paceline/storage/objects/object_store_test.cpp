// The conformance suite against a real server, which object_store_test.py starts. Not run by itself.
#include <cstdlib>

#include "paceline/storage/location.h"
#include "paceline/storage/storage.h"
#include "paceline/testing/storage_conformance.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;

storage::Location test_location() {
  static int number = 0;
  return storage::join(std::getenv("PACELINE_TEST_STORAGE"), "test " + std::to_string(++number));
}

struct ObjectStore {
  const storage::Location location = test_location();
  std::shared_ptr<storage::Storage> storage() { return storage::open_storage(location).ValueOrDie(); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(ObjectStore, StorageConformance, ObjectStore);

TEST(ObjectStore, SaysWhatToDoWithoutABucket) {
  std::string uri = std::getenv("PACELINE_TEST_STORAGE");
  uri.replace(uri.find("bucket"), 6, "no-such-bucket");
  const auto storage = storage::open_storage(uri).ValueOrDie();
  const arrow::Status status = storage->write("folder/file", "x");
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("make the bucket"));
  EXPECT_THAT(status.message(), HasSubstr("no-such-bucket/folder/file"));
}

}  // namespace
}  // namespace paceline::testing
