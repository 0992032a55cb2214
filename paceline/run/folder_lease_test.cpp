#include "paceline/run/folder_lease.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

storage::LeaseOptions quick() {
  return {.renewal = std::chrono::milliseconds(5),
          .takeover = std::chrono::milliseconds(2000),
          .look = std::chrono::milliseconds(1)};
}

TEST(FolderLease, ThisMachinesFoldersAreItsOwn) {
  const TemporaryFolder folder;
  EXPECT_FALSE(may_be_shared(folder.path()));
  EXPECT_FALSE(may_be_shared(folder / "none"));
}

// The lock says that this machine's own driver is dead.
TEST(FolderLease, TheSameMachineGoesOnAtOnce) {
  const TemporaryFolder folder;
  storage::LeaseOptions silent = quick();
  silent.renewal = std::chrono::hours(1);
  const auto dead = lease_folder(folder.path(), silent).ValueOrDie();
  storage::LeaseOptions patient = quick();
  patient.takeover = std::chrono::hours(1);
  EXPECT_TRUE(lease_folder(folder.path(), patient).ok());
}

// The driver is not asked, as when `paceline rm` has waited for one that is stopped.
TEST(FolderLease, WhoseFolderIsDeletedHasLostTheLeaseAndMakesNoFolderAnew) {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  ASSERT_TRUE(storage::make_folders(run).ok());
  std::promise<std::string> told;
  storage::LeaseOptions options = quick();
  options.renewal = std::chrono::hours(1);
  options.recent = {};
  options.on_lost = [&](const std::string& why) { told.set_value(why); };
  auto lease = lease_folder(run, options).ValueOrDie();
  ASSERT_TRUE(storage::remove_all(run).ok());
  EXPECT_TRUE(lease->gate()(/*looks=*/true).IsCancelled());
  EXPECT_THAT(told.get_future().get(), HasSubstr("was deleted"));
  lease.reset();
  EXPECT_FALSE(std::filesystem::exists(run));
}

TEST(FolderLease, AnotherMachinesDriverIsNamed) {
  const TemporaryFolder folder;
  const std::string claim = folder / ".lease/000001_other";
  testing::write_file(claim, "{}");
  std::atomic<bool> ends = false;
  std::thread other([&] {
    for (int beat = 1; !ends; ++beat) {
      const std::string text = R"({"pid":7,"host":"other","beat":)" + std::to_string(beat) + "}";
      EXPECT_TRUE(storage::write_atomically(claim, text).ok());
    }
  });
  EXPECT_THAT(lease_folder(folder.path(), quick()).status().message(), HasSubstr("is held by process 7 on host other"));
  ends = true;
  other.join();
}

}  // namespace
}  // namespace paceline::run
