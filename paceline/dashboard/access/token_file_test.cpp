#include "paceline/dashboard/access/token_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "paceline/testing/temporary_folder.h"

namespace paceline::dashboard {
namespace {

using ::testing::HasSubstr;

TEST(TokenFile, IsMadeOnceForItsUserAlone) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "metrics_token";
  const std::string token = token_in_file(path, "the token for /metrics").ValueOrDie();
  EXPECT_EQ(token.size(), 32u);
  EXPECT_EQ(token_in_file(path, "the token for /metrics").ValueOrDie(), token);
  struct stat what{};
  ASSERT_EQ(::stat(path.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0600u);
  ::chmod(path.c_str(), 0640);
  EXPECT_THAT(token_in_file(path, "the token for /metrics").status().message(),
              HasSubstr("holds the token for /metrics, and others may read it (wanted mode 0600, got 0640)"));
  testing::write_file(path, "short\n");
  ::chmod(path.c_str(), 0600);
  EXPECT_THAT(token_in_file(path, "the token for /metrics").status().message(), HasSubstr("holds no token"));
  testing::write_file(path, std::string(1025, 'x'));
  EXPECT_THAT(token_in_file(path, "the token for /metrics").status().message(), HasSubstr("of 32 to 1024 letters"));
  testing::write_file(path, "");  // the disk was full
  EXPECT_EQ(token_in_file(path, "the token for /metrics").ValueOrDie().size(), 32u);
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_THAT(token_in_file(path, "the token for /metrics").status().message(), HasSubstr("is not there"));
  const std::string elsewhere = folder / "elsewhere";  // as Kubernetes mounts secrets, of an editor for Windows
  testing::write_file(elsewhere, std::string(32, 'x') + "\r\n");
  ::chmod(elsewhere.c_str(), 0600);
  EXPECT_EQ(token_in_file(path, "the token for /metrics").ValueOrDie(), std::string(32, 'x'));
  std::filesystem::remove(elsewhere);
  std::filesystem::remove(path);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace paceline::dashboard
