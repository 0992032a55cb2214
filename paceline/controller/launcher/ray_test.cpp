// The other side of the socket is the test's.
#include "paceline/controller/launcher/ray.h"

#include <gmock/gmock.h>

#include <thread>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/posix/socket_pair.h"

namespace paceline::controller {
namespace {

using ::testing::HasSubstr;

class RayMachinesTest : public ::testing::Test {
 protected:
  RayMachinesTest() : RayMachinesTest(make_socket_pair().ValueOrDie()) {}

  static Json settings() {
    return {{"nodes", 2},
            {"listen", "10.0.0.1:0"},
            {"token_file", "/private/token"},
            {"resources_per_worker", {{"CPU", 1.0}}}};
  }

  RayLink driver_;
  RayLink ray_;
  StopSignal stop_;

 private:
  explicit RayMachinesTest(std::pair<Descriptor, Descriptor> ends)
      : driver_(std::move(ends.first)), ray_(std::move(ends.second)) {}
};

TEST_F(RayMachinesTest, AreReservedForARunAndGivenBack) {
  ScalingConfig scaling{.num_workers = 4,
                        .resources_per_worker = {{"CPU", 0.5}, {"memory", 1e9}},
                        .label_selector = {{"zone", "a"}},
                        .accelerator_type = "A100",
                        .placement_strategy = "SPREAD"};
  std::thread cluster([this] {
    const Json asked = ray_.receive(-1).ValueOrDie();
    EXPECT_EQ(asked.at("reserve").at("num_workers"), 4);
    EXPECT_EQ(asked.at("reserve").at("placement_strategy"), "SPREAD");
    EXPECT_EQ(asked.at("reserve").at("label_selector").at("zone"), "a");
    EXPECT_EQ(asked.at("start_timeout_s"), 7);
    ASSERT_TRUE(ray_.send({{"settings", settings()}}).ok());
    EXPECT_EQ(ray_.receive(-1).ValueOrDie(), (Json{{"release", true}}));
    ASSERT_TRUE(ray_.send({{"released", true}}).ok());
  });
  {
    const auto machines = RayMachines::reserve(driver_, scaling, {.start_timeout_s = 7}, stop_);
    ASSERT_TRUE(machines.ok()) << machines.status();
    EXPECT_EQ(scaling, (ScalingConfig{.num_workers = 4,
                                      .resources_per_worker = {{"CPU", 1}},
                                      .engine = "ray",
                                      .nodes = 2,
                                      .listen = "10.0.0.1:0",
                                      .token_file = "/private/token",
                                      .placement_strategy = "SPREAD"}));
  }
  cluster.join();
}

TEST_F(RayMachinesTest, WhatRayRefusesIsTheError) {
  ASSERT_TRUE(ray_.send({{"error", "Ray did not give 9 × {CPU: 1}"}}).ok());
  ScalingConfig scaling;
  const auto machines = RayMachines::reserve(driver_, scaling, {}, stop_);
  EXPECT_TRUE(machines.status().IsInvalid());
  EXPECT_EQ(machines.status().message(), "Ray did not give 9 × {CPU: 1}");
  EXPECT_EQ(scaling, ScalingConfig());
}

TEST_F(RayMachinesTest, AStopEndsTheWaitAndGivesBackWhatWasAskedFor) {
  std::thread cluster([this] {
    EXPECT_TRUE(ray_.receive(-1).ValueOrDie().contains("reserve"));
    stop_.stop(SIGTERM);
    EXPECT_TRUE(ray_.receive(-1).ValueOrDie().contains("release"));
    EXPECT_TRUE(ray_.send({{"error", "given up"}}).ok());
    EXPECT_TRUE(ray_.send({{"released", true}}).ok());
  });
  ScalingConfig scaling;
  EXPECT_TRUE(RayMachines::reserve(driver_, scaling, {}, stop_).status().IsCancelled());
  cluster.join();
}

TEST_F(RayMachinesTest, AnAnswerOfAnotherVersionIsTold) {
  ASSERT_TRUE(ray_.send({{"settings", {{"nodes", "many"}}}}).ok());
  ScalingConfig scaling;
  const auto machines = RayMachines::reserve(driver_, scaling, {}, stop_);
  EXPECT_THAT(machines.status().message(), HasSubstr("install there the version"));
}

TEST(RayMachines, AnotherSideThatHasGoneIsTold) {
  auto ends = make_socket_pair().ValueOrDie();
  RayLink driver(std::move(ends.first));
  ends.second.reset();
  ScalingConfig scaling;
  EXPECT_THAT(RayMachines::reserve(driver, scaling, {}, StopSignal()).status().message(), HasSubstr("has gone"));
}

TEST(RayMachines, WhoeverWasGivenNoneHearsHowToStart) {
  EXPECT_FALSE(RayMachines::are_offered());
  ScalingConfig scaling{.engine = "ray"};
  EXPECT_THAT(RayMachines::reserve(scaling, {}, StopSignal()).status().message(),
              HasSubstr("paceline run --engine ray --address"));
  EXPECT_EQ(engine_of({}), "local");
}

}  // namespace
}  // namespace paceline::controller
