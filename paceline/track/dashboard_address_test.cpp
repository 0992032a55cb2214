#include "paceline/track/dashboard_address.h"

#include <gmock/gmock.h>

#include <filesystem>

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
  testing::write_file(folder / "dashboards/00000000000000000001_7", "http://127.0.0.1:9/");
  EXPECT_EQ(DashboardAddress::find(folder.path(), "/runs/mnist"), std::nullopt);
  const auto next = DashboardAddress::announce(folder.path(), "http://127.0.0.1:2/").ValueOrDie();
  EXPECT_FALSE(std::filesystem::exists(folder / "dashboards/00000000000000000001_7"));
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
