// Storage that fills up, cannot be written, vanishes, or has names of all kinds: a clear error or a whole run, and
// nothing committed is lost.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "paceline/train/result.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StorageFaults : public Robustness {
 protected:
  testing::DriverProcess train(const std::string& storage, const std::string& run, Environment environment = {}) {
    return run_program({STORAGE_SCENARIOS_PROGRAM, storage, run}, std::move(environment));
  }
  testing::DriverProcess run_program(std::vector<std::string> command, Environment environment = {}) {
    environment.emplace("XDG_RUNTIME_DIR", runtime());
    environment.emplace("OMP_NUM_THREADS", "1");
    const std::string program = command.front();
    command.erase(command.begin());
    return testing::DriverProcess(program, std::move(command), environment);
  }
  static int64_t count_whole_checkpoints(const std::string& folder) {
    int64_t count = 0;
    for (const auto& published : checkpoint::Store(folder).list().ValueOrDie()) {
      EXPECT_TRUE(checkpoint::verify(published.path).ok()) << published.path;
      ++count;
    }
    return count;
  }
};

// A file system of its own, of a few MiB.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    fs::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=8m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_mounted() const { return mounted_; }
  bool resize(const char* size) { return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, size) == 0; }
  void fill() {
    std::ofstream ballast(path_ + "/ballast");
    while (ballast << "................................................................" << std::flush) {
    }
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_F(StorageFaults, AFullDiskEndsTheRunAndKeepsWhatIsPublished) {
  const std::string storage = temporary_ / "disk";
  SmallDisk disk(storage);
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a tmpfs needs root";
  {
    auto driver = train(storage, "run", {{"REPORTS", "0"}, {"KIBIBYTES", "1024"}});
    EXPECT_EQ(driver.wait(), 1) << driver.output();
    EXPECT_THAT(driver.output(), AllOf(HasSubstr("No space left on device"), HasSubstr(storage + "/run/")));
    EXPECT_THAT(driver.leftovers(), IsEmpty());
  }
  const int64_t published = count_whole_checkpoints(storage + "/run");
  EXPECT_GE(published, 1);  // how many is decided by how far a rank is ahead of the other with what it stages
  // Not always of that number: what one that had no room gives back can be room for the next.
  const std::string latest = checkpoint::Store(storage + "/run").list().ValueOrDie().back().name;

  disk.fill();  // not a byte is left for a journal either
  {
    auto driver = train(storage, "run");
    EXPECT_EQ(driver.wait(), 2) << driver.output();
    EXPECT_THAT(driver.output(), AllOf(HasSubstr("No space left on device"), HasSubstr(storage)));
    EXPECT_THAT(driver.leftovers(), IsEmpty());
  }
  EXPECT_EQ(count_whole_checkpoints(storage + "/run"), published);

  ASSERT_TRUE(disk.resize("size=64m"));
  auto driver = train(storage, "run", {{"REPORTS", "2"}, {"KIBIBYTES", "1024"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("continue from " + latest));
  EXPECT_EQ(count_whole_checkpoints(storage + "/run"), published + 2);
  expect_clean(driver, storage + "/run");
}

// Root may write everywhere, unless it gives that right up.
std::vector<std::string> without_root_rights(std::vector<std::string> command) {
  if (::geteuid() == 0) {
    const std::vector<std::string> prefix = {"/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search",
                                             "--inh-caps=-dac_override,-dac_read_search"};
    command.insert(command.begin(), prefix.begin(), prefix.end());
  }
  return command;
}

TEST_F(StorageFaults, StorageThatCannotBeWrittenIsRefusedBeforeAnythingStarts) {
  ASSERT_EQ(::chmod(storage_.path().c_str(), 0555), 0);
  auto driver = run_program(without_root_rights({STORAGE_SCENARIOS_PROGRAM, storage_.path(), "run"}));
  EXPECT_EQ(driver.wait(), 2) << driver.output();
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("storage_path"), HasSubstr(storage_.path()), HasSubstr("Permission denied")));
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(StorageFaults, StorageThatTurnsReadOnlyEndsTheRun) {
  auto driver =
      run_program(without_root_rights({STORAGE_SCENARIOS_PROGRAM, storage_.path(), "run"}), {{"REPORTS", "0"}});
  // The whole line: a warning says when it will be published.
  ASSERT_TRUE(driver.wait_for_output("report 2 is published\n")) << driver.output();
  ASSERT_EQ(::chmod(folder().c_str(), 0555), 0);
  ASSERT_EQ(::chmod((folder() + "/.staging").c_str(), 0555), 0);
  EXPECT_EQ(driver.wait(), 1) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("Permission denied"), HasSubstr(folder() + "/")));
  EXPECT_THAT(driver.leftovers(), IsEmpty());
  ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((folder() + "/.staging").c_str(), 0755), 0);
  EXPECT_GE(count_whole_checkpoints(folder()), 2);
}

TEST_F(StorageFaults, ARunFolderThatVanishesEndsTheRun) {
  auto driver = train(storage_.path(), "run", {{"REPORTS", "0"}});
  ASSERT_TRUE(driver.wait_for_output("report 2 is published\n")) << driver.output();
  fs::rename(folder(), storage_ / "moved");
  EXPECT_EQ(driver.wait(), 1) << driver.output();
  // A file that was just being written says only that it is not there.
  EXPECT_THAT(driver.output(), AnyOf(HasSubstr("the run folder " + folder() + " is gone"),
                                     AllOf(HasSubstr(folder() + "/"), HasSubstr("No such file or directory"))));
  EXPECT_THAT(driver.leftovers(), IsEmpty());
  EXPECT_THAT(files_in_runtime(), IsEmpty());
  EXPECT_GE(count_whole_checkpoints(storage_ / "moved"), 2);
  EXPECT_FALSE(fs::exists(folder())) << "nobody makes it anew\n" << driver.output();
}

constexpr const char* kOddName = " two  words\nand a line \xff\xfe 'quoted' \"twice\" %20 $HOME \\ ";

TEST_F(StorageFaults, NamesMayHoldAnyBytes) {
  const std::string storage = storage_ / kOddName;
  auto driver = train(storage, kOddName);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(testing::names_in(storage_.path()), ::testing::ElementsAre(kOddName));
  EXPECT_THAT(testing::names_in(storage), ::testing::ElementsAre(kOddName));
  EXPECT_EQ(count_whole_checkpoints(storage + "/" + kOddName), 5);
  EXPECT_EQ(Result::from_path(storage + "/" + kOddName).metrics_history()->num_rows(), 10);
  expect_clean(driver, storage + "/" + kOddName);

  auto again = train(storage, kOddName, {{"REPORTS", "1"}});
  EXPECT_EQ(again.wait(), 0) << again.output();
  EXPECT_THAT(again.output(), HasSubstr("continue from checkpoint_000005"));
  expect_clean(again, storage + "/" + kOddName);
}

TEST_F(StorageFaults, PathsMayGoUpAndThroughLinks) {
  // bytes/program is a link to the program, bytes/link one to far/away; bytes/link/.. is far.
  const std::string here = storage_ / kOddName;
  fs::create_directories(here);
  fs::create_directories(storage_ / "far/away");
  fs::create_directory_symlink("../far/away", here + "/link");
  fs::copy_file(STORAGE_SCENARIOS_PROGRAM, here + "/program " + kOddName);
  auto driver =
      run_program({"/usr/bin/env", "-C", here, "./program " + std::string(kOddName), "link/.././results", "run"});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_EQ(count_whole_checkpoints(storage_ / "far/results/run"), 5);
  expect_clean(driver, storage_ / "far/results/run");
  EXPECT_THAT(testing::names_in(storage_.path()), ::testing::ElementsAre(kOddName, "far"));
}

}  // namespace
}  // namespace paceline
