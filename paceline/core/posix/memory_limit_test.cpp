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

// Files that were read twice are active, such as a dataset's in the second epoch.
TEST(MemoryLimit, AllFilesInMemoryCanBeTakenBack) {
  EXPECT_EQ(files_in_memory("anon 5\nfile 400\ninactive_file 100\nactive_file 250\nunevictable 50\n", 2), 350);
  EXPECT_EQ(files_in_memory("active_file 1\ninactive_file 2\ntotal_inactive_file 30\ntotal_active_file 4\n", 1), 34);
  EXPECT_EQ(files_in_memory("", 2), 0);
}

}  // namespace
}  // namespace paceline
