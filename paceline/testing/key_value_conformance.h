// What every KeyValueClient must do: one suite, run against each implementation.
//
//     struct MemoryStore {
//       std::shared_ptr<rpc::KeyValueClient> client(const Identity& identity);  // of the generation; any number
//       void drop(Attempt attempt);                                             // the attempt is over
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Memory, KeyValueConformance, MemoryStore);
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/ids.h"
#include "paceline/rpc/key_value.h"

namespace paceline::testing {

template <class Factory>
class KeyValueConformance : public ::testing::Test {
 protected:
  using Timeout = rpc::KeyValueClient::Timeout;
  static constexpr Timeout kLong{60'000};
  static constexpr Timeout kShort{20};

  std::shared_ptr<rpc::KeyValueClient> client(int64_t attempt = 1, int64_t generation = 0, int64_t worker = 1) {
    return factory_.client({.epoch = {1}, .attempt = {attempt}, .generation = {generation}, .worker = {worker}});
  }

  Factory factory_;
};

TYPED_TEST_SUITE_P(KeyValueConformance);

TYPED_TEST_P(KeyValueConformance, KeepsBytes) {
  const auto client = this->client();
  const std::string binary("\0\xff\n\"$number\"", 12);
  for (const std::string& value : {std::string("text"), std::string(), binary, std::string(1'000'000, 'x')}) {
    ASSERT_TRUE(client->set("key", value).ok());
    EXPECT_EQ(client->get("key", this->kLong).ValueOrDie(), value);
  }
  ASSERT_TRUE(client->set("", "empty key").ok());
  EXPECT_EQ(client->get("", this->kLong).ValueOrDie(), "empty key");
}

TYPED_TEST_P(KeyValueConformance, GetWaitsForTheKey) {
  std::thread setter([&] { ASSERT_TRUE(this->client(1, 0, 2)->set("key", "value").ok()); });
  EXPECT_EQ(this->client()->get("key", this->kLong).ValueOrDie(), "value");
  setter.join();
}

TYPED_TEST_P(KeyValueConformance, WaitWaitsForAllKeys) {
  const auto client = this->client();
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back("key " + std::to_string(i));
  std::thread setter([&] {
    const auto other = this->client(1, 0, 2);
    for (const auto& key : keys) ASSERT_TRUE(other->set(key, "x").ok());
  });
  EXPECT_TRUE(client->wait(keys, this->kLong).ok());
  EXPECT_TRUE(client->check(keys).ValueOrDie());
  setter.join();
}

TYPED_TEST_P(KeyValueConformance, ATimeoutNamesTheMissingKeys) {
  const auto client = this->client();
  ASSERT_TRUE(client->set("present", "x").ok());
  for (const auto timeout : {this->kShort, rpc::KeyValueClient::Timeout(0), rpc::KeyValueClient::Timeout(-5)}) {
    const arrow::Status status = client->wait({"present", "missing one", "missing two"}, timeout);
    ASSERT_TRUE(status.IsCancelled()) << status;
    EXPECT_NE(status.message().find("missing one, missing two"), std::string::npos) << status;
    EXPECT_EQ(status.message().find("present"), std::string::npos) << status;
    EXPECT_TRUE(client->get("missing one", timeout).status().IsCancelled());
  }
  EXPECT_EQ(client->get("present", rpc::KeyValueClient::Timeout(0)).ValueOrDie(), "x");
}

TYPED_TEST_P(KeyValueConformance, AddIsAtomicAndReadable) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 100;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto client = this->client(1, 0, thread);
      for (int i = 0; i < kTimes; ++i) ASSERT_TRUE(client->add("sum", 2).ok());
    });
  }
  for (auto& thread : threads) thread.join();
  const auto client = this->client();
  EXPECT_EQ(client->add("sum", 0).ValueOrDie(), 2 * kThreads * kTimes);
  EXPECT_EQ(client->add("sum", -900).ValueOrDie(), -100);
  EXPECT_EQ(client->get("sum", this->kLong).ValueOrDie(), "-100");
  ASSERT_TRUE(client->set("word", "forty").ok());
  const arrow::Status status = client->add("word", 2).status();
  EXPECT_TRUE(status.IsInvalid()) << status;
  EXPECT_EQ(client->get("word", this->kLong).ValueOrDie(), "forty");
}

TYPED_TEST_P(KeyValueConformance, CompareSetDoesAsC10dsStores) {
  const auto client = this->client();
  EXPECT_EQ(client->compare_set("key", "wrong", "new").ValueOrDie(), "wrong") << "absent and not expected to be";
  EXPECT_FALSE(client->check({"key"}).ValueOrDie());
  EXPECT_EQ(client->compare_set("key", "", "first").ValueOrDie(), "first");
  EXPECT_EQ(client->compare_set("key", "wrong", "second").ValueOrDie(), "first");
  EXPECT_EQ(client->compare_set("key", "first", "second").ValueOrDie(), "second");
  EXPECT_EQ(client->get("key", this->kLong).ValueOrDie(), "second");
}

TYPED_TEST_P(KeyValueConformance, AppendsCountsAndDeletes) {
  const auto client = this->client();
  EXPECT_EQ(client->num_keys().ValueOrDie(), 0);
  ASSERT_TRUE(client->append("log", "one").ok());
  ASSERT_TRUE(client->append("log", std::string("\0two", 4)).ok());
  EXPECT_EQ(client->get("log", this->kLong).ValueOrDie(), std::string("one\0two", 7));
  ASSERT_TRUE(client->set("other", "").ok());
  EXPECT_EQ(client->num_keys().ValueOrDie(), 2);
  EXPECT_TRUE(client->check({"log", "other"}).ValueOrDie());
  EXPECT_TRUE(client->delete_key("log").ValueOrDie());
  EXPECT_FALSE(client->delete_key("log").ValueOrDie());
  EXPECT_FALSE(client->check({"log", "other"}).ValueOrDie());
  EXPECT_EQ(client->num_keys().ValueOrDie(), 1);
}

TYPED_TEST_P(KeyValueConformance, EveryOperationThatMakesAKeyWakesItsWaiters) {
  const auto other = this->client(1, 0, 2);
  const auto expect_woken_by = [&](const std::string& key, const auto& operation) {
    std::thread waiter([&] { EXPECT_TRUE(this->client()->wait({key}, this->kLong).ok()) << key; });
    EXPECT_TRUE(operation().ok()) << key;
    waiter.join();
  };
  expect_woken_by("set", [&] { return other->set("set", "1"); });
  expect_woken_by("add", [&] { return other->add("add", 1).status(); });
  expect_woken_by("append", [&] { return other->append("append", "1"); });
  expect_woken_by("compare_set", [&] { return other->compare_set("compare_set", "", "1").status(); });
}

TYPED_TEST_P(KeyValueConformance, GenerationsAndAttemptsDoNotSeeEachOther) {
  ASSERT_TRUE(this->client(1, 0)->set("key", "first").ok());
  EXPECT_FALSE(this->client(1, 1)->check({"key"}).ValueOrDie());
  EXPECT_FALSE(this->client(2, 0)->check({"key"}).ValueOrDie());
  ASSERT_TRUE(this->client(2, 0)->set("key", "second").ok());
  EXPECT_EQ(this->client(1, 0)->get("key", this->kLong).ValueOrDie(), "first");
}

TYPED_TEST_P(KeyValueConformance, TheEndOfAnAttemptReleasesItsWaiters) {
  std::thread waiter([&] {
    const arrow::Status status = this->client(1)->get("never", this->kLong).status();
    EXPECT_TRUE(status.IsIOError()) << status;
    EXPECT_NE(status.message().find("attempt 1"), std::string::npos) << status;
  });
  const auto next = this->client(2);
  ASSERT_TRUE(next->set("key", "kept").ok());
  this->factory_.drop(Attempt{1});
  waiter.join();
  EXPECT_TRUE(this->client(1)->set("late", "x").IsIOError());
  EXPECT_EQ(next->get("key", this->kLong).ValueOrDie(), "kept");
}

REGISTER_TYPED_TEST_SUITE_P(KeyValueConformance, KeepsBytes, GetWaitsForTheKey, WaitWaitsForAllKeys,
                            ATimeoutNamesTheMissingKeys, AddIsAtomicAndReadable, CompareSetDoesAsC10dsStores,
                            AppendsCountsAndDeletes, EveryOperationThatMakesAKeyWakesItsWaiters,
                            GenerationsAndAttemptsDoNotSeeEachOther, TheEndOfAnAttemptReleasesItsWaiters);

}  // namespace paceline::testing
