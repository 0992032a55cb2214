#include "paceline/core/posix/build_id.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace paceline {
namespace {

TEST(BuildId, IsWhatReadelfSays) {
  std::FILE* const pipe = ::popen("readelf -n /proc/$PPID/exe 2>&1", "re");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char part[4096];
  for (size_t size; (size = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, size);
  if (::pclose(pipe) != 0) GTEST_SKIP() << "there is no readelf: " << text;
  const size_t at = text.find("Build ID: ");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(build_id_of_program(), text.substr(at + 10, text.find('\n', at) - at - 10));
}

}  // namespace
}  // namespace paceline
