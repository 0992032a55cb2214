// Run folders and a run store of a test's own, seen through the program.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "paceline/cli/program_fixture.h"
#include "paceline/run/recorded_run_fixture.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {

class RunsTest : public ::testing::Test {
 protected:
  RunsTest() {
    ::setenv("HOME", home_.path().c_str(), 1);
    ::setenv("PACELINE_STATE_DIR", (home_ / "state").c_str(), 1);
  }

  std::string storage(const std::string& name) const { return home_ / ("storage/" + name); }
  // A run that is over.
  void finished(const std::string& name) {
    run::RecordedRun run(storage(name), name);
    run.train();
    run.report(1, {{"loss", 0.25}});
    run.finish();
  }
  Json listed() const { return Json::parse(run_program("list --json").output); }

  testing::TemporaryFolder home_;
};

}  // namespace paceline::cli
