#include "paceline/storage/store_path.h"

#include <gtest/gtest.h>

namespace paceline::storage {
namespace {

TEST(StorePath, IsWithoutSchemeAndOptions) {
  EXPECT_EQ(path_in_store("s3://KEY:SECRET@bucket/runs/my%20run?region=x").ValueOrDie(), "bucket/runs/my run");
  EXPECT_EQ(path_in_store("gs://bucket").ValueOrDie(), "bucket");
  EXPECT_EQ(path_in_store("abfs://data@account.dfs.core.windows.net/runs").ValueOrDie(), "data/runs");
  EXPECT_EQ(path_in_store("/runs/a%20b").ValueOrDie(), "/runs/a%20b");
}

TEST(StorePath, KnowsWhatIsBelow) {
  EXPECT_EQ(part_below("s3://K:S@bucket/runs/my%20run/a?region=x", "s3://K:S@bucket/runs?region=x"), "my run/a");
  EXPECT_EQ(part_below("s3://bucket/runs", "s3://bucket/runs"), "");
  EXPECT_EQ(part_below("s3://bucket/runs2", "s3://bucket/runs"), std::nullopt);
  EXPECT_EQ(part_below("gs://bucket/runs/a", "s3://bucket/runs"), std::nullopt);
  EXPECT_EQ(part_below("s3://bucket/runs/a?region=y", "s3://bucket/runs?region=x"), std::nullopt) << "another store";
  EXPECT_EQ(part_below("/runs/a b", "/runs"), "a b");
  EXPECT_EQ(part_below("/runs", "/"), "runs");
  EXPECT_EQ(part_below("/runs2", "/runs"), std::nullopt);
  EXPECT_EQ(part_below("/runs", "s3://bucket"), std::nullopt);
}

}  // namespace
}  // namespace paceline::storage
