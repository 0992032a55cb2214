// Which logs a run has, and their parts.
#include "paceline/views/log_streams.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/testing/temporary_folder.h"

namespace paceline::views {
namespace {

using ::testing::ElementsAre;

class LogStreams : public ::testing::Test {
 protected:
  LogStreams() {
    for (const char* name : {"worker_2.log", "worker_2.log.1", "worker_1.log", "data_1.log", "notes.txt"}) {
      testing::write_file(folder_ / ("logs/" + std::string(name)), std::string(name) + "\n");
    }
    testing::write_file(folder_ / "logs/controller.log", "one\ntwo\nThree\n");
    testing::write_file(folder_ / "secret.log", "secret\n");
    std::filesystem::create_symlink(folder_ / "secret.log", folder_ / "logs/link.log");
    record_.run.path = folder_.path();
    record_.workers = {{1, {1, 1, 0, "local", 11, "gone"}}, {2, {2, 2, 0, "local", 12, "training"}}};
  }
  LogPart part(const LogRange& range) { return read_log(folder_.path(), "controller", range).ValueOrDie(); }

  testing::TemporaryFolder folder_;
  track::RunRecord record_;
};

TEST_F(LogStreams, AreTheFilesOfTheFolder) {
  std::vector<std::string> names;
  const std::vector<LogStream> streams = log_streams(record_).ValueOrDie();
  for (const LogStream& stream : streams) names.push_back(stream.stream);
  EXPECT_THAT(names, ElementsAre("controller", "worker_1", "worker_2", "worker_2.1", "data_1"));
  EXPECT_EQ(streams[1].attempt, 1);
  EXPECT_EQ(streams[2].rank, 0);
  EXPECT_EQ(streams[2].size, 13);
  EXPECT_EQ(streams[4].worker, std::nullopt);
}

TEST_F(LogStreams, NoNameLeadsElsewhere) {
  for (const char* name : {"", ".", "..", "../secret", "link", "/etc/passwd", "..%2fsecret", "notes", "worker_2.log",
                           "controller\n", "worker_2.1.1", "controller/"}) {
    EXPECT_TRUE(read_log(folder_.path(), name, {}).status().IsKeyError()) << name;
  }
}

TEST_F(LogStreams, AreReadInWholeLines) {
  EXPECT_EQ(part({}), (LogPart{"one\ntwo\nThree\n", 0, 14, 14}));
  EXPECT_EQ(part({.limit = 6}), (LogPart{"one\n", 0, 4, 14}));
  EXPECT_EQ(part({.offset = 4, .limit = 6}), (LogPart{"two\n", 4, 8, 14}));
  EXPECT_EQ(part({.offset = 8, .limit = 3}), (LogPart{"Thr", 8, 11, 14})) << "a long line comes in parts";
  EXPECT_EQ(part({.offset = -8}), (LogPart{"Three\n", 8, 14, 14}));
  EXPECT_EQ(part({.before = 8}), (LogPart{"one\ntwo\n", 0, 8, 14}));
  EXPECT_EQ(part({.before = 8, .limit = 6}), (LogPart{"two\n", 4, 8, 14})) << "only whole lines";
  EXPECT_EQ(part({.before = 14, .limit = 3}), (LogPart{"ee\n", 11, 14, 14})) << "a long line comes in parts";
  EXPECT_EQ(part({.before = 0}), (LogPart{"", 0, 0, 14}));
  EXPECT_EQ(part({.before = 99}).next, 14);
  EXPECT_EQ(part({.offset = 14}), (LogPart{"", 14, 14, 14}));
  EXPECT_EQ(part({.offset = 99}), (LogPart{"", 14, 14, 14}));
  EXPECT_EQ(part({.offset = -99, .limit = 0}).text, "o") << "limits are kept within reason";
}

TEST_F(LogStreams, AreSearched) {
  EXPECT_EQ(part({.grep = "t"}), (LogPart{"two\nThree\n", 0, 14, 14}));
  EXPECT_EQ(part({.limit = 5, .grep = "T"}), (LogPart{"two\n", 0, 8, 14})) << "goes on with what did not fit";
  EXPECT_EQ(part({.grep = "four"}), (LogPart{"", 0, 14, 14}));
}

TEST_F(LogStreams, BytesThatAreNoTextAreReplaced) {
  testing::write_file(folder_ / "logs/controller.log", std::string("a\xff") + '\0' + "z\n");
  EXPECT_EQ(part({}).text, std::string("a\xEF\xBF\xBD") + '\0' + "z\n");
}

}  // namespace
}  // namespace paceline::views
