#include "paceline/rpc/key_value_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace paceline::rpc {
namespace {

using std::chrono::seconds;

Identity of_attempt(int64_t attempt, int64_t worker = 1) {
  return {.epoch = {1}, .attempt = {attempt}, .generation = {0}, .worker = {worker}};
}

Envelope request(const StoreRequest& body, int64_t number, std::string bytes = {}, Identity identity = of_attempt(1)) {
  Envelope envelope = pack(body, identity);
  envelope.request = number;
  envelope.bytes = std::move(bytes);
  return envelope;
}

StoreReply reply_in(const Envelope& envelope) {
  return unpack<StoreReply>(envelope).ValueOrDie();
}

TEST(KeyValueTable, AnswersTheWorkerThatAsked) {
  KeyValueTable table;
  EXPECT_TRUE(
      table
          .handle(request({.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = 5}, 7, {}, of_attempt(1, 42)),
                  Time{})
          .empty());
  const auto replies = table.handle(request({.operation = StoreOperation::set, .keys = {"a"}}, 8, "value"), Time{});
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].reply_to, 8);
  EXPECT_EQ(replies[0].identity.worker, WorkerId{1});
  EXPECT_EQ(replies[1].reply_to, 7);
  EXPECT_EQ(replies[1].identity.worker, WorkerId{42});
  EXPECT_EQ(replies[1].bytes, "value");
  EXPECT_FALSE(table.next_deadline().has_value()) << "an answered waiter leaves no deadline";
}

TEST(KeyValueTable, DeadlinesExpireInOrder) {
  KeyValueTable table;
  const Time start{seconds(1000)};
  table.handle(request({.operation = StoreOperation::wait, .keys = {"a", "b"}, .timeout_s = 9}, 1), start);
  table.handle(request({.operation = StoreOperation::get, .keys = {"b"}, .timeout_s = 3}, 2), start);
  table.handle(request({.operation = StoreOperation::get, .keys = {"c"}, .timeout_s = 1e300}, 3), start);
  EXPECT_EQ(table.next_deadline(), start + seconds(3));
  EXPECT_TRUE(table.expire(start + seconds(2)).empty());

  auto replies = table.expire(start + seconds(3));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].reply_to, 2);
  EXPECT_EQ(reply_in(replies[0]).outcome, StoreOutcome::timeout);

  // "a" comes: the waiter waits on for "b", with its deadline of before.
  EXPECT_EQ(table.handle(request({.operation = StoreOperation::set, .keys = {"a"}}, 4), start + seconds(5)).size(), 1u);
  EXPECT_EQ(table.next_deadline(), start + seconds(9));
  replies = table.expire(start + seconds(100));
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(reply_in(replies[0]).missing, Strings{"b"});
  EXPECT_FALSE(table.next_deadline().has_value()) << "an endless wait has no deadline";
  EXPECT_EQ(table.handle(request({.operation = StoreOperation::set, .keys = {"c"}}, 5), start).size(), 2u);
}

TEST(KeyValueTable, ADroppedAttemptIsClosedForGood) {
  KeyValueTable table;
  table.handle(request({.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = 5}, 1, {}, of_attempt(1)),
               Time{});
  table.handle(request({.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = 5}, 2, {}, of_attempt(3)),
               Time{});
  const auto replies = table.drop(Attempt{2});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].reply_to, 1);
  EXPECT_EQ(reply_in(replies[0]).outcome, StoreOutcome::closed);
  for (const int64_t attempt : {1, 2}) {
    const auto late =
        table.handle(request({.operation = StoreOperation::num_keys}, 3, {}, of_attempt(attempt)), Time{});
    EXPECT_EQ(reply_in(late.at(0)).outcome, StoreOutcome::closed);
  }
  EXPECT_EQ(table.expire(Time{seconds(5)}).size(), 1u) << "the later attempt still waits";
}

TEST(KeyValueTable, ADroppedGenerationIsClosedAndTheNextIsNot) {
  KeyValueTable table;
  const Identity next{.attempt = {2}, .generation = {1}};
  table.handle(request({.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = 5}, 1, {}, of_attempt(1)),
               Time{});
  table.handle(request({.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = 5}, 2, {}, of_attempt(2)),
               Time{});
  table.handle(request({.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = 5}, 3, {}, next), Time{});
  EXPECT_EQ(table.drop(Attempt{2}, Generation{0}).size(), 2u);
  const auto late = table.handle(request({.operation = StoreOperation::num_keys}, 4, {}, of_attempt(2)), Time{});
  EXPECT_EQ(reply_in(late.at(0)).outcome, StoreOutcome::closed);
  EXPECT_EQ(table.handle(request({.operation = StoreOperation::set, .keys = {"a"}}, 5, {}, next), Time{}).size(), 2u);
}

TEST(KeyValueTable, NonsenseIsAnsweredNotExecuted) {
  KeyValueTable table;
  const std::vector<StoreRequest> nonsense = {
      {},
      {.operation = StoreOperation::set},
      {.operation = StoreOperation::set, .keys = {"a", "b"}},
      {.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = -1},
      {.operation = StoreOperation::get, .keys = {"a"}, .timeout_s = std::nan("")},
      {.operation = StoreOperation::compare_set, .keys = {"a"}, .expected_size = 9},
      {.operation = StoreOperation::compare_set, .keys = {"a"}, .expected_size = -1},
  };
  for (const StoreRequest& body : nonsense) {
    const auto replies = table.handle(request(body, 5, "value"), Time{});
    ASSERT_EQ(replies.size(), 1u) << Json(body);
    EXPECT_EQ(reply_in(replies[0]).outcome, StoreOutcome::invalid) << Json(body);
    EXPECT_EQ(replies[0].reply_to, 5);
  }
  EXPECT_EQ(reply_in(table.handle(pack(Heartbeat{}), Time{}).at(0)).outcome, StoreOutcome::invalid);
  table.handle(request({.operation = StoreOperation::set, .keys = {"max"}}, 1, std::to_string(INT64_MAX)), Time{});
  const auto overflow =
      table.handle(request({.operation = StoreOperation::add, .keys = {"max"}, .amount = 1}, 2), Time{});
  EXPECT_EQ(reply_in(overflow.at(0)).outcome, StoreOutcome::invalid);
  EXPECT_EQ(reply_in(table.handle(request({.operation = StoreOperation::num_keys}, 3), Time{}).at(0)).number, 1);
}

// Whatever happens in whatever order: every request is answered exactly once, a waiter never later than its deadline.
TEST(KeyValueTable, EveryRequestIsAnsweredOnceInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int count) { return static_cast<int64_t>(random() % static_cast<unsigned>(count)); };
    const auto key = [&] { return "key" + std::to_string(pick(5)); };
    KeyValueTable table;
    Time now{};
    std::map<int64_t, int> answers;
    const auto collect = [&](const KeyValueTable::Replies& replies) {
      for (const auto& reply : replies) ++answers[reply.reply_to];
    };
    int64_t requests = 0;
    for (int step = 0; step < 200; ++step) {
      const Identity identity = of_attempt(1 + pick(3));
      switch (pick(6)) {
        case 0:
          collect(table.handle(request({.operation = StoreOperation::set, .keys = {key()}}, ++requests, "v", identity),
                               now));
          break;
        case 1:
          collect(table.handle(
              request({.operation = StoreOperation::delete_key, .keys = {key()}}, ++requests, {}, identity), now));
          break;
        case 2:
        case 3: {
          StoreRequest wait{
              .operation = StoreOperation::wait, .keys = {key(), key(), key()}, .timeout_s = double(pick(10))};
          collect(table.handle(request(wait, ++requests, {}, identity), now));
          break;
        }
        case 4:
          now += seconds(pick(3));
          collect(table.expire(now));
          break;
        default:
          if (pick(30) == 0) collect(table.drop(Attempt{1}));
          break;
      }
      ASSERT_GT(table.next_deadline().value_or(Time::max()), now);
    }
    collect(table.drop(Attempt{3}));
    ASSERT_FALSE(table.next_deadline().has_value());
    ASSERT_EQ(answers.size(), static_cast<size_t>(requests));
    for (const auto& [number, count] : answers) ASSERT_EQ(count, 1) << "request " << number << ", seed " << seed;
  }
}

}  // namespace
}  // namespace paceline::rpc
