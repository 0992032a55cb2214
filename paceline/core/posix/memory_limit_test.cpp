#include "paceline/core/posix/memory_limit.h"

#include <gmock/gmock.h>

namespace paceline {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> folders_of(const char* proc_self_cgroup) {
  std::vector<std::string> folders;
  for (const MemoryGroup& group : limiting_groups(proc_self_cgroup)) folders.push_back(group.folder);
  return folders;
}

TEST(MemoryLimit, MayBeThatOfAnyGroupAbove) {
  EXPECT_THAT(folders_of("0::/jobs/one/step\n"), ElementsAre("/sys/fs/cgroup/jobs/one/step", "/sys/fs/cgroup/jobs/one",
                                                             "/sys/fs/cgroup/jobs", "/sys/fs/cgroup"));
  EXPECT_THAT(folders_of("4:cpu,memory:/jobs/one\n"),
              ElementsAre("/sys/fs/cgroup/memory/jobs/one", "/sys/fs/cgroup/memory/jobs", "/sys/fs/cgroup/memory"));
  EXPECT_THAT(folders_of("0::/\n"), ElementsAre("/sys/fs/cgroup"));
}

}  // namespace
}  // namespace paceline
