// Groups that are made over one store by processes that are killed and paused at any call of it: schedules of random
// seeds, in virtual time. Each process is a thread; one of them runs at a time, or the test does.

#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "paceline/comm/agreed_keys_internal.h"
#include "paceline/core/clock.h"

namespace paceline::comm {
namespace {

using namespace std::chrono_literals;

// Of a rank that makes a group.
struct Process {
  Process(int64_t rank, std::chrono::milliseconds timeout, Duration goes_on)
      : rank(rank), timeout(timeout), goes_on(goes_on) {}
  bool is_alive() const { return outcome.empty(); }
  bool has_met() const { return outcome.starts_with("paceline_made_"); }

  const int64_t rank;
  const std::chrono::milliseconds timeout;
  Duration goes_on;         ///< then, or once the key is set that it waits for
  std::string waits_for;    ///< "" for none
  int64_t came = 0;         ///< as which of its rank, from 1
  int64_t has_keys_of = 0;  ///< as which of rank 0 that one came
  bool is_disturbed = false, is_to_die = false;
  std::string outcome;  ///< the prefix of its keys, or why it has none
  std::condition_variable is_its_turn;
  std::thread thread;
};

struct Killed {};

class World {
 public:
  explicit World(uint64_t seed);
  ~World() {
    for (Process& process : processes_) kill(process);
    for (Process& process : processes_) process.thread.join();
  }

  // A number below it.
  int64_t any(int64_t limit) { return static_cast<int64_t>(random_() % limit); }
  int64_t world_size() const { return world_size_; }
  std::deque<Process>& processes() { return processes_; }

  Process& start(int64_t rank, std::chrono::milliseconds timeout, Duration later) {
    Process& process = processes_.emplace_back(rank, timeout, clock_.monotonic() + later);
    process.thread = std::thread([this, &process] { live(process); });
    return process;
  }
  // None, one or several of each rank.
  void start_many() {
    const Duration span = std::vector<Duration>{1ms, 100ms, 10s}[any(3)];
    const std::vector<std::chrono::milliseconds> timeouts{0s, 1ms, 20ms, 200ms, 2s, 20s};
    for (int64_t left = 2 + any(4 * world_size_); left > 0; --left) {
      const int64_t rank = any(3) == 0 ? 0 : any(world_size_);
      const bool is_patient = any(4) > (rank == 0 ? 2 : 0);
      start(rank, is_patient ? 1h : timeouts[any(std::ssize(timeouts))], Duration{any(span.count())});
    }
  }
  void run_for(Duration time) {
    std::unique_lock lock(mutex_);
    end_ = clock_.monotonic() + time;
    hand_over();
    is_turn_of_test_.wait(lock, [&] { return running_ == nullptr; });
    clock_.advance(end_ - clock_.monotonic());
  }
  void kill(Process& process) {
    if (!process.is_alive()) return;
    process.is_to_die = true;
    process.goes_on = clock_.monotonic();
    run_for(0s);
  }
  void do_no_harm_any_more() { kills_ = pauses_ = 0; }

  // Of the process that runs: here it may be killed or paused, and others run.
  Process& before_call() {
    Process& self = *running_;
    const std::vector<Duration> pauses{30ms, 300ms, 1500ms, 5s, 2min};
    const bool is_killed = any(1'000) < kills_, is_paused = any(1'000) < pauses_;
    self.is_disturbed |= is_killed || is_paused;
    self.is_to_die |= is_killed;
    sleep(Duration{any(slowest_call_.count())} + (is_paused ? pauses[any(std::ssize(pauses))] : 0s));
    return self;
  }
  void sleep(Duration time) {
    Process& self = *running_;
    std::unique_lock lock(mutex_);
    self.goes_on = clock_.monotonic() + time;
    hand_over();
    await_turn(self, lock);
  }
  void wake(const std::string& key) {
    for (Process& process : processes_) {
      if (process.waits_for == key) process.goes_on = clock_.monotonic() + Duration{any(200'000)};
    }
  }

 private:
  void live(Process& self);
  // To who goes on next, at that time; to the test where that is later than it runs.
  void hand_over() {
    const auto goes_on = [](const Process& process) { return process.is_alive() ? process.goes_on : Duration::max(); };
    Process& next = *std::ranges::min_element(processes_, {}, goes_on);
    running_ = goes_on(next) <= end_ ? &next : nullptr;
    if (running_ != nullptr) clock_.advance(std::max<Duration>(0s, next.goes_on - clock_.monotonic()));
    (running_ == nullptr ? is_turn_of_test_ : next.is_its_turn).notify_one();
  }
  void await_turn(Process& self, std::unique_lock<std::mutex>& lock) {
    self.is_its_turn.wait(lock, [&] { return running_ == &self; });
    // No std::exception, so that nothing catches it on its way.
    if (self.is_to_die) throw Killed();  // NOLINT(bugprone-std-exception-baseclass)
  }

  std::mt19937_64 random_;
  const int64_t world_size_ = 2 + any(3);
  int64_t kills_ = std::vector{0, 10, 20, 30}[any(4)], pauses_ = std::vector{0, 0, 3, 10, 30}[any(5)];  // of 1,000
  const Duration slowest_call_ = any(6) == 0 ? 100ms : 1ms;
  ManualClock clock_;
  const c10::intrusive_ptr<c10d::Store> store_;
  std::deque<Process> processes_;
  std::mutex mutex_;
  std::condition_variable is_turn_of_test_;
  Process* running_ = nullptr;  // nullptr: the test
  Duration end_{};
};

// Where compareSet() wakes nobody, as in some of c10d's.
class SimulatedStore final : public c10d::HashStore {
 public:
  using Bytes = std::vector<uint8_t>;
  explicit SimulatedStore(World& world) : world_(world) {}
  void set(const std::string& key, const Bytes& value) override {
    world_.before_call();
    HashStore::set(key, value);
    world_.wake(key);
  }
  int64_t add(const std::string& key, int64_t value) override {
    Process& self = world_.before_call();
    const int64_t sum = HashStore::add(key, value);
    if (key.ends_with("zeros")) self.came = sum;
    return sum;
  }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    Process& self = world_.before_call();
    const Bytes got = HashStore::compareSet(key, expected, desired);
    const std::string text(desired.begin(), desired.end());
    if (got != desired) return got;
    if (text.starts_with("comes")) self.came = std::stoll(text.substr(text.rfind(' ')));
    if (text.starts_with("has")) self.has_keys_of = std::stoll(text.substr(text.rfind(' ')));
    if (text.starts_with("goes")) self.has_keys_of = 0;
    return got;
  }
  Bytes get(const std::string& key) override {
    world_.before_call();
    return HashStore::get(key);
  }
  bool check(const std::vector<std::string>& keys) override {
    world_.before_call();
    return HashStore::check(keys);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    Process& self = world_.before_call();
    if (HashStore::check(keys)) return;
    self.waits_for = keys.front();
    world_.sleep(timeout);
    self.waits_for.clear();
    if (!HashStore::check(keys)) throw std::runtime_error("nobody has set " + keys.front());
  }

 private:
  World& world_;
};

World::World(uint64_t seed) : random_(seed), store_(c10::make_intrusive<SimulatedStore>(*this)) {}

void World::live(Process& self) {
  struct Prefix : c10d::PrefixStore {  // which c10d shows to nobody
    static std::string of(const PrefixStore& store) { return store.*(&Prefix::prefix_); }
  };
  std::string outcome;
  try {
    std::unique_lock lock(mutex_);
    await_turn(self, lock);
    lock.unlock();
    const auto keys = agree_on_keys(store_, self.rank, world_size_, self.timeout, clock_);
    outcome = Prefix::of(dynamic_cast<const c10d::PrefixStore&>(*keys));
  } catch (const Killed&) {
    outcome = "killed";
  } catch (const std::exception& error) {
    outcome = error.what();
  }
  const std::lock_guard lock(mutex_);
  self.outcome = outcome;
  hand_over();
}

void expect_met(const std::vector<const Process*>& ranks) {
  for (const Process* const rank : ranks) {
    EXPECT_TRUE(rank->has_met()) << "rank " << rank->rank << ": " << rank->outcome;
    EXPECT_EQ(rank->outcome, ranks.front()->outcome) << "rank " << rank->rank;
  }
}

// One process of a rank has the keys of a round, and where rank 0 has them, so have all others that nothing befell.
void expect_sound_rounds(World& world) {
  std::map<std::string, std::map<int64_t, const Process*>> rounds;
  std::set<int64_t> excused;
  for (const Process& process : world.processes()) {
    const auto says = [&](const char* what) { return process.outcome.find(what) != std::string::npos; };
    if (process.has_met()) {
      EXPECT_TRUE(rounds[process.outcome].emplace(process.rank, &process).second) << "two of rank " << process.rank;
    } else {
      EXPECT_TRUE(says("killed") || says("cannot meet")) << process.outcome;
    }
    if (process.is_disturbed || process.is_to_die || says("another process")) excused.insert(process.rank);
  }
  for (const auto& [round, ranks] : rounds) {
    const auto zero = ranks.find(0);
    if (zero == ranks.end() || zero->second->is_disturbed) continue;
    for (int64_t rank = 1; rank < world.world_size(); ++rank) {
      EXPECT_TRUE(ranks.contains(rank) || excused.contains(rank)) << "rank 0 has met without " << rank;
    }
  }
}

TEST(AgreedKeysSimulation, ANewSetOfRanksMeetsWhateverWasBefore) {
  for (uint64_t seed = 0; seed < 100 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.start_many();
    world.run_for(1min);
    for (Process& process : world.processes()) world.kill(process);
    world.do_no_harm_any_more();
    std::vector<const Process*> ranks;
    for (int64_t rank = 0; rank < world.world_size(); ++rank) {
      ranks.push_back(&world.start(rank, 1h, Duration{world.any(1'000'000)}));
    }
    world.run_for(1h);
    expect_met(ranks);
    expect_sound_rounds(world);
  }
}

// Of each rank the one that came last, if it is alive; else a new one. Who has the keys and is dead is counted on until
// another comes for its rank: those come first.
TEST(AgreedKeysSimulation, WhoIsLeftMeetsThoseThatComeForTheOthers) {
  for (uint64_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.start_many();
    world.run_for(1min);
    world.do_no_harm_any_more();
    world.run_for(5min);  // so that who was paused goes on
    std::vector<const Process*> last(world.world_size()), ranks;
    for (Process& process : world.processes()) {
      const Process*& of_rank = last[process.rank];
      if (process.came > 0 && (of_rank == nullptr || of_rank->came < process.came)) of_rank = &process;
    }
    std::vector<int64_t> dead, counted_on;
    for (int64_t rank = 0; rank < world.world_size(); ++rank) {
      if (last[rank] != nullptr && last[rank]->is_alive()) {
        ranks.push_back(last[rank]);
      } else {
        const bool has_keys = last[0] != nullptr && last[rank] != nullptr && last[rank]->has_keys_of == last[0]->came;
        (has_keys ? counted_on : dead).push_back(rank);
      }
    }
    for (Process& process : world.processes()) {
      if (&process != last[process.rank]) world.kill(process);
    }
    for (const auto& some : {counted_on, dead}) {
      for (const int64_t rank : some) {
        ranks.push_back(&world.start(rank, 1h, 0s));
        world.run_for(150s);
      }
    }
    world.run_for(1h);
    expect_met(ranks);
    expect_sound_rounds(world);
  }
}

}  // namespace
}  // namespace paceline::comm
