#include <gmock/gmock.h>

#include <cstdlib>

#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

using ::testing::HasSubstr;

std::string resolved(std::string_view text) {
  return resolve_folder(text, "/home/rider").ValueOr("refused");
}

TEST(ResolveFolder, TakesWhatUsersWrite) {
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(resolved("/data/runs"), "/data/runs");
  EXPECT_EQ(resolved("/data/runs/"), "/data/runs");
  EXPECT_EQ(resolved("//data//./runs//"), "/data/runs");
  EXPECT_EQ(resolved("/"), "/");
  EXPECT_EQ(resolved("results"), "/home/rider/results");
  EXPECT_EQ(resolved("./results/"), "/home/rider/results");
  EXPECT_EQ(resolved("."), "/home/rider");
  EXPECT_EQ(resolved("../other"), "/home/rider/../other");
  EXPECT_EQ(resolved("~"), "/home/someone");
  EXPECT_EQ(resolved("~/runs/"), "/home/someone/runs");
  EXPECT_EQ(resolved("file:///data/my%20runs/"), "/data/my runs");
  EXPECT_EQ(resolved("file://localhost/data"), "/data");
  EXPECT_EQ(resolved("with space/100%20"), "/home/rider/with space/100%20");
}

TEST(ResolveFolder, RefusesTheRestAndSaysWhatWorks) {
  for (const char* text : {"s3://bucket/runs", "gs://bucket", "hdfs://host/x"}) {
    const auto status = resolve_folder(text, "/").status();
    EXPECT_TRUE(status.IsInvalid());
    EXPECT_THAT(status.message(), AllOf(HasSubstr(text), HasSubstr("not supported"), HasSubstr("file:///")));
  }
  for (const char* text : {"", "~other/runs", "file://host/data", "file://"}) {
    EXPECT_TRUE(resolve_folder(text, "/").status().IsInvalid()) << text;
  }
}

}  // namespace
}  // namespace paceline::storage
