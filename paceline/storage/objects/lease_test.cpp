#include "paceline/storage/objects/lease.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <future>

#include "paceline/core/json.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/storage/objects/transience.h"
#include "paceline/testing/faulty_storage.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// Fast enough for a test; a loaded machine makes a holder miss no renewal within `takeover`.
LeaseOptions quick() {
  return {.renewal = std::chrono::milliseconds(5),
          .takeover = std::chrono::milliseconds(2000),
          .look = std::chrono::milliseconds(1)};
}

// A holder that renews no more, as one that was killed.
LeaseOptions silent() {
  LeaseOptions options = quick();
  options.renewal = std::chrono::hours(1);
  return options;
}

struct LeaseTest : ::testing::Test {
  std::shared_ptr<MemoryStorage> run = std::make_shared<MemoryStorage>();
  TemporaryFolder folder;

  size_t claims() const { return run->list(".lease").ValueOrDie().size(); }
};

TEST_F(LeaseTest, OneDriverHoldsARun) {
  auto holder = Lease::acquire(run, folder / "a", quick()).ValueOrDie();
  EXPECT_TRUE(holder->is_held());
  const auto second = Lease::acquire(run, folder / "b", quick());
  ASSERT_TRUE(second.status().IsAlreadyExists()) << second.status().ToString();
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr("held by process " + std::to_string(::getpid())), HasSubstr("paceline stop")));
  EXPECT_EQ(claims(), 1u);
  holder.reset();
  EXPECT_EQ(claims(), 1u);
  const auto next = Lease::acquire(run, folder / "b", quick()).ValueOrDie();
  EXPECT_EQ(next->generation(), 2);
  EXPECT_FALSE(next->may_meet_late_writes());
  EXPECT_EQ(claims(), 1u);
  next->end_without_trace();
  EXPECT_EQ(claims(), 0u);
}

TEST_F(LeaseTest, ADeadDriversRunIsTakenOverAfterATime) {
  const auto dead = Lease::acquire(run, folder / "a", silent()).ValueOrDie();
  std::string note;
  LeaseOptions options = quick();
  options.note = [&](const std::string& text) { note = text; };
  const auto begun = std::chrono::steady_clock::now();
  const auto next = Lease::acquire(run, folder / "b", options).ValueOrDie();
  EXPECT_GE(std::chrono::steady_clock::now() - begun, options.takeover);
  EXPECT_THAT(note, HasSubstr("waiting up to 2 s"));
  EXPECT_TRUE(next->is_held());
  EXPECT_FALSE(dead->is_held());
  EXPECT_EQ(claims(), 1u);
  const arrow::Status refused = dead->guard(run)->write("checkpoint", "x");
  EXPECT_THAT(refused.message(), HasSubstr("changing memory/checkpoint: the run was taken over by process"));
  EXPECT_TRUE(next->guard(run)->write("checkpoint", "x").ok());
}

TEST_F(LeaseTest, OnesOwnClaimIsTakenOverAtOnce) {
  const auto dead = Lease::acquire(run, folder / "a", silent()).ValueOrDie();
  LeaseOptions options = quick();
  options.takeover = std::chrono::hours(1);
  const auto next = Lease::acquire(run, folder / "a", options).ValueOrDie();
  EXPECT_FALSE(next->may_meet_late_writes());
}

// The folder may be a copy, or the address another machine's.
TEST_F(LeaseTest, AClaimOfAnotherBootIsNotOnesOwn) {
  const auto dead = Lease::acquire(run, folder / "a", silent()).ValueOrDie();
  Json memory = decode_json(read_file(folder / "a").ValueOrDie()).ValueOrDie();
  memory["boot"] = "another";
  testing::write_file(folder / "a", encode_json(memory));
  LeaseOptions options = quick();
  options.takeover = std::chrono::milliseconds(50);
  std::string note;
  options.note = [&](const std::string& text) { note = text; };
  ASSERT_TRUE(Lease::acquire(run, folder / "a", options).ok());
  EXPECT_THAT(note, HasSubstr("the run was held by"));
}

// Each container may have a lock of its own.
TEST_F(LeaseTest, AClaimOfAnotherContainerIsNotOnesOwn) {
  const auto alive = Lease::acquire(run, folder / "a", quick()).ValueOrDie();
  Json memory = decode_json(read_file(folder / "a").ValueOrDie()).ValueOrDie();
  memory["pids"] = "pid:[1]";
  testing::write_file(folder / "a", encode_json(memory));
  EXPECT_TRUE(Lease::acquire(run, folder / "a", quick()).status().IsAlreadyExists());
}

TEST_F(LeaseTest, KnowsWhereTheLastDriverWas) {
  EXPECT_EQ(was_held_last_here(*run, folder / "a").ValueOrDie(), std::nullopt);
  EXPECT_EQ(Lease::acquire(run, folder / "a", quick()).ValueOrDie()->was_held_last_here(), std::nullopt);
  EXPECT_EQ(was_held_last_here(*run, folder / "a").ValueOrDie(), true);
  EXPECT_EQ(was_held_last_here(*run, folder / "b").ValueOrDie(), false);
  EXPECT_EQ(Lease::acquire(run, folder / "a", quick()).ValueOrDie()->was_held_last_here(), true);
  EXPECT_EQ(Lease::acquire(run, folder / "b", quick()).ValueOrDie()->was_held_last_here(), false);
  EXPECT_EQ(was_held_last_here(*run, folder / "a").ValueOrDie(), false);
  Json memory = decode_json(read_file(folder / "b").ValueOrDie()).ValueOrDie();
  memory["boot"] = "another";
  testing::write_file(folder / "b", encode_json(memory));
  EXPECT_EQ(was_held_last_here(*run, folder / "b").ValueOrDie(), true) << "the files are still there";
}

// An upload that hangs may end when the next driver has published.
TEST_F(LeaseTest, WhoLeavesRequestsBehindMayBeMetByLateWrites) {
  Lease::acquire(run, folder / "a", quick()).ValueOrDie()->abandon();
  auto next = Lease::acquire(run, folder / "a", quick()).ValueOrDie();
  EXPECT_TRUE(next->may_meet_late_writes());
}

// A driver that does not get on while `stopped`, as one that got SIGSTOP, or whose machine sleeps.
struct StoppedDriverTest : LeaseTest {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  bool stands = false;
  std::promise<std::string> told;

  std::unique_ptr<Lease> begin() {
    const auto stops = std::make_shared<testing::GuardedStorage>(run, [this](const auto&, const auto&, int64_t) {
      std::unique_lock lock(mutex);
      stands = stopped;
      changed.notify_all();
      changed.wait(lock, [this] { return !stopped; });
      return arrow::Status::OK();
    });
    LeaseOptions options = brief();
    options.on_lost = [this](const std::string& why) { told.set_value(why); };
    return Lease::acquire(stops, folder / "a", options).ValueOrDie();
  }
  void stop(bool now) {
    {
      const std::lock_guard lock(mutex);
      stopped = now;
    }
    changed.notify_all();
  }
  static LeaseOptions brief() {
    LeaseOptions options = quick();
    options.takeover = std::chrono::milliseconds(100);
    return options;
  }
  void expect_lost(const Lease& lease) {
    EXPECT_THAT(told.get_future().get(), HasSubstr("taken over by"));
    EXPECT_FALSE(lease.is_held());
    const arrow::Status refused = lease.guard(run)->write("checkpoint", "x");
    EXPECT_TRUE(refused.IsCancelled()) << refused.ToString();
    EXPECT_FALSE(is_transient(refused));
  }
};

TEST_F(StoppedDriverTest, DoesNotGetItsLeaseBackFromASuccessorThatHasEnded) {
  const auto first = begin();
  stop(true);
  auto next = Lease::acquire(run, folder / "b", brief()).ValueOrDie();
  EXPECT_TRUE(next->may_meet_late_writes());
  next.reset();
  stop(false);
  expect_lost(*first);
  const auto third = Lease::acquire(run, folder / "b", quick()).ValueOrDie();
  EXPECT_TRUE(third->may_meet_late_writes()) << "the first may still live";
}

TEST_F(StoppedDriverTest, DoesNotGetBackTheLeaseOfARunThatIsDeleted) {
  const auto first = begin();
  stop(true);
  Lease::acquire(run, folder / "b", brief()).ValueOrDie()->end_without_trace();
  stop(false);
  expect_lost(*first);
}

// Deleted with all that tells of it: generations begin anew.
TEST_F(StoppedDriverTest, DoesNotGetBackTheLeaseOfARunThatIsAnotherByNow) {
  const auto first = begin();
  stop(true);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stands; });
  }
  ASSERT_TRUE(run->remove_below(".lease").ok());
  const auto next = Lease::acquire(run, folder / "b", brief()).ValueOrDie();
  EXPECT_EQ(next->generation(), 1);
  stop(false);
  EXPECT_THAT(told.get_future().get(), HasSubstr("the run"));
  EXPECT_FALSE(first->is_held());
  EXPECT_TRUE(first->guard(run)->write("checkpoint", "x").IsCancelled());
}

TEST_F(LeaseTest, WhoseClaimIsGoneHasLostTheLeaseAndLeavesNone) {
  std::promise<std::string> told;
  LeaseOptions options = quick();
  options.on_lost = [&](const std::string& why) { told.set_value(why); };
  auto lease = Lease::acquire(run, folder / "a", options).ValueOrDie();
  ASSERT_TRUE(run->remove_below(".lease").ok());
  EXPECT_THAT(told.get_future().get(), HasSubstr("was deleted"));
  EXPECT_FALSE(lease->is_held());
  lease.reset();
  EXPECT_EQ(claims(), 0u);
}

TEST_F(LeaseTest, WhoEndsWithoutAClaimLeavesNone) {
  auto lease = Lease::acquire(run, folder / "a", silent()).ValueOrDie();
  ASSERT_TRUE(run->remove_below(".lease").ok());
  lease.reset();
  EXPECT_EQ(claims(), 0u);
}

TEST_F(LeaseTest, AnotherClaimOfTheSameGenerationEndsIt) {
  LeaseOptions options = silent();
  options.recent = {};
  const auto first = Lease::acquire(run, folder / "a", options).ValueOrDie();
  ASSERT_TRUE(run->write(".lease/000001_other", R"({"host":"other","pid":7,"beat":1})").ok());
  EXPECT_TRUE(first->guard(run)->write("manifest", "x").IsCancelled());
}

// Who wakes up renews before it changes anything, and so does who looks for others.
TEST_F(LeaseTest, TheGateRenewsWhatHasExpired) {
  LeaseOptions options = silent();
  options.takeover = std::chrono::milliseconds(1);
  const auto first = Lease::acquire(run, folder / "a", options).ValueOrDie();
  while (first->is_held()) std::this_thread::yield();
  const std::string before = read_whole(*run, run->list(".lease")->front().name).ValueOrDie();
  const arrow::Status allowed = first->gate()(false);
  EXPECT_TRUE(allowed.ok() || allowed.IsIOError()) << "a millisecond may be over again";
  EXPECT_NE(read_whole(*run, run->list(".lease")->front().name).ValueOrDie(), before);
  const auto next = Lease::acquire(run, folder / "b", options).ValueOrDie();
  EXPECT_TRUE(first->gate()(false).IsCancelled());
  EXPECT_TRUE(first->is_lost());
}

TEST_F(LeaseTest, TheGateOutlivesTheLeaseAndIsClosedThen) {
  auto lease = Lease::acquire(run, folder / "a", quick()).ValueOrDie();
  const auto gate = lease->gate();
  EXPECT_TRUE(gate(true).ok());
  lease.reset();
  EXPECT_TRUE(gate(true).IsCancelled());
}

// It sees that the run is held and gives way, or has been stopped before that.
TEST_F(LeaseTest, AnotherThatOnlyAsksDoesNotEndIt) {
  LeaseOptions options = silent();
  options.recent = {};
  const auto first = Lease::acquire(run, folder / "a", options).ValueOrDie();
  ASSERT_TRUE(run->write(".lease/000002_other", R"({"host":"other","pid":7,"beat":1,"asks":true})").ok());
  EXPECT_TRUE(first->guard(run)->write("manifest", "x").ok());
  EXPECT_FALSE(first->is_lost());
}

// The renewing thread may be the last that gets on again.
TEST_F(LeaseTest, LooksBeforeItChangesAFile) {
  LeaseOptions options = silent();
  options.recent = {};
  const auto first = Lease::acquire(run, folder / "a", options).ValueOrDie();
  ASSERT_TRUE(run->write(".lease/000002_other", R"({"host":"other","pid":7,"beat":1})").ok());
  EXPECT_TRUE(first->is_held());
  EXPECT_TRUE(first->guard(run)->write("manifest", "x").IsCancelled());
  EXPECT_TRUE(first->guard(run)->remove("manifest").IsCancelled());
}

TEST_F(LeaseTest, WhoWasTakenOverIsTold) {
  std::promise<std::string> told;
  LeaseOptions options = quick();
  options.on_lost = [&](const std::string& why) { told.set_value(why); };
  const auto first = Lease::acquire(run, folder / "a", options).ValueOrDie();
  // What a driver on another machine does that has not seen this one renew for long enough.
  ASSERT_TRUE(run->write(".lease/000002_other", R"({"host":"other","pid":7,"beat":1})").ok());
  EXPECT_THAT(told.get_future().get(), HasSubstr("taken over by process 7 on host other"));
  EXPECT_FALSE(first->is_held());
}

// Of two answers that say the same the second was long under way: the holder has renewed meanwhile.
TEST_F(LeaseTest, ASlowAnswerIsNoSilence) {
  LeaseOptions options = quick();
  options.takeover = std::chrono::milliseconds(50);
  const std::string claim = ".lease/000001_holder";
  ASSERT_TRUE(run->write(claim, R"({"beat":1})").ok());
  struct Slow final : testing::GuardedStorage {
    using GuardedStorage::GuardedStorage;
    std::function<void()> after_opening;
    arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const override {
      auto file = GuardedStorage::open(name);
      after_opening();
      return file;
    }
  };
  const auto slow = std::make_shared<Slow>(run, [](const auto&, const auto&, int64_t) { return arrow::Status::OK(); });
  int opened = 0;
  slow->after_opening = [&] {
    if (++opened != 2) return;
    ASSERT_TRUE(run->write(claim, R"({"beat":2})").ok());
    std::this_thread::sleep_for(options.takeover);
  };
  EXPECT_TRUE(Lease::acquire(slow, folder / "b", options).status().IsAlreadyExists());
  EXPECT_EQ(claims(), 1u);
}

TEST_F(LeaseTest, WhoTakesOverGivesWayToADeadOneThatRises) {
  LeaseOptions options = quick();
  options.takeover = std::chrono::milliseconds(1);
  ASSERT_TRUE(run->write(".lease/000001_holder", R"({"beat":1})").ok());
  const auto rising =
      std::make_shared<testing::GuardedStorage>(run, [&](const std::string& call, const std::string& name, int64_t) {
        const bool is_claim = call == "write" && name.starts_with(".lease/000002_");
        return is_claim ? run->write(".lease/000001_holder", R"({"beat":2})") : arrow::Status::OK();
      });
  EXPECT_TRUE(Lease::acquire(rising, folder / "b", options).status().IsAlreadyExists());
  EXPECT_EQ(claims(), 1u);
}

TEST_F(LeaseTest, OneOfTwoThatComeAtOnceHoldsIt) {
  for (int round = 0; round < 20; ++round) {
    const auto acquire = [&](const std::string& name) {
      return std::async(std::launch::async, [this, name] { return Lease::acquire(run, folder / name, quick()); });
    };
    auto a = acquire("a");
    auto b = acquire("b");
    const auto first = a.get();
    const auto second = b.get();
    EXPECT_NE(first.ok(), second.ok());
    EXPECT_TRUE(first.ok() || first.status().IsAlreadyExists()) << first.status().ToString();
  }
}

TEST_F(LeaseTest, IsNotHeldWhileTheStorageCannotBeReached) {
  auto reachable = std::make_shared<std::atomic<bool>>(true);
  const auto faulty = std::make_shared<testing::GuardedStorage>(run, [reachable](const auto&, const auto&, int64_t) {
    return *reachable ? arrow::Status::OK() : arrow::Status::IOError("unreachable");
  });
  const auto lease = Lease::acquire(faulty, folder / "a", quick()).ValueOrDie();
  *reachable = false;
  const auto until = [](const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return holds();
  };
  EXPECT_TRUE(until([&] { return !lease->is_held(); }));
  *reachable = true;
  EXPECT_TRUE(until([&] { return lease->is_held(); }));
}

}  // namespace
}  // namespace paceline::storage
