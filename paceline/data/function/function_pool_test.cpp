#include "paceline/data/function/function_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "paceline/core/posix/forks.h"
#include "paceline/data/function/fake_processes_internal.h"
#include "paceline/data/testing_internal.h"
#include "paceline/testing/in_fork.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Adds the key to each number.
std::shared_ptr<arrow::RecordBatch> plus_key(const FakeCall& call) {
  std::vector<int64_t> values = values_of(*call.block);
  for (int64_t& value : values) value += static_cast<int64_t>(call.key);
  return numbers_of(values);
}

FunctionPoolOptions of_processes(size_t count) {
  return {.variables = std::vector<std::map<std::string, std::string>>(count)};
}

std::future<arrow::Result<std::shared_ptr<arrow::RecordBatch>>> called(FunctionPool& pool, int64_t function,
                                                                       int64_t number, uint64_t key = 0) {
  return std::async(std::launch::async,
                    [&pool, function, number, key] { return pool.call(function, numbers_of({number}), key); });
}

TEST(FunctionPool, GivesWhatTheFunctionMakes) {
  const auto processes = std::make_shared<FakeProcesses>(plus_key);
  FunctionPool pool(processes, of_processes(2));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  const auto first = pool.call(function, numbers_of({1, 2, 3}), 10).ValueOrDie();
  const auto second = pool.call(function, numbers_of({4}), 20).ValueOrDie();  // leaves alone what the first lies in
  EXPECT_EQ(values_of(*first), (std::vector<int64_t>{11, 12, 13}));
  EXPECT_EQ(values_of(*second), (std::vector<int64_t>{24}));
  EXPECT_EQ(pool.call(function, numbers_of({}), 0).ValueOrDie()->num_rows(), 0);
  EXPECT_EQ(pool.call(function, numbers_of({7, 8, 9})->Slice(1, 1), 1).ValueOrDie()->num_rows(), 1);
  EXPECT_EQ(processes->variables.size(), 1u);  // the second process was never needed
}

TEST(FunctionPool, LargeBlocksComeThrough) {
  FunctionPool pool(std::make_shared<FakeProcesses>(plus_key), of_processes(1));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  std::vector<int64_t> values(1 << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(values_of(*pool.call(function, numbers_of(values), 0).ValueOrDie()), values);
  }
}

TEST(FunctionPool, CallsAreUnderWayAtOnce) {
  std::latch both(2);
  FunctionPool pool(std::make_shared<FakeProcesses>([&](const FakeCall& call) {
                      both.arrive_and_wait();
                      return plus_key(call);
                    }),
                    of_processes(2));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  auto first = called(pool, function, 1);
  auto second = called(pool, function, 2);
  EXPECT_EQ(values_of(**first.get()), (std::vector<int64_t>{1}));
  EXPECT_EQ(values_of(**second.get()), (std::vector<int64_t>{2}));
  EXPECT_EQ(pool.pids().size(), 2u);
}

TEST(FunctionPool, AnswersMayComeInAnotherOrder) {
  std::latch second_is_done(1);
  FunctionPool pool(std::make_shared<FakeProcesses>([&](const FakeCall& call) {
                      if (values_of(*call.block)[0] == 1) second_is_done.wait();
                      return plus_key(call);
                    }),
                    of_processes(2));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  auto first = called(pool, function, 1);
  EXPECT_EQ(values_of(**called(pool, function, 2).get()), (std::vector<int64_t>{2}));
  second_is_done.count_down();
  EXPECT_EQ(values_of(**first.get()), (std::vector<int64_t>{1}));
}

// The thread that has lined up first is still reading its block when the second one is ready.
TEST(FunctionPool, ThreadsGoInTheOrderInWhichTheyHaveLinedUp) {
  std::vector<int64_t> calls;
  const auto pool = std::make_shared<FunctionPool>(std::make_shared<FakeProcesses>([&](const FakeCall& call) {
                                                     calls.push_back(values_of(*call.block)[0]);
                                                     return plus_key(call);
                                                   }),
                                                   of_processes(1));
  const int64_t function = pool->add("f", "code").ValueOrDie();
  for (int round = 0; round < 20; ++round) {
    calls.clear();
    std::latch first_is_there(1), second_is_there(1);
    auto first = std::async(std::launch::async, [&] {
      const auto turn = FunctionPool::line_up(pool);
      EXPECT_EQ(FunctionPool::line_up(pool), nullptr) << "it stands there";
      first_is_there.count_down();
      second_is_there.wait();
      std::this_thread::yield();
      return pool->call(function, numbers_of({1}), 0);
    });
    auto second = std::async(std::launch::async, [&] {
      first_is_there.wait();
      const auto turn = FunctionPool::line_up(pool);
      second_is_there.count_down();
      return pool->call(function, numbers_of({2}), 0);
    });
    EXPECT_TRUE(first.get().ok() && second.get().ok());
    EXPECT_EQ(calls, (std::vector<int64_t>{1, 2}));
  }
}

// One that waits for the thread behind it holds it up for a while, not for ever.
TEST(FunctionPool, AThreadThatDoesNotComeIsNotWaitedFor) {
  const auto pool = std::make_shared<FunctionPool>(std::make_shared<FakeProcesses>(plus_key), of_processes(1));
  const int64_t function = pool->add("f", "code").ValueOrDie();
  auto turn = FunctionPool::line_up(pool);
  EXPECT_TRUE(called(*pool, function, 2).get().ok());
  turn = nullptr;  // it never calls
  EXPECT_TRUE(called(*pool, function, 3).get().ok());
}

TEST(FunctionPool, ACallThatGoesOnForLongIsToldOf) {
  std::latch is_told(1);
  ::testing::internal::CaptureStderr();
  const auto processes = std::make_shared<FakeProcesses>([&](const FakeCall& call) {
    is_told.wait();
    return plus_key(call);
  });
  processes->stack_is_shown = [&] { is_told.count_down(); };
  FunctionPoolOptions options = of_processes(1);
  options.slow_after = std::chrono::milliseconds(20);
  FunctionPool pool(processes, options);
  const int64_t function = pool.add("Map(f)", "code").ValueOrDie();
  EXPECT_EQ(values_of(**called(pool, function, 1).get()), (std::vector<int64_t>{1}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("paceline: Map(f) has been at a block of 1 rows"), HasSubstr("in process 1000")));
}

TEST(FunctionPool, ACrashIsTriedAgainWithTheSameKey) {
  std::atomic<int> calls = 0;
  FunctionPool pool(std::make_shared<FakeProcesses>([&](const FakeCall& call) -> FakeReply {
                      if (calls++ == 0) return FakeCrash{};
                      return plus_key(call);
                    }),
                    of_processes(1));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  EXPECT_EQ(values_of(*pool.call(function, numbers_of({5}), 3).ValueOrDie()), (std::vector<int64_t>{8}));
  EXPECT_EQ(pool.pids(), (std::vector<pid_t>{1001}));
}

TEST(FunctionPool, ASecondCrashIsAnErrorOfTheseRowsAlone) {
  FunctionPool pool(std::make_shared<FakeProcesses>([&](const FakeCall& call) -> FakeReply {
                      if (values_of(*call.block)[0] == 1) return FakeCrash{call.process == 0 ? SIGSEGV : SIGKILL};
                      return plus_key(call);
                    }),
                    of_processes(1));
  const int64_t function = pool.add("Map(f)", "code").ValueOrDie();
  const arrow::Status status = pool.call(function, numbers_of({1}), 0).status();
  EXPECT_TRUE(status.IsExecutionError());
  EXPECT_THAT(status.message(), AllOf(HasSubstr("Map(f)"), HasSubstr("SIGSEGV"), HasSubstr("SIGKILL")));
  EXPECT_EQ(values_of(*pool.call(function, numbers_of({2}), 0).ValueOrDie()), (std::vector<int64_t>{2}));
}

TEST(FunctionPool, AProcessThatEndsBetweenCallsIsNoCrashOfTheNextOne) {
  const auto processes = std::make_shared<FakeProcesses>([&](const FakeCall& call) -> FakeReply {
    if (call.process == 1) return FakeCrash{};
    return plus_key(call);
  });
  FunctionPool pool(processes, of_processes(1));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  EXPECT_TRUE(pool.call(function, numbers_of({1}), 0).ok());
  processes->end(0);
  EXPECT_EQ(values_of(*pool.call(function, numbers_of({5}), 3).ValueOrDie()), (std::vector<int64_t>{8}));
  EXPECT_EQ(pool.pids(), (std::vector<pid_t>{1002}));
}

TEST(FunctionPool, ProcessesThatEndWithTheirServerHaveNotCrashed) {
  int crashes = 2;  // as many processes as there are
  FunctionPool pool(std::make_shared<FakeProcesses>([&](const FakeCall& call) -> FakeReply {
                      if (crashes-- > 0) return FakeCrash{FakeCrash::kNobodyKnows};
                      return plus_key(call);
                    }),
                    of_processes(2));
  const int64_t function = pool.add("f", "code").ValueOrDie();
  EXPECT_EQ(values_of(*pool.call(function, numbers_of({5}), 3).ValueOrDie()), (std::vector<int64_t>{8}));
  crashes = 100;
  EXPECT_THAT(pool.call(function, numbers_of({5}), 3).status().message(), HasSubstr("nobody knows how"));
  EXPECT_EQ(crashes, 100 - 4);
}

TEST(FunctionPool, AForkForgetsItsParentsProcesses) {
  std::latch is_called(1), ends(1);
  auto pool = make_shared_at_home<FunctionPool>(std::make_shared<FakeProcesses>([&](const FakeCall& call) {
                                                  is_called.count_down();
                                                  ends.wait();
                                                  return plus_key(call);
                                                }),
                                                of_processes(2));
  const int64_t function = pool->add("f", "code").ValueOrDie();
  auto under_way = called(*pool, function, 1);
  is_called.wait();
  EXPECT_TRUE(testing::holds_in_fork([&] {
    const bool is_refused = pool->call(function, numbers_of({1}), 0).status().IsInvalid();
    pool->remove(function);
    pool.reset();
    return is_refused;
  }));
  ends.count_down();
  EXPECT_EQ(values_of(**under_way.get()), (std::vector<int64_t>{1}));
}

TEST(FunctionPool, AnExceptionIsNotTriedAgain) {
  std::atomic<int> calls = 0;
  FunctionPool pool(std::make_shared<FakeProcesses>([&](const FakeCall&) -> FakeReply {
                      ++calls;
                      return FakeRaise{"KeyError: 'x'"};
                    }),
                    of_processes(1));
  const arrow::Status status = pool.call(pool.add("Map(f)", "code").ValueOrDie(), numbers_of({1}), 0).status();
  EXPECT_EQ(status.message(), "Map(f) raised KeyError: 'x'");
  ASSERT_EQ(status.detail()->type_id(), FunctionRaisedDetail::kType);
  EXPECT_EQ(static_cast<const FunctionRaisedDetail&>(*status.detail()).pickled, "pickled");
  EXPECT_EQ(calls, 1);
}

TEST(FunctionPool, EachProcessHasItsVariablesAlsoWhenItIsReplaced) {
  const auto processes = std::make_shared<FakeProcesses>([](const FakeCall& call) -> FakeReply {
    if (call.process == 0) return FakeCrash{};
    return plus_key(call);
  });
  FunctionPool pool(processes, {.variables = {{{"CUDA_VISIBLE_DEVICES", "3"}}}});
  EXPECT_TRUE(pool.call(pool.add("f", "code").ValueOrDie(), numbers_of({1}), 0).ok());
  EXPECT_EQ(processes->variables.size(), 2u);
  EXPECT_EQ(processes->variables[1].at("CUDA_VISIBLE_DEVICES"), "3");
}

TEST(FunctionPool, FunctionsComeAndGo) {
  FunctionPool pool(std::make_shared<FakeProcesses>(
                        [](const FakeCall& call) -> FakeReply { return numbers_of({std::stoll(call.code)}); }),
                    of_processes(1));
  const int64_t one = pool.add("one", "1").ValueOrDie();
  const int64_t two = pool.add("two", "2").ValueOrDie();
  EXPECT_EQ(values_of(**pool.call(one, numbers_of({}), 0)), (std::vector<int64_t>{1}));
  EXPECT_EQ(values_of(**pool.call(two, numbers_of({}), 0)), (std::vector<int64_t>{2}));
  pool.remove(one);
  EXPECT_EQ(values_of(**pool.call(two, numbers_of({}), 0)), (std::vector<int64_t>{2}));
  EXPECT_TRUE(pool.call(one, numbers_of({}), 0).status().IsInvalid());
  EXPECT_EQ(pool.pids().size(), 1u);
  pool.remove(two);
  EXPECT_EQ(pool.pids().size(), 0u);
}

TEST(FunctionPool, AProcessBeyondItsMemoryIsEnded) {
  std::latch ends(1);
  const auto processes = std::make_shared<FakeProcesses>([&](const FakeCall& call) {
    ends.wait();  // longer than the call, which kills
    return plus_key(call);
  });
  processes->memory = 300 << 20;
  FunctionPool pool(processes, {.memory = 200 << 20});
  const arrow::Status status = pool.call(pool.add("Map(f)", "code").ValueOrDie(), numbers_of({1}), 0).status();
  ends.count_down();
  EXPECT_TRUE(status.IsOutOfMemory()) << status.ToString();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("Map(f)"), HasSubstr("300 MiB"), HasSubstr("200 MiB")));
}

TEST(FunctionPool, GoesWhileCallsAreUnderWay) {
  std::latch both_are_called(2), ends(1);
  auto pool = std::make_unique<FunctionPool>(std::make_shared<FakeProcesses>([&](const FakeCall& call) {
                                               both_are_called.count_down();
                                               ends.wait();
                                               return plus_key(call);
                                             }),
                                             of_processes(2));
  const int64_t function = pool->add("f", "code").ValueOrDie();
  auto first = called(*pool, function, 1);
  auto second = called(*pool, function, 2);
  both_are_called.wait();
  std::thread ending([&] { pool.reset(); });
  EXPECT_TRUE(first.get().status().IsCancelled());
  EXPECT_TRUE(second.get().status().IsCancelled());
  ends.count_down();
  ending.join();
}

}  // namespace
}  // namespace paceline::data
