#include "paceline/controller/profile_keeper.h"

#include <gmock/gmock.h>

#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Who has asked.
class Client final : public rpc::Channel {
 public:
  void start(Handlers) override {}
  arrow::Status send(rpc::Envelope envelope) override {
    answer = std::move(envelope);
    return arrow::Status::OK();
  }
  void close() override {}

  rpc::Envelope answer;
};

stacks::Profile profile_of_worker(int64_t worker) {
  stacks::Profile profile{.worker = worker, .rate = 99, .seconds = 1, .ways = {"signal"}};
  stacks::ProfileBuilder builder(profile);
  builder.add({.tid = 1, .name = "train"}, {{.function = "main"}}, 3);
  return profile;
}

ProfilePart part(int64_t node, const stacks::Profiles& profiles, const std::vector<std::string>& timelines = {}) {
  rpc::ProfileReply said;
  std::string bytes = stacks::encode_lines(profiles);
  for (const std::string& timeline : timelines) {
    said.timelines.push_back(std::ssize(timeline));
    bytes += timeline;
  }
  rpc::Envelope envelope = rpc::pack(said);
  envelope.bytes = std::move(bytes);
  return {node, std::move(envelope)};
}

class ProfileKeeperTest : public ::testing::Test {
 protected:
  ProfileAnswers answers() const {
    return {.client = client_,
            .request = 7,
            .profile = {.name = "2026-11-28T05:00:00.000Z", .kind = "cpu"},
            .places = {{1, {.rank = 1, .node = 0}}, {2, {.rank = 0, .node = 1}}},
            .node_names = {"a", "b"}};
  }
  void settle(ProfileAnswers answers) {
    ProfileKeeper keeper(folder_.path(), "mnist", [this](const std::string& line) { warnings_.push_back(line); });
    keeper.take(std::move(answers));
    keeper.finish();
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<Client> client_ = std::make_shared<Client>();
  std::vector<std::string> warnings_;
};

TEST_F(ProfileKeeperTest, KeepsWhatAgentsSayOfTheirOwnWorkers) {
  ProfileAnswers all = answers();
  all.parts.push_back(part(0, {profile_of_worker(1), profile_of_worker(2)}, {"one", "lie"}));
  all.parts.push_back(part(1, {profile_of_worker(2)}, {"two"}));
  settle(std::move(all));
  const stacks::Profiles told = stacks::decode_profiles(client_->answer.bytes);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].rank, 0);
  EXPECT_EQ(told[0].node, "b");
  EXPECT_EQ(told[1].rank, 1);
  EXPECT_EQ(client_->answer.reply_to, 7);
  const auto said = rpc::unpack<rpc::ProfileReply>(client_->answer).ValueOrDie();
  EXPECT_EQ(said.folder, folder_ / "profiles/2026-11-28T05:00:00.000Z");
  const auto kept = run::list_kept_profiles(folder_.path()).ValueOrDie();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(kept[0].ranks, ElementsAre(0, 1));
  EXPECT_EQ(run::read_timeline(folder_.path(), kept[0].name, 0).ValueOrDie(), "two");
  EXPECT_EQ(run::read_timeline(folder_.path(), kept[0].name, 1).ValueOrDie(), "one");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ProfileKeeperTest, AnswersWhenNothingCanBeKept) {
  ProfileAnswers all = answers();
  all.why_not_kept = "another driver has the run";
  all.parts.push_back(part(0, {profile_of_worker(1)}));
  settle(std::move(all));
  const auto said = rpc::unpack<rpc::ProfileReply>(client_->answer).ValueOrDie();
  EXPECT_EQ(said.folder, "");
  EXPECT_THAT(said.problem, HasSubstr("another driver has the run"));
  EXPECT_EQ(stacks::decode_profiles(client_->answer.bytes).size(), 1u);
  EXPECT_THAT(run::list_kept_profiles(folder_.path()).ValueOrDie(), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(said.problem));
}

TEST_F(ProfileKeeperTest, WhatMakesNoSenseIsLeftOut) {
  ProfileAnswers all = answers();
  ProfilePart odd = part(0, {profile_of_worker(1)});
  odd.envelope.body["timelines"] = {-5, 1'000'000};
  all.parts.push_back(std::move(odd));
  settle(std::move(all));
  EXPECT_THAT(run::list_kept_profiles(folder_.path()).ValueOrDie(), IsEmpty());
  EXPECT_EQ(client_->answer.reply_to, 7);
}

}  // namespace
}  // namespace paceline::controller
