// What clients are told of what they watch: topics by themselves, then the feed with its clock.
#include "paceline/dashboard/feed.h"

#include <gmock/gmock.h>

#include <atomic>

namespace paceline::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Topic, IsToldWholeThenInDeltas) {
  Topic topic("runs");
  uint64_t number = 7;
  EXPECT_EQ(topic.snapshot(), "");
  EXPECT_EQ(topic.update({{"a", 1}, {"b", {1, 2}}}, number), R"({"topic":"runs","value":{"a":1,"b":[1,2]}})");
  EXPECT_EQ(topic.update({{"a", 1}, {"b", {1, 2}}}, number), std::nullopt);
  EXPECT_EQ(number, 8u);
  EXPECT_EQ(Json::parse(topic.update({{"b", {1}}, {"c", nullptr}}, number).value()),
            Json({{"topic", "runs"}, {"set", {{"b", {1}}, {"c", nullptr}}}, {"removed", {"a"}}}));
  EXPECT_EQ(number, 9u);
  EXPECT_EQ(topic.since(8)->size(), 1u);
  EXPECT_EQ(topic.since(9)->size(), 0u);
  EXPECT_EQ(topic.since(7), std::nullopt) << "before the first value";
}

TEST(Topic, KeepsAsMuchAsItMay) {
  Topic topic("run", {.events = 3, .bytes = 1000});
  uint64_t number = 0;
  for (int value = 0; value < 10; ++value) (void)topic.update({{"a", value}}, number);
  EXPECT_EQ(topic.since(number - 3)->size(), 3u);
  EXPECT_EQ(topic.since(number - 4), std::nullopt);
  (void)topic.update({{"a", std::string(2000, 'x')}}, number);
  EXPECT_EQ(topic.since(number - 1), std::nullopt) << "too large to be kept";
  EXPECT_EQ(topic.since(number)->size(), 0u);
}

// A client that remembers what it got.
class Client {
 public:
  Feed::Deliver taker() {
    return [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      if (lags) return false;
      text_ += text;
      changed_.notify_all();
      return true;
    };
  }
  // What came until that text has.
  std::string until(const std::string& wanted) {
    std::unique_lock lock(mutex_);
    const bool has_come =
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return text_.find(wanted) != std::string::npos; });
    EXPECT_TRUE(has_come) << "waiting for " << wanted << " in " << text_;
    return std::exchange(text_, "");
  }
  static std::string last_id(const std::string& text) {
    const size_t begin = text.rfind("id: ") + 4;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  std::atomic<bool> lags = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

class FeedTest : public ::testing::Test {
 protected:
  std::atomic<int> value_ = 1;
  Feed feed_{[this](const std::string& topic) -> arrow::Result<Json> {
               if (topic == "broken") return arrow::Status::IOError("no such run");
               return Json{{topic, value_.load()}};
             },
             {.interval = std::chrono::milliseconds(5),
              .rest = std::chrono::milliseconds(5),
              .ping = std::chrono::milliseconds(20)}};
  Client client_;
};

TEST_F(FeedTest, TellsWhatChanges) {
  const uint64_t subscription = feed_.subscribe({"a", "broken"}, "", client_.taker());
  EXPECT_THAT(client_.until("}\n\n"),
              AllOf(HasSubstr("retry: 2000\n\n"), Not(HasSubstr("gap")),
                    HasSubstr("event: snapshot\ndata: {\"topic\":\"a\",\"value\":{\"a\":1}}\n\n")));
  value_ = 2;
  EXPECT_THAT(client_.until("\"set\":{\"a\":2}"), HasSubstr("event: delta\n"));
  (void)client_.until(": nothing new\n\n");
  feed_.stop();
  (void)client_.until("event: bye\n");
  feed_.unsubscribe(subscription);
}

TEST_F(FeedTest, WhoComesBackGetsWhatWasMissed) {
  const uint64_t first = feed_.subscribe({"a"}, "", client_.taker());
  const std::string id = Client::last_id(client_.until("}\n\n"));
  Client other;
  feed_.subscribe({"a"}, "", other.taker());
  (void)other.until("}\n\n");
  feed_.unsubscribe(first);
  value_ = 2;
  (void)other.until("\"set\":{\"a\":2}");
  Client again;
  feed_.subscribe({"a"}, id, again.taker());
  EXPECT_THAT(again.until("\"set\":{\"a\":2}"), AllOf(Not(HasSubstr("snapshot")), Not(HasSubstr("gap"))));
  for (const char* unknown : {"0-1", "nonsense", "-", "99999999-18446744073709551616"}) {
    Client stranger;
    const uint64_t subscription = feed_.subscribe({"a"}, unknown, stranger.taker());
    EXPECT_THAT(stranger.until("\"value\":{\"a\":2}"), HasSubstr("event: gap\ndata: {\"topic\":\"a\"}\n\n")) << unknown;
    feed_.unsubscribe(subscription);
  }
  feed_.stop();
}

TEST_F(FeedTest, WhoLagsGetsTheWholeAgain) {
  feed_.subscribe({"a"}, "", client_.taker());
  (void)client_.until("\"value\":{\"a\":1}");
  Client other;
  feed_.subscribe({"a"}, "", other.taker());
  (void)other.until("}\n\n");
  client_.lags = true;
  for (int value = 2; value <= 4; ++value) {
    value_ = value;
    (void)other.until("\"set\":{\"a\":" + std::to_string(value));
  }
  client_.lags = false;
  EXPECT_THAT(client_.until("\"value\":{\"a\":4}"),
              AllOf(HasSubstr("event: gap\n"), Not(HasSubstr("\"set\":{\"a\":2"))));
  feed_.stop();
}

TEST(FeedOfTold, LooksWhenItIsToldAndOnlyWhileSomebodyWatches) {
  std::atomic<int> looks = 0;
  Feed feed([&looks](const std::string& topic) -> arrow::Result<Json> { return Json{{topic, ++looks}}; },
            {.interval = std::chrono::milliseconds(5), .rest = std::chrono::hours(1)});
  feed.note_change("a");
  Client first;
  const uint64_t subscription = feed.subscribe({"a"}, "", first.taker());
  const std::string id = Client::last_id(first.until("\"value\":{\"a\":1}"));
  feed.note_change("a");
  (void)first.until("\"set\":{\"a\":2}");
  feed.note_change("b");
  feed.unsubscribe(subscription);
  feed.note_change("a");
  Client again;
  feed.subscribe({"a"}, id, again.taker());
  (void)again.until("\"set\":{\"a\":3}");  // what it has missed, and then what has become of it
  EXPECT_EQ(looks, 3);
  feed.stop();
}

}  // namespace
}  // namespace paceline::dashboard
