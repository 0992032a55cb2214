// The driver program `scenarios` under test, in folders of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/testing/temporary_folder.h"
#include "tests/robustness/driver_process.h"

namespace paceline {

using Environment = std::map<std::string, std::string>;

class Robustness : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(runtime()); }

  testing::DriverProcess start(const std::string& scenario, Environment environment = {},
                               const std::string& run = "run") {
    return start_with({scenario, storage_.path(), run}, std::move(environment));
  }
  testing::DriverProcess start_with(std::vector<std::string> arguments, Environment environment = {}) {
    environment.emplace("XDG_RUNTIME_DIR", runtime());
    return testing::DriverProcess(SCENARIOS_PROGRAM, std::move(arguments), environment);
  }
  std::string runtime() const { return temporary_ / "runtime"; }
  std::string folder() const { return storage_ / "run"; }
  std::vector<checkpoint::Published> checkpoints() const { return checkpoint::Store(folder()).list().ValueOrDie(); }
  // Nothing alive, nothing unpublished, no socket, every published checkpoint whole.
  void expect_clean(const testing::DriverProcess& driver, const std::string& folder) {
    EXPECT_THAT(driver.leftovers(), ::testing::IsEmpty());
    EXPECT_THAT(testing::names_in(folder),
                ::testing::Not(::testing::AnyOf(::testing::Contains("control.sock"), ::testing::Contains(".staging"))));
    EXPECT_THAT(files_in_runtime(), ::testing::IsEmpty());
    for (const auto& published : checkpoint::Store(folder).list().ValueOrDie()) {
      EXPECT_TRUE(checkpoint::verify(published.path).ok()) << published.path;
    }
  }
  void expect_clean(const testing::DriverProcess& driver) { expect_clean(driver, folder()); }
  // Folders that may be used again are no leftovers.
  std::vector<std::string> files_in_runtime() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(runtime())) {
      if (!entry.is_directory()) files.push_back(entry.path());
    }
    return files;
  }
  std::string controller_log() const {
    std::ifstream file(folder() + "/logs/controller.log");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  testing::TemporaryFolder temporary_;
  testing::TemporaryFolder storage_;
};

}  // namespace paceline
