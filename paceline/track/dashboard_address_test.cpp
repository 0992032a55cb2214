#include "paceline/track/dashboard_address.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "paceline/core/posix/host_name.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/run_id.h"

namespace paceline::track {
namespace {

using ::testing::Optional;

TEST(DashboardAddress, IsFoundForAsLongAsItsDashboardLives) {
  const testing::TemporaryFolder folder;
  const auto find = [&folder](const std::string& run = "/runs/mnist") {
    return DashboardAddress::find(folder.path(), run);
  };
  EXPECT_EQ(find(), std::nullopt);
  {
    const auto first = DashboardAddress::announce(folder.path(), "http://127.0.0.1:8265/").ValueOrDie();
    EXPECT_THAT(find(), Optional(std::string("http://127.0.0.1:8265/")));
  }
  EXPECT_EQ(find(), std::nullopt);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "dashboards"));
  const auto third = DashboardAddress::announce(folder.path(), "http://[::1]:1/").ValueOrDie();
  EXPECT_THAT(find(), Optional(std::string("http://[::1]:1/")));
}

TEST(DashboardAddress, OfSeveralThatShowTheRunTheFirstThatLivesIsFound) {
  const testing::TemporaryFolder folder;
  const auto find = [&folder] { return DashboardAddress::find(folder.path(), "/runs/mnist"); };
  const auto announce = [&folder](const char* url, const std::vector<std::string>& paths = {}) {
    return DashboardAddress::announce(folder.path(), url, paths).ValueOrDie();
  };
  const auto narrow = announce("http://127.0.0.1:1/", {"/elsewhere"});
  std::optional first = announce("http://127.0.0.1:2/");
  const auto second = announce("http://127.0.0.1:3/");
  EXPECT_THAT(find(), Optional(std::string("http://127.0.0.1:2/")));
  first.reset();
  EXPECT_THAT(find(), Optional(std::string("http://127.0.0.1:3/")));
}

TEST(DashboardAddress, WhatAKilledOneHasLeftIsNotFoundAndGoes) {
  const testing::TemporaryFolder folder;
  const std::string name = "00000000000000000001_7_" + host_name();
  const std::string left = folder / ("dashboards/" + name), before_its_lock = folder / ("dashboards/." + name);
  for (const std::string& file : {left, before_its_lock}) testing::write_file(file, "http://127.0.0.1:9/");
  std::filesystem::last_write_time(before_its_lock,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string elsewhere = folder / "dashboards/00000000000000000001_7_elsewhere";
  const std::string just_begun = folder / ("dashboards/.00000000000000000002_7_" + host_name());
  for (const std::string& file : {elsewhere, just_begun}) testing::write_file(file, "http://127.0.0.1:8/");
  EXPECT_EQ(DashboardAddress::find(folder.path(), "/runs/mnist"), std::nullopt);
  const auto next = DashboardAddress::announce(folder.path(), "http://127.0.0.1:2/").ValueOrDie();
  for (const std::string& file : {left, before_its_lock}) EXPECT_FALSE(std::filesystem::exists(file)) << file;
  for (const std::string& file : {elsewhere, just_begun}) EXPECT_TRUE(std::filesystem::exists(file)) << file;
}

TEST(DashboardAddress, OneThatIsStoppedHidesNoOther) {
  const testing::TemporaryFolder folder;
  const pid_t stopped = ::fork();
  if (stopped == 0) {
    const auto first = DashboardAddress::announce(folder.path(), "http://127.0.0.1:1/");
    ::raise(SIGSTOP);
    ::_exit(first.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(stopped, &status, WUNTRACED), stopped);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto find = [&folder] { return DashboardAddress::find(folder.path(), "/runs/mnist"); };
  EXPECT_EQ(find(), std::nullopt);
  const auto second = DashboardAddress::announce(folder.path(), "http://127.0.0.1:2/").ValueOrDie();
  EXPECT_THAT(find(), Optional(std::string("http://127.0.0.1:2/")));
  ::kill(stopped, SIGKILL);
  ::waitpid(stopped, &status, 0);
}

TEST(DashboardAddress, IsFoundForRunsThatItShows) {
  const testing::TemporaryFolder folder;
  const auto announced =
      DashboardAddress::announce(folder.path(), "http://127.0.0.1:8265/", {"/runs", "s3://bucket/ours?region=a"})
          .ValueOrDie();
  for (const char* shown : {"/runs/mnist", "/runs/a/b", "s3://bucket/ours/mnist?region=a"}) {
    EXPECT_THAT(DashboardAddress::find(folder.path(), shown), Optional(std::string("http://127.0.0.1:8265/"))) << shown;
  }
  for (const char* other : {"/runs2/mnist", "/elsewhere/mnist", "s3://bucket/theirs/mnist?region=a"}) {
    EXPECT_EQ(DashboardAddress::find(folder.path(), other), std::nullopt) << other;
  }
}

TEST(DashboardAddress, ARunHasAPageInIt) {
  EXPECT_EQ(run_page("http://127.0.0.1:8265/", "/runs/mnist"), "http://127.0.0.1:8265/#/runs/" + run_id("/runs/mnist"));
  EXPECT_EQ(run_page("http://127.0.0.1:8265/#code=1f", "/runs/mnist"),
            "http://127.0.0.1:8265/#code=1f/runs/" + run_id("/runs/mnist"));
}

}  // namespace
}  // namespace paceline::track
