#include "paceline/track/dashboard_address.h"

#include <gmock/gmock.h>

#include "paceline/testing/temporary_folder.h"
#include "paceline/track/run_id.h"

namespace paceline::track {
namespace {

using ::testing::Optional;

TEST(DashboardAddress, IsFoundForAsLongAsItsDashboardLives) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(DashboardAddress::find(folder.path()), std::nullopt);
  {
    const auto first = DashboardAddress::announce(folder.path(), "http://127.0.0.1:8265/").ValueOrDie();
    const auto second = DashboardAddress::announce(folder.path(), "http://127.0.0.1:4000/").ValueOrDie();
    EXPECT_THAT(DashboardAddress::find(folder.path()), Optional(std::string("http://127.0.0.1:8265/")));
  }
  EXPECT_EQ(DashboardAddress::find(folder.path()), std::nullopt);
  const auto third = DashboardAddress::announce(folder.path(), "http://[::1]:1/").ValueOrDie();
  EXPECT_THAT(DashboardAddress::find(folder.path()), Optional(std::string("http://[::1]:1/")));
}

TEST(DashboardAddress, ARunHasAPageInIt) {
  EXPECT_EQ(run_page("http://127.0.0.1:8265/", "/runs/mnist"), "http://127.0.0.1:8265/#/runs/" + run_id("/runs/mnist"));
}

}  // namespace
}  // namespace paceline::track
