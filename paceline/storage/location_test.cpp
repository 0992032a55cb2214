#include "paceline/storage/location.h"

#include <gmock/gmock.h>

namespace paceline::storage {
namespace {

using ::testing::HasSubstr;

TEST(Location, ObjectStoresAreKeptAsUris) {
  EXPECT_EQ(resolve_location("s3://bucket/runs/?region=eu-west-1", "/here").ValueOrDie(),
            "s3://bucket/runs?region=eu-west-1");
  EXPECT_EQ(resolve_location("GS://bucket", "/here").ValueOrDie(), "gs://bucket");
  EXPECT_EQ(resolve_location("abfs://data@account.dfs.core.windows.net/a//", "/").ValueOrDie(),
            "abfs://data@account.dfs.core.windows.net/a");
  EXPECT_EQ(resolve_location("runs", "/here").ValueOrDie(), "/here/runs");
  EXPECT_EQ(resolve_location("file:///a%20b", "/here").ValueOrDie(), "/a b");
}

TEST(Location, RefusesWhatCannotHoldARun) {
  EXPECT_THAT(resolve_location("ftp://host/x", "/").status().message(), HasSubstr("s3://BUCKET"));
  EXPECT_THAT(resolve_location("s3:///", "/").status().message(), HasSubstr("names no bucket"));
}

TEST(Location, JoinsBeforeTheOptions) {
  EXPECT_EQ(join("s3://bucket/runs?region=x", "my run/checkpoint_000001"),
            "s3://bucket/runs/my%20run/checkpoint_000001?region=x");
  EXPECT_EQ(join("/runs", "my run"), "/runs/my run");
  EXPECT_EQ(join("/", "run"), "/run");
  EXPECT_EQ(last_part("s3://bucket/runs/my%20run?region=x"), "my run");
  EXPECT_EQ(last_part("/runs/my run"), "my run");
}

TEST(Location, SecretsAreNotShown) {
  EXPECT_EQ(without_secrets("s3://KEY:SECRET@bucket/a?region=x&secret_key=y&access_key=z"),
            "s3://KEY:…@bucket/a?region=x&secret_key=…&access_key=…");
  EXPECT_EQ(without_secrets("abfs://data@account/a?sig=abc&enable_tls=false"),
            "abfs://data@account/a?sig=…&enable_tls=false");
  EXPECT_EQ(without_secrets("/a?b"), "/a?b");
}

}  // namespace
}  // namespace paceline::storage
