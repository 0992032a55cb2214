// A publication to be disturbed, and what must be found after it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/checkpoint/checkpoint_fixture.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/run_layout.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {

// Two ranks stage `folder`/user and their report is published.
inline int publish_in_child(const std::string& folder) {
  std::vector<StagedPart> parts;
  for (const int64_t rank : {0, 1}) {
    auto stage = Stage::create(folder + "/run", worker(rank + 1), 2).ValueOrDie();
    if (!stage.copy_folder(folder + "/user").ok()) return 1;
    const auto staged = stage.finish();
    if (!staged.ok()) return 2;
    parts.push_back({.rank = rank, .staged = *staged});
  }
  return Store(folder + "/run").publish(parts, {.report = 2}).ok() ? 0 : 3;
}

// A run with a published checkpoint of report 1.
inline void make_run(const testing::TemporaryFolder& folder) {
  testing::write_file(folder / "user/model", std::string(2'000'000, 'm'));
  testing::write_file(folder / "user/sub/file", "x");
  std::filesystem::create_directories(folder / "run");
  auto stage = Stage::create(folder / "run", worker(1), 1).ValueOrDie();
  ASSERT_TRUE(stage.copy_folder(folder / "user").ok());
  ASSERT_TRUE(Store(folder / "run").publish({{0, stage.finish().ValueOrDie()}}, {.report = 1}).ok());
}

// Every checkpoint that is listed is whole, what is not leaves nothing behind, and the next publication works.
inline std::vector<int64_t> reports_after_recovery(const testing::TemporaryFolder& folder) {
  Store store(folder / "run");
  EXPECT_TRUE(store.collect_leftovers().ok());
  std::vector<int64_t> reports;
  std::vector<std::string> names;
  for (const Published& checkpoint : store.list().ValueOrDie()) {
    EXPECT_TRUE(verify(checkpoint.path).ok());
    reports.push_back(checkpoint.report);
    names.push_back(run_layout::checkpoint_folder(checkpoint.report));
  }
  EXPECT_EQ(testing::names_in(folder / "run"), names);
  return reports;
}

}  // namespace paceline::checkpoint
