#include "paceline/launch/program.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "paceline/testing/temporary_folder.h"

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// A machine with a python and a tool in PATH, and files of the user's.
class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    make("bin/python");
    make("bin/tool");
    make("train.py", 0755);
    make("script", 0644);
    make("program");
  }

  void make(const std::string& name, mode_t mode = 0755) {
    testing::write_file(folder_ / name, "#!/bin/sh\n");
    ::chmod((folder_ / name).c_str(), mode);
  }

  arrow::Result<rpc::Strings> command(const ProgramChoice& choice) {
    return command_of(choice, [this](const std::string& name) { return variable(name); });
  }
  std::string refusal(ProgramChoice choice) { return command(std::move(choice)).status().message(); }

  std::optional<std::string> variable(const std::string& name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
  }

  TemporaryFolder folder_;
  std::map<std::string, std::string> variables_{{"PATH", "/nowhere:" + (folder_ / "bin")}};
};

TEST_F(ProgramTest, PythonFilesRunWithThePythonInPath) {
  const std::string python = folder_ / "bin/python";
  EXPECT_THAT(command({.words = {folder_ / "train.py", "-x"}}).ValueOrDie(),
              ElementsAre(python, "-u", folder_ / "train.py", "-x"));
  EXPECT_THAT(command({.words = {folder_ / "script"}}).ValueOrDie(), ElementsAre(python, "-u", folder_ / "script"));
  EXPECT_THAT(command({.words = {"my.module", "-x"}, .module = true}).ValueOrDie(),
              ElementsAre(python, "-u", "-m", "my.module", "-x"));
  variables_["PYTHON_EXEC"] = folder_ / "program";
  EXPECT_EQ(command({.words = {folder_ / "train.py"}}).ValueOrDie().front(), folder_ / "program");
}

TEST_F(ProgramTest, ExecutablesRunThemselves) {
  EXPECT_THAT(command({.words = {folder_ / "program", "a"}}).ValueOrDie(), ElementsAre(folder_ / "program", "a"));
  EXPECT_THAT(command({.words = {"tool"}}).ValueOrDie(), ElementsAre(folder_ / "bin/tool"));
  EXPECT_THAT(command({.words = {folder_ / "train.py"}, .no_python = true}).ValueOrDie(),
              ElementsAre(folder_ / "train.py"));
}

TEST_F(ProgramTest, WhatCannotRunIsExplained) {
  EXPECT_THAT(refusal({}), HasSubstr("no program is given"));
  EXPECT_THAT(refusal({.words = {"missing"}}), HasSubstr("no program \"missing\" in PATH"));
  EXPECT_THAT(refusal({.words = {"missing.py"}}), HasSubstr("no program missing.py"));
  EXPECT_THAT(refusal({.words = {folder_ / "script"}, .no_python = true}), HasSubstr("not executable"));
  variables_["PATH"] = "/nowhere";
  EXPECT_THAT(refusal({.words = {folder_ / "train.py"}}), HasSubstr("no python in PATH"));
  variables_["PYTHON_EXEC"] = "/no/python";
  EXPECT_THAT(refusal({.words = {folder_ / "train.py"}}), HasSubstr("PYTHON_EXEC is \"/no/python\""));
}

TEST_F(ProgramTest, APlainExecutableIsNoDriver) {
  EXPECT_FALSE(is_paceline_driver("/proc/self/exe"));
  EXPECT_FALSE(is_paceline_driver(folder_ / "program"));
  EXPECT_FALSE(is_paceline_driver(folder_ / "missing"));
}

}  // namespace
}  // namespace paceline::launch
