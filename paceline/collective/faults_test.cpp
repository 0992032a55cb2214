// Ranks that end in every way, in every phase of every collective: the others are told who is missing.
//
// The ranks are processes, and rounds are drawn from their numbers. PACELINE_TEST_ROUNDS says how many there are,
// PACELINE_TEST_FIRST_ROUND which is the first, to repeat one that has failed.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "paceline/collective/exercise_fixture.h"
#include "paceline/collective/processes_fixture.h"
#include "paceline/collective/ranks_fixture.h"
#include "paceline/core/peer_lost.h"
#include "paceline/testing/child_program.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::collective {
namespace {

using testing::ended_well;
using testing::TemporaryFolder;
using testing::wait_for_child;
using testing::was_killed;

constexpr int kKinds = 10;  // those of Kind, and mail
constexpr std::array kEnds = {"kill", "stop", "exit", "error", "abort"};

// Where a rank ends: the first two in its program, the others at fail points.
struct Phase {
  const char* of_collectives;
  const char* of_mail;
};
constexpr std::array kPhases = {Phase{"between", "between"},
                                Phase{"called", "called"},
                                Phase{"collective.announced", "mail.sent"},
                                Phase{"collective.all_announced", "mail.sent"},
                                Phase{"collective.middle", "mail.taken"},
                                Phase{"collective.ended", "mail.taken"}};

// One rank of a group ends while all call the same again and again.
struct Round {
  int number = 0;
  int kind = 0;
  std::string phase, end;
  int ranks = 2, lost = 0, root = 0;
  int last = 0;   ///< before so many loops it has not ended
  int depth = 1;  ///< calls that are under way at once
  size_t count = 1;
  int place = 0;  ///< heap, arena, both
  bool may_read_others = true;

  bool is_mail() const { return kind == kKinds - 1; }
  bool is_at_fail_point() const { return phase.find('.') != std::string::npos; }
  bool is_stopped() const { return end == "stop"; }
  // In which loop of a rank. As long as nobody is missing there is time, also on a machine that is busy otherwise.
  std::chrono::milliseconds patience(int loop) const {
    return is_stopped() && loop >= last ? std::chrono::milliseconds(1000) : std::chrono::milliseconds(kTestTimeout);
  }
  std::string text() const {
    return "round " + std::to_string(number) + ": " + (is_mail() ? "mail" : to_string(static_cast<Kind>(kind))) +
           " of " + std::to_string(count) + " values, " + std::to_string(depth) + " at once, place " +
           std::to_string(place) + (may_read_others ? "" : ", in pieces") + ": " + end + " at " + phase + " of rank " +
           std::to_string(lost) + " of " + std::to_string(ranks) + " in loop " + std::to_string(last);
  }
};

Round round_of(int number) {
  std::mt19937 random(static_cast<unsigned>(number));
  Round round;
  round.number = number;
  // Sixty rounds have every kind in every phase.
  round.kind = number % kKinds;
  const Phase& phase = kPhases[static_cast<size_t>(number + number / kKinds) % kPhases.size()];
  round.phase = round.is_mail() ? phase.of_mail : phase.of_collectives;
  round.end = kEnds[random() % kEnds.size()];
  // A program cannot abort at a fail point, and in mail there is nothing that could throw.
  if (round.is_at_fail_point() && round.end == "abort") round.end = "error";
  if (round.is_at_fail_point() && round.is_mail() && round.end == "error") round.end = "exit";
  round.ranks = 2 + static_cast<int>(random() % 3);
  round.lost = static_cast<int>(random() % static_cast<unsigned>(round.ranks));
  round.root = static_cast<int>(random() % static_cast<unsigned>(round.ranks));
  round.last = static_cast<int>(random() % 5);
  constexpr std::array kDepths = {1, 3, 20};  // within the window, and beyond it
  constexpr std::array kCounts = {1, 8192, 30'000, 200'000};
  const size_t count = random() % kCounts.size();
  round.count = kCounts[count];
  round.depth = kDepths[random() % (count > 1 ? 2 : kDepths.size())];
  round.place = static_cast<int>(random() % 3);
  round.may_read_others = random() % 2 == 0;
  // How many pieces a long message has is not known: such a round ends in its first loop.
  if (round.is_mail() && round.is_at_fail_point()) round.last = 0;
  return round;
}

// What the rank that ends throws.
struct Gone : std::exception {};

void end_here(const Round& round, SharedGroup& group) {
  if (round.end == "kill") ::raise(SIGKILL);
  if (round.end == "exit") ::_exit(0);
  if (round.end == "stop") ::raise(SIGSTOP);
  if (round.end == "abort") group.abort();
  if (round.end == "abort" || round.end == "error") throw Gone();
}

void call_all(const Round& round, SharedGroup& group, std::chrono::milliseconds patience, bool ends) {
  const bool in_arena = round.place == 1 || (round.place == 2 && group.rank() % 2 == 0);
  std::vector<std::pair<std::shared_ptr<Exercise>, std::shared_ptr<Operation>>> calls;
  for (int i = 0; i < round.depth; ++i) {
    auto exercise = std::make_shared<Exercise>(group, static_cast<Kind>(round.kind), round.count, round.root, in_arena);
    auto operation = group.start(Exercise::request(exercise, patience));
    calls.emplace_back(std::move(exercise), std::move(operation));
  }
  if (ends) end_here(round, group);
  for (const auto& [exercise, operation] : calls) {
    group.wait(operation);
    if (!exercise->is_right()) throw std::runtime_error("wrong values");
  }
}

struct Message {
  std::vector<int64_t> values;
  std::promise<void> promise;
  std::future<void> end = promise.get_future();
};

// Sends, or awaits, what then is in `values`.
std::shared_ptr<Message> begin_message(SharedGroup& group, int rank, bool is_sent, std::vector<int64_t> values,
                                       std::chrono::milliseconds patience) {
  auto message = std::make_shared<Message>();
  message->values = std::move(values);
  auto letter = std::make_shared<Letter>();
  *letter = {.rank = rank,
             .memory = reinterpret_cast<std::byte*>(message->values.data()),
             .bytes = message->values.size() * sizeof(int64_t),
             .deadline = std::chrono::steady_clock::now() + patience,
             .keeps = message,
             .on_end = [message = message.get()](const std::exception_ptr& failure) {
               failure ? message->promise.set_exception(failure) : message->promise.set_value();
             }};
  is_sent ? group.mail().send(letter) : group.mail().receive(letter);
  return message;
}

// Every rank writes to every other.
void write_to_all(const Round& round, SharedGroup& group, std::chrono::milliseconds patience, bool ends) {
  std::vector<int64_t> own(round.count);
  for (size_t i = 0; i < own.size(); ++i) own[i] = given(group.rank(), i);
  std::vector<std::shared_ptr<Message>> sent, awaited(static_cast<size_t>(group.size()));
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    sent.push_back(begin_message(group, rank, true, own, patience));
    awaited[static_cast<size_t>(rank)] = begin_message(group, rank, false, std::vector<int64_t>(round.count), patience);
  }
  if (ends) end_here(round, group);
  for (const auto& message : sent) message->end.get();
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    Message& message = *awaited[static_cast<size_t>(rank)];
    message.end.get();
    for (size_t i = 0; i < round.count; ++i) {
      if (message.values[i] != given(rank, i)) throw std::runtime_error("a wrong message");
    }
  }
}

// Until somebody is missing.
[[noreturn]] void loop(const Round& round, SharedGroup& group) {
  for (int i = 0;; ++i) {
    const bool ends = group.rank() == round.lost && !round.is_at_fail_point() && i == round.last;
    if (ends && round.phase == "between") end_here(round, group);
    (round.is_mail() ? write_to_all : call_all)(round, group, round.patience(i), ends && round.phase == "called");
  }
}

// 0 when the rank has ended as it should.
int play(const std::string& argument) {
  const auto [folder, rank] = place_of_rank(argument);
  const Round round = round_of(std::stoi(std::filesystem::path(folder).extension().string().substr(1)));
  const auto complain = [&](const std::string& what, int code) {
    std::fprintf(stderr, "rank %d in %s: %s\n", rank, round.text().c_str(), what.c_str());
    return code;
  };
  const bool is_lost = rank == round.lost;
  try {
    const auto group = SharedGroup::create(bulletin_in(folder), rank, round.ranks, kTestTimeout, round.may_read_others);
    loop(round, *group);
  } catch (const Gone&) {
    return 0;
  } catch (const PeerLost& failure) {
    // One that was stopped and goes on finds that the others have not waited.
    const bool is_late = std::string_view(failure.what()).find("not come in time") != std::string_view::npos;
    if (is_lost && !round.is_stopped()) return complain(failure.what(), 1);
    if (!is_lost && failure.ranks() != std::vector<int64_t>{round.lost}) return complain(failure.what(), 2);
    if (!round.is_stopped() && is_late) return complain(failure.what(), 3);
  } catch (const std::exception& failure) {
    if (!is_lost || round.end != "error") return complain(failure.what(), 4);
  }
  const std::string left = shared_memory_of_this_process();
  return left.empty() ? 0 : complain("shared memory is left: " + left, 5);
}

// Of the lost rank: the fail point, and at which passage.
std::string fail_points_of(const Round& round) {
  if (!round.is_at_fail_point()) return "";
  const bool has_pieces = round.count * sizeof(int64_t) > kMailBytes;
  const int passage = round.is_mail()
                          ? 1 + (has_pieces ? round.number / kKinds % 2 : 0)
                          : 2 + round.last * round.depth + 1 + round.number % round.depth;  // 2: the meeting
  return round.phase + "=" + round.end + "@" + std::to_string(passage);
}

void expect_named(const Round& round) {
  SCOPED_TRACE(round.text());
  const TemporaryFolder folder;
  const std::string place = folder / "of." + std::to_string(round.number);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < round.ranks; ++rank) {
    ranks.push_back(start_rank("play", place, rank, rank == round.lost ? fail_points_of(round) : ""));
  }
  const pid_t lost = ranks[static_cast<size_t>(round.lost)];
  EXPECT_TRUE(!round.is_stopped() || WIFSTOPPED(wait_for_child(lost, WUNTRACED)));
  for (int rank = 0; rank < round.ranks; ++rank) {
    if (rank == round.lost) continue;
    const int status = wait_for_child(ranks[static_cast<size_t>(rank)]);
    EXPECT_TRUE(ended_well(status)) << "rank " << rank << ": status " << status;
  }
  if (round.is_stopped()) ::kill(lost, SIGCONT);
  const int status = wait_for_child(lost);
  EXPECT_TRUE(round.end == "kill" ? was_killed(status) : ended_well(status)) << "the lost rank: status " << status;
}

int number_in_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoi(text);
}

TEST(CollectiveFaults, WhoIsMissingIsNamedInEveryRound) {
  const int first = number_in_environment("PACELINE_TEST_FIRST_ROUND", 0);
  const int rounds = number_in_environment("PACELINE_TEST_ROUNDS", 20);
  for (int number = first; number < first + rounds; ++number) {
    expect_named(round_of(number));
    if (HasFailure()) FAIL() << "PACELINE_TEST_FIRST_ROUND=" << number << " PACELINE_TEST_ROUNDS=1 repeats it";
  }
}

// --- one by one ----------------------------------------------------------------------------------------------------

// Rank 1 sends and leaves, as soon as it is told to.
int send_and_leave(const std::string& argument) {
  const auto [folder, rank] = place_of_rank(argument);
  const Bulletin bulletin = bulletin_in(folder);
  const auto group = SharedGroup::create(bulletin, rank, 2, kTestTimeout);
  if (rank == 1) bulletin.get("go", Deadline::max());
  begin_message(*group, 1 - rank, rank == 1, {7}, kTestTimeout)->end.get();
  return 0;
}

TEST(CollectiveFaults, WhatARankHasSentBeforeItLeftArrives) {
  const TemporaryFolder folder;
  const pid_t receiver = start_rank("send_and_leave", folder / "of", 0, "mail.nothing_new=stop");
  const pid_t sender = start_rank("send_and_leave", folder / "of", 1, "");
  ASSERT_TRUE(WIFSTOPPED(wait_for_child(receiver, WUNTRACED))) << "it has looked, and found nothing";
  bulletin_in(folder / "of").set("go", "");
  EXPECT_TRUE(ended_well(wait_for_child(sender)));
  ::kill(receiver, SIGCONT);
  EXPECT_TRUE(ended_well(wait_for_child(receiver)));
}

// Rank 0 is killed; rank 1 waits for it, and rank 2 for rank 1, which does not end.
int wait_in_a_chain(const std::string& argument) {
  const auto [folder, rank] = place_of_rank(argument);
  const Bulletin bulletin = bulletin_in(folder);
  const auto group = SharedGroup::create(bulletin, rank, 3, kTestTimeout);
  if (rank == 0) ::raise(SIGKILL);
  try {
    begin_message(*group, rank - 1, false, {0}, kTestTimeout)->end.get();
  } catch (const PeerLost& lost) {
    bulletin.set("told" + std::to_string(rank), "");
    bulletin.get("told1", Deadline::max());
    bulletin.get("told2", Deadline::max());
    return lost.ranks() == std::vector<int64_t>{0} ? 0 : 1;
  }
  return 2;
}

TEST(CollectiveFaults, WhoWaitsForOneThatWaitsInVainIsToldWhoIsMissing) {
  const TemporaryFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(start_rank("wait_in_a_chain", folder / "of", rank, ""));
  EXPECT_TRUE(was_killed(wait_for_child(ranks[0])));
  EXPECT_TRUE(ended_well(wait_for_child(ranks[1])));
  EXPECT_TRUE(ended_well(wait_for_child(ranks[2])));
}

// Rank 1 stops in the midst of an all_reduce in all arenas, and goes on when rank 0 has other values there.
int reduce_late(const std::string& argument) {
  const auto [folder, rank] = place_of_rank(argument);
  const Bulletin bulletin = bulletin_in(folder);
  auto group = SharedGroup::create(bulletin, rank, 2, kTestTimeout);
  const auto arena = group->arena();
  constexpr size_t kCount = 300'000;
  auto* const values = static_cast<int64_t*>(arena->allocate(kCount * sizeof(int64_t)).ValueOrDie());
  std::fill_n(values, kCount, 1);
  Request request{.kind = Kind::all_reduce, .what = {.element = Element::int64, .reduction = Reduction::sum}};
  request.elements = kCount;
  request.input = values;
  request.outputs = {values};
  request.timeout = rank == 0 ? std::chrono::milliseconds(200) : kTestTimeout;
  try {
    group->wait(group->start(std::move(request)));
    return 1;
  } catch (const PeerLost&) {  // each misses the other
  }
  if (rank == 1) {
    bulletin.set("done", "");
    return 0;
  }
  std::fill_n(values, kCount, 7);
  bulletin.set("reused", "");
  bulletin.get("done", Deadline::max());
  const bool is_as_it_was = std::all_of(values, values + kCount, [](int64_t value) { return value == 7; });
  arena->free(values);
  return is_as_it_was ? 0 : 2;
}

TEST(CollectiveFaults, WhoWasGivenUpWritesToNobodysMemory) {
  const TemporaryFolder folder;
  const pid_t first = start_rank("reduce_late", folder / "of", 0, "");
  const pid_t late = start_rank("reduce_late", folder / "of", 1, "collective.all_announced=stop@3");  // 2: the meeting
  ASSERT_TRUE(WIFSTOPPED(wait_for_child(late, WUNTRACED)));
  bulletin_in(folder / "of").get("reused", Deadline::max());
  ::kill(late, SIGCONT);
  EXPECT_TRUE(ended_well(wait_for_child(late)));
  EXPECT_TRUE(ended_well(wait_for_child(first)));
}

}  // namespace
}  // namespace paceline::collective

int main(int argc, char** argv) {
  using namespace paceline::collective;
  paceline::testing::run_child_if_asked(argc, argv,
                                        {{"play", play},
                                         {"send_and_leave", send_and_leave},
                                         {"wait_in_a_chain", wait_in_a_chain},
                                         {"reduce_late", reduce_late}});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
