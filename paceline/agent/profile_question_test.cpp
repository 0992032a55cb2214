#include <gmock/gmock.h>

#include "paceline/agent/profile_question_internal.h"
#include "paceline/stacks/profile.h"

namespace paceline::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The agent's thread has nothing in it that could note what a program of the user's allocates.
TEST(ProfileQuestion, AProgramThatDoesNotProfileItselfIsSaidNotTo) {
  boost::asio::io_context loop;
  for (const char* kind : {rpc::kMemoryProfile, rpc::kTimelineProfile}) {
    stacks::Profiles told;
    const auto question = std::make_shared<ProfileQuestion>(
        loop, rpc::ProfileRequest{.workers = {WorkerId{7}}, .kind = kind}, ProfileQuestion::Host{},
        [&told](const ProfileQuestion::Found& found) { told = stacks::decode_profiles(found.lines); });
    question->start({}, {WorkerId{7}});
    ASSERT_EQ(told.size(), 1u) << kind;
    EXPECT_EQ(told[0].worker, 7);
    EXPECT_THAT(told[0].problems, ElementsAre(HasSubstr("a program under `paceline run` does not profile itself")));
  }
}

}  // namespace
}  // namespace paceline::agent
