// Profiles as a run keeps them: what comes back, and what of a folder that somebody else has changed.
#include "paceline/run/kept_profiles.h"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>

#include "paceline/core/json.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Time asked() {
  return Time{std::chrono::milliseconds(1'790'000'000'250)};
}

stacks::Profile of_rank(int64_t rank, int64_t count) {
  return {.worker = rank + 2,
          .rank = rank,
          .rate = 99,
          .seconds = 5.25,
          .ways = {"signal"},
          .problems = {"py-spy is not installed"},
          .frames = {{.function = "train"}, {.function = "step"}},
          .threads = {{.name = "main", .stacks = {{.frames = {0, 1}, .count = count}}}}};
}

class KeptProfiles : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const char* part) const {
    return folder_ / ("profiles/" + name + "/" + part);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const KeptProfile& profile : list_kept_profiles(folder_.path()).ValueOrDie()) names.push_back(profile.name);
    return names;
  }

  const stacks::Profiles taken_{of_rank(0, 3), of_rank(1, 4)};
  const KeptProfile kept_ =
      described({.name = profile_name(asked()), .time = 1'790'000'000.25, .who = "somebody", .seconds = 5}, taken_);
  testing::TemporaryFolder folder_;
};

// As one of some steps, which is over before its time; a heap takes none.
TEST_F(KeptProfiles, HaveTheTimeThatTheyTook) {
  EXPECT_EQ(described({.seconds = 60}, taken_).seconds, 5.25);
  stacks::Profile heap = of_rank(0, 3);
  heap.seconds = 0;
  EXPECT_EQ(described({.seconds = 60}, {heap}).seconds, 0);
  heap.ways.clear();
  EXPECT_EQ(described({.seconds = 60}, {heap}).seconds, 60) << "it was not sampled";
}

// As where the disk is full.
TEST_F(KeptProfiles, AreWholeOrNotThere) {
  std::filesystem::create_directories(file(kept_.name, "profile.jsonl"));
  EXPECT_FALSE(keep_profile(folder_.path(), kept_, taken_, {{0, "timeline"}}, "mnist").ok());
  EXPECT_FALSE(std::filesystem::exists(file(kept_.name, "")));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(KeptProfiles, AreWhatWasKept) {
  EXPECT_THAT(names(), IsEmpty()) << "of a run that has none";
  EXPECT_EQ(kept_.seconds, 5.25);
  EXPECT_THAT(kept_.ranks, ElementsAre(0, 1));
  EXPECT_EQ(kept_.samples, (SamplesByLanguage{{"C++", 7}}));
  EXPECT_THAT(kept_.problems, ElementsAre("ranks 0-1: py-spy is not installed"));
  ASSERT_TRUE(keep_profile(folder_.path(), kept_, taken_, {}, "mnist").ok());
  const KeptProfile later{.name = "2027-01-01T00:00:00.000Z", .time = 1'800'000'000};
  ASSERT_TRUE(keep_profile(folder_.path(), later, {of_rank(0, 1)}, {}, "mnist").ok());
  EXPECT_THAT(names(), ElementsAre(later.name, kept_.name)) << "the last first";
  EXPECT_EQ(list_kept_profiles(folder_.path()).ValueOrDie()[1], kept_);
  const ReadProfile read = read_kept_profile(folder_.path(), kept_.name).ValueOrDie();
  EXPECT_EQ(read.profile, kept_);
  EXPECT_EQ(read.taken, taken_);
  EXPECT_EQ(Json::parse(storage::read_file(file(kept_.name, "profile.speedscope.json")).ValueOrDie())["name"],
            "run mnist");
}

TEST(ProfileNames, HaveTheTime) {
  EXPECT_EQ(time_of_profile(profile_name(asked())), 1'790'000'000.25);
  EXPECT_EQ(time_of_profile("2026-09-21T14:13:20.250Z_2"), 1'790'000'000.25) << "another of this millisecond";
  EXPECT_EQ(time_of_profile("2026-09-21T14:13:20Z"), 1'790'000'000);
  for (const char* odd : {"2026-09-21T14:13:20.-5", "2026-09-21T14:13:20.2", "2026-09-21T14:13:20."}) {
    EXPECT_EQ(time_of_profile(odd), 1'790'000'000) << odd;
  }
  EXPECT_EQ(time_of_profile("mine"), 0);
}

TEST_F(KeptProfiles, WithoutANoteAreWhatTheSamplesTell) {
  ASSERT_TRUE(keep_profile(folder_.path(), kept_, taken_, {}, "mnist").ok());
  for (const bool is_damaged : {false, true}) {
    std::filesystem::remove(file(kept_.name, "profile.json"));
    if (is_damaged) testing::write_file(file(kept_.name, "profile.json"), R"({"seconds":"long")");
    KeptProfile wanted = kept_;
    wanted.who = "";
    EXPECT_THAT(list_kept_profiles(folder_.path()).ValueOrDie(), ElementsAre(wanted));
    EXPECT_EQ(read_kept_profile(folder_.path(), kept_.name).ValueOrDie().profile, wanted);
  }
}

TEST_F(KeptProfiles, ThatAreDamagedAreSaidToBe) {
  ASSERT_TRUE(keep_profile(folder_.path(), kept_, taken_, {}, "mnist").ok());
  testing::write_file(file(kept_.name, "profile.jsonl"), "{}\nnothing\n" + stacks::encode_lines(taken_).substr(40));
  EXPECT_EQ(read_kept_profile(folder_.path(), kept_.name).ValueOrDie().taken.back(), taken_.back());
  testing::write_file(file(kept_.name, "profile.jsonl"), "nothing\n");
  EXPECT_TRUE(read_kept_profile(folder_.path(), kept_.name).status().IsIOError());
  std::filesystem::remove(file(kept_.name, "profile.jsonl"));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_TRUE(read_kept_profile(folder_.path(), kept_.name).status().IsIOError());
}

TEST_F(KeptProfiles, NoNameLeadsElsewhere) {
  ASSERT_TRUE(keep_profile(folder_ / "other", kept_, taken_, {}, "other").IsIOError()) << "there is no such run";
  testing::write_file(folder_ / "elsewhere/profile.jsonl", stacks::encode_lines(taken_));
  std::filesystem::create_directories(folder_ / "profiles/of_links");
  std::filesystem::create_symlink(folder_ / "elsewhere/profile.jsonl", file("of_links", "profile.jsonl"));
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "profiles/link");
  for (const std::string name : {"", ".", "..", "../elsewhere", "link", "of_links", "/etc"}) {
    EXPECT_FALSE(read_kept_profile(folder_.path(), name).ok()) << name;
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(KeptProfiles, TheOldestGoWhereThereAreTooMany) {
  const auto keep = [&](const std::string& name) {
    KeptProfile profile = kept_;
    profile.name = name;
    profile.time = name.back() - '0';
    ASSERT_TRUE(keep_profile(folder_.path(), profile, taken_, {{0, std::string(1000, 'x')}}, "mnist").ok());
  };
  for (const char* name : {"2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"}) keep(name);
  testing::write_file(file("2026-01-01", "pinned"), "");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "profiles/2025");
  ASSERT_TRUE(prune_profiles(folder_.path(), "2026-01-04").ok());
  EXPECT_EQ(names().size(), 4u);
  ASSERT_TRUE(prune_profiles(folder_.path(), "2026-01-04", {.most = 3}).ok());
  EXPECT_THAT(names(), ElementsAre("2026-01-04", "2026-01-03", "2026-01-01")) << "the oldest is pinned";
  ASSERT_TRUE(prune_profiles(folder_.path(), "2026-01-04", {.most_bytes = 1500}).ok());
  EXPECT_THAT(names(), ElementsAre("2026-01-04", "2026-01-01")) << "the newest stays, whatever it takes";
  EXPECT_TRUE(prune_profiles(folder_ / "nothing", "").ok());
}

TEST_F(KeptProfiles, TimelinesAreKeptByRank) {
  KeptProfile timeline = kept_;
  timeline.kind = rpc::kTimelineProfile;
  ASSERT_TRUE(keep_profile(folder_.path(), timeline, taken_, {{1, "compressed"}}, "mnist").ok());
  EXPECT_EQ(read_timeline(folder_.path(), kept_.name, 1).ValueOrDie(), "compressed");
  EXPECT_TRUE(read_timeline(folder_.path(), kept_.name, 0).status().IsKeyError());
  EXPECT_TRUE(read_timeline(folder_.path(), "../" + kept_.name, 1).status().IsKeyError());
  EXPECT_EQ(read_kept_profile(folder_.path(), kept_.name).ValueOrDie().profile.kind, "timeline");
}

}  // namespace
}  // namespace paceline::run
