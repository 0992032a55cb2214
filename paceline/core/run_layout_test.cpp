#include "paceline/core/run_layout.h"

#include <gtest/gtest.h>

namespace paceline::run_layout {
namespace {

TEST(RunLayout, EveryNameAtTheTopIsReserved) {
  for (const char* name : {kJournal,
                           kHistory,
                           kLock,
                           kControlSocket,
                           kLogs,
                           kHangs,
                           kProfiles,
                           kTrackerPositions,
                           kTensorBoard,
                           kWandb,
                           kCsv,
                           kJsonLines,
                           kArtifacts,
                           kStaging,
                           kStorageProof,
                           kRecords,
                           kClaims,
                           kClaim,
                           kLocation,
                           kCopyMark,
                           "journal.jsonl.damaged",
                           "journal.jsonl.damaged_2"}) {
    EXPECT_TRUE(is_reserved(name)) << name;
  }
  for (const char* name : {"best", "checkpoint_000001", "logs2", "Records", ""})
    EXPECT_FALSE(is_reserved(name)) << name;
}

TEST(RunLayout, WhatIsOfThisMachineIsNotMirrored) {
  for (const char* name : {kLock, kControlSocket, kClaim, kLocation, kStaging, kCopyMark}) {
    EXPECT_TRUE(is_of_this_machine(name)) << name;
  }
  for (const char* name :
       {kJournal, kHistory, kLogs, kHangs, kProfiles, kTrackerPositions, kArtifacts, "a user's file"}) {
    EXPECT_FALSE(is_of_this_machine(name)) << name;
  }
}

TEST(RunLayout, LogsOfWorkers) {
  EXPECT_EQ(worker_log(WorkerId{7}), "logs/worker_7.log");
  EXPECT_EQ(worker_of_log("worker_7.log"), 7);
  EXPECT_EQ(worker_of_log("worker_12.log.3"), 12);
  for (const char* name : {"controller.log", "worker_.log", "worker_7.txt", "validation_7.log"}) {
    EXPECT_EQ(worker_of_log(name), 0) << name;
  }
}

TEST(RunLayout, FoldersOfCheckpoints) {
  EXPECT_EQ(checkpoint_folder(42), "checkpoint_000042");
  EXPECT_EQ(checkpoint_folder(1234567), "checkpoint_1234567");
  EXPECT_TRUE(is_checkpoint_folder("checkpoint_000042"));
  EXPECT_TRUE(is_checkpoint_folder(checkpoint_folder(42) + generation_ending(3)));
  EXPECT_EQ(generation_ending(3), "_g3");
  for (const char* name : {"checkpoint_", "checkpoint_00004x", "checkpoint_000004_g", "checkpoint__g2",
                           "checkpoint_000004_g2_g3", "checkpoint_000004_g2x", "best", "best_g2", "checkpoint_4"}) {
    EXPECT_FALSE(is_checkpoint_folder(name)) << name;
  }
}

TEST(RunLayout, FoldersOfStages) {
  EXPECT_EQ(stages(Attempt{2}, WorkerId{7}), ".staging/attempt_2/worker_7");
  EXPECT_EQ(stage(Attempt{2}, WorkerId{7}, 42), ".staging/attempt_2/worker_7/report_42");
  EXPECT_EQ(stage(Attempt{2}, WorkerId{7}, 42, "g3"), ".staging/g3/attempt_2/worker_7/report_42");
  EXPECT_EQ(staging("g3"), ".staging/g3");
}

TEST(RunLayout, SamplesOfNodesHaveNamesOfFiles) {
  EXPECT_EQ(node_samples("gpu-3.lab"), "samples/node_gpu-3.lab");
  EXPECT_EQ(node_samples("a/b"), node_samples("a/b"));
  EXPECT_NE(node_samples("a/b"), node_samples("a?b"));
  for (const std::string& odd :
       {std::string("../../x"), std::string(500, 'x'), std::string("caf\xc3\xa9\n"), std::string()}) {
    const std::string name = node_samples(odd).substr(std::string("samples/").size());
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-."), std::string::npos) << name;
    EXPECT_LT(name.size(), 100u);
  }
  EXPECT_EQ(data_samples(WorkerId{7}), "samples/data_7");
  EXPECT_TRUE(is_reserved("samples"));
}

}  // namespace
}  // namespace paceline::run_layout
