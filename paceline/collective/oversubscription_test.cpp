// More ranks than processors: they sleep while they wait, and what they do is in proportion to the work.
//
// Nothing here is a time on the clock, which other programs share: processor time and switches are a process's own.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <fstream>
#include <string>
#include <vector>

#include "paceline/collective/exercise_fixture.h"
#include "paceline/collective/processes_fixture.h"
#include "paceline/collective/ranks_fixture.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::collective {
namespace {

using testing::ended_well;
using testing::TemporaryFolder;
using testing::wait_for_child;

constexpr int kRanks = 8;
constexpr int kProcessors = 2;

// What all ranks call: so often an all_reduce of so many values.
struct Work {
  int calls = 0;
  size_t count = 1;
  bool in_arena = false;
  /// How often a rank changes its board for one of them, each of which may wake every other rank.
  int changes = 2;
};

const std::vector<Work>& works() {
  constexpr int kPieces = 4;
  static const std::vector<Work> works = {
      {.calls = 400, .count = 1, .in_arena = false, .changes = 2},
      {.calls = 1600, .count = 1, .in_arena = false, .changes = 2},
      {.calls = 20, .count = 100'000, .in_arena = true, .changes = 3},
      {.calls = 80, .count = 100'000, .in_arena = true, .changes = 3},
      {.calls = 20, .count = kPieces * kStagingBytes / sizeof(int64_t), .in_arena = false, .changes = 2 + 2 * kPieces},
      {.calls = 80, .count = kPieces * kStagingBytes / sizeof(int64_t), .in_arena = false, .changes = 2 + 2 * kPieces},
  };
  return works;
}

struct Usage {
  double processor_s = 0;
  double switches = 0;  // voluntary: the process has slept

  static Usage now() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return {seconds(usage.ru_utime) + seconds(usage.ru_stime), static_cast<double>(usage.ru_nvcsw)};
  }
};

void share_processors() {
  cpu_set_t all, some;
  CPU_ZERO(&some);
  ::sched_getaffinity(0, sizeof all, &all);
  for (int processor = 0; processor < CPU_SETSIZE && CPU_COUNT(&some) < kProcessors; ++processor) {
    if (CPU_ISSET(processor, &all)) CPU_SET(processor, &some);
  }
  ::sched_setaffinity(0, sizeof some, &some);
}

// Leaves what each work has cost in the file usage_RANK.
int reduce_and_count(const std::string& argument) {
  const auto [folder, rank] = place_of_rank(argument);
  share_processors();
  const auto group = SharedGroup::create(bulletin_in(folder), rank, kRanks, kTestTimeout);
  std::ofstream file(folder + "/usage_" + std::to_string(rank));
  for (const Work& work : works()) {
    group->wait(group->start({.kind = Kind::barrier, .timeout = kTestTimeout}));
    const Usage before = Usage::now();
    for (int i = 0; i < work.calls; ++i) {
      const auto exercise = std::make_shared<Exercise>(*group, Kind::all_reduce, work.count, -1, work.in_arena);
      group->wait(group->start(Exercise::request(exercise, kTestTimeout)));
      if (i == work.calls - 1 && !exercise->is_right()) return 1;
    }
    const Usage after = Usage::now();
    file << after.processor_s - before.processor_s << " " << after.switches - before.switches << "\n";
  }
  return 0;
}

TEST(Oversubscription, CostsInProportionToTheWork) {
  const TemporaryFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(start_rank("reduce_and_count", folder / "of", rank));
  for (const pid_t rank : ranks) EXPECT_TRUE(ended_well(wait_for_child(rank)));

  std::vector<Usage> all(works().size());
  for (int rank = 0; rank < kRanks; ++rank) {
    std::ifstream file(folder / "of/usage_" + std::to_string(rank));
    for (size_t i = 0; i < works().size(); ++i) {
      Usage usage;
      ASSERT_TRUE(file >> usage.processor_s >> usage.switches);
      // One that is woken looks once and sleeps again; twice as often for threads that pass operations on.
      const double changes = works()[i].calls * works()[i].changes;
      EXPECT_LE(usage.switches, 2 * (kRanks - 1) * changes + 100) << "rank " << rank << " work " << i;
      all[i].processor_s += usage.processor_s;
      all[i].switches += usage.switches;
    }
  }
  for (size_t i = 0; i < works().size(); i += 2) {
    const double times = static_cast<double>(works()[i + 1].calls) / works()[i].calls;
    RecordProperty("processor_us_per_call_" + std::to_string(works()[i].count),
                   std::to_string(1e6 * all[i + 1].processor_s / works()[i + 1].calls));
    EXPECT_LE(all[i + 1].processor_s, 2.5 * times * all[i].processor_s + 0.5) << works()[i].count << " values";
    EXPECT_LE(all[i + 1].switches, 2.5 * times * all[i].switches + 1000) << works()[i].count << " values";
  }
}

}  // namespace
}  // namespace paceline::collective

int main(int argc, char** argv) {
  paceline::testing::run_child_if_asked(argc, argv, {{"reduce_and_count", paceline::collective::reduce_and_count}});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
