#include "paceline/rpc/messages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace paceline::rpc {
namespace {

template <class Visitor>
void for_each_message(Visitor&& visitor) {
  std::apply([&](const auto&... message) { (visitor(message), ...); }, Catalogue{});
}

// Another value than the default, for every type of field that a message has.
void change(bool& value) {
  value = !value;
}
void change(int64_t& value) {
  value += int64_t{1} << 40;
}
void change(double& value) {
  value += 0.1;
}
void change(std::string& value) {
  value += "\"quoted\" \xc3\xa9 \n";
}
void change(Strings& value) {
  value = {"one", "", "three"};
}
void change(StringMap& value) {
  value = {{"PATH", "/bin"}, {"EMPTY", ""}};
}
void change(Resources& value) {
  value = {{"licence", 0.5}};
}
void change(Json& value) {
  value = {{"nested", {{"list", {1, 2.5, "three", nullptr}}}}};
}
void change(Rank& value) {
  value = Rank{7};
}
void change(ProcessEnd& value) {
  value = {.status = {.signal = 9}, .step = 12, .memory = {.peak_bytes = 1 << 30}, .crash = CrashFacts{.code = 1}};
}
void change(std::vector<WorkerId>& value) {
  value = {{3}, {5}};
}
void change(std::vector<int64_t>& value) {
  value = {0, 56};
}
void change(std::optional<std::string>& value) {
  value = "50%";
}
void change(Phase& value) {
  value = Phase::backward;
}
void change(ProcessProgresses& value) {
  value = {{.worker = {4}, .step = 12, .phase = Phase::backward, .phase_s = 0.5}};
}
void change(MaybeValidation& value) {
  value = ValidationTaskConfig{.config = {{"batches", 3}}, .timeout_s = 1.5};
}
void change(StoreOperation& value) {
  value = StoreOperation::compare_set;
}
void change(StoreOutcome& value) {
  value = StoreOutcome::timeout;
}

TEST(Messages, EveryFieldOfEveryMessageSurvivesTheWay) {
  for_each_message([](const auto& message) {
    using Message = std::decay_t<decltype(message)>;
    SCOPED_TRACE(Message::kType);
    Message changed;
    Message::visit(changed, [](const char*, auto& value) { change(value); });
    for (const Message& sent : {message, changed}) {
      const auto envelope = decode_head(encode_head(pack(sent, {.worker = {3}})));
      ASSERT_TRUE(envelope.ok()) << envelope.status();
      EXPECT_EQ(envelope->identity.worker, WorkerId{3});
      const auto received = unpack<Message>(*envelope);
      ASSERT_TRUE(received.ok()) << received.status();
      EXPECT_EQ(*received, sent);
    }
  });
}

TEST(Messages, AnEmptyBodyIsTheDefaultMessage) {
  for_each_message([](const auto& message) {
    Envelope envelope;
    envelope.type = message.kType;
    const auto received = unpack<std::decay_t<decltype(message)>>(envelope);
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(*received, message);
  });
}

TEST(Messages, TheDocumentSaysWhoSpeaksEachOfThem) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "../../docs/architecture/messages.md";
  std::ifstream document(path);
  ASSERT_TRUE(document) << path;
  std::string table;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("| ")) table += line;
  }
  for_each_message([&table](const auto& message) {
    const std::string name = "`" + std::string(message.kType) + "`";
    EXPECT_NE(table.find(name), std::string::npos) << name;
  });
}

TEST(Messages, NamesAreUnique) {
  std::set<std::string> names;
  for_each_message([&](const auto& message) { EXPECT_TRUE(names.insert(message.kType).second) << message.kType; });
}

}  // namespace
}  // namespace paceline::rpc
