#include <gmock/gmock.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>

#include "paceline/agent/agent.h"
#include "paceline/agent/fake_controller.h"
#include "paceline/agent/packages_internal.h"
#include "paceline/package/collect.h"
#include "paceline/rpc/memory_channel.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A driver with a folder of code.
class Code {
 public:
  Code() : cache_(package::Cache::open(folder_.path() + "/driver").ValueOrDie()) {
    ::setenv("XDG_CACHE_HOME", (folder_.path() + "/cache").c_str(), 1);
  }
  ~Code() { ::unsetenv("XDG_CACHE_HOME"); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  void write(const std::string& name, const std::string& text) {
    const fs::path file = fs::path(folder_.path()) / "code" / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  rpc::Packages collect(rpc::PackageUse use) {
    const auto package = package::collect({{folder_.path() + "/code", ""}}, {}, cache_).ValueOrDie();
    return {.packages = {{use, package.checksum, package.text_bytes}}};
  }
  std::string read(const rpc::PackageRead& wanted) const {
    return text_of(cache_.path_of(wanted.sha256))
        .substr(static_cast<size_t>(wanted.offset), static_cast<size_t>(wanted.bytes));
  }
  std::string path(const std::string& below) const { return folder_.path() + "/" + below; }

 private:
  const testing::TemporaryFolder folder_;
  const package::Cache cache_;
};

class AgentPackagesTest : public ::testing::Test {
 protected:
  std::unique_ptr<AgentPackages> make(const std::string& folder) {
    return std::make_unique<AgentPackages>(
        loop_, code_.path(folder),
        [this](const rpc::Envelope& message) { asked_.push_back(rpc::unpack<rpc::PackageRead>(message).ValueOrDie()); },
        [this] {
          ++times_done_;
          loop_.stop();
        });
  }
  // Answers until nothing is asked for, then waits for what is unpacked; gives how many answers that were.
  int serve(AgentPackages& packages) {
    int answers = 0;
    while (!asked_.empty()) {
      EXPECT_LE(asked_.size(), static_cast<size_t>(rpc::kPackageReadsAhead));
      const rpc::PackageRead wanted = asked_.front();
      asked_.pop_front();
      EXPECT_LE(wanted.bytes, rpc::kPackagePartBytes);
      packages.take(rpc::PackagePart{}, code_.read(wanted));
      ++answers;
    }
    const auto work = boost::asio::make_work_guard(loop_);
    loop_.restart();
    if (packages.are_awaited()) loop_.run();
    return answers;
  }
  rpc::StartProcess started(const AgentPackages& packages) {
    rpc::StartProcess start{.arguments = {"/elsewhere/train", "--epochs=3"},
                            .environment = {{"LD_LIBRARY_PATH", "/own"}, {"PYTHONPATH", "/own"}},
                            .directory = "/elsewhere"};
    packages.put_before(start);
    return start;
  }

  Code code_;
  boost::asio::io_context loop_;
  std::deque<rpc::PackageRead> asked_;
  int times_done_ = 0;
};

TEST_F(AgentPackagesTest, CodeComesInPieces) {
  const std::string large = std::string(size_t{3} << 20, 'x') + "end";
  code_.write("large.bin", large);
  code_.write("models/vit.py", "vit");
  code_.write("empty.py", "");
  const auto packages = make("agent");
  packages->take(code_.collect(rpc::PackageUse::directory));
  EXPECT_TRUE(packages->are_awaited());
  EXPECT_EQ(serve(*packages), 1 + 4 + 1 + 1);  // the list; four pieces of the large one
  EXPECT_FALSE(packages->are_awaited());
  EXPECT_EQ(packages->problem(), "");
  EXPECT_EQ(times_done_, 1);
  const rpc::StartProcess start = started(*packages);
  EXPECT_EQ(start.arguments.front(), "/elsewhere/train");
  EXPECT_EQ(text_of(start.directory + "/large.bin"), large);
  EXPECT_EQ(text_of(start.directory + "/models/vit.py"), "vit");
  EXPECT_TRUE(fs::exists(start.directory + "/empty.py"));
}

TEST_F(AgentPackagesTest, WhatThisMachineHasIsNotSentAgain) {
  code_.write("a.py", "a");
  code_.write("b.py", "b");
  const auto first = make("first");
  first->take(code_.collect(rpc::PackageUse::modules));
  EXPECT_EQ(serve(*first), 3);
  const auto second = make("second");
  second->take(code_.collect(rpc::PackageUse::modules));
  EXPECT_EQ(serve(*second), 0);
  EXPECT_EQ(started(*second).environment.at("PYTHONPATH"), code_.path("second/modules") + ":/own");
  code_.write("b.py", "changed");
  const auto third = make("third");
  third->take(code_.collect(rpc::PackageUse::modules));
  EXPECT_EQ(serve(*third), 2);  // the list, and what has changed
  EXPECT_EQ(text_of(code_.path("third/modules/b.py")), "changed");
}

TEST_F(AgentPackagesTest, AProgramIsStartedFromWhereItIs) {
  code_.write("bin/train", "program");
  code_.write("lib/libmine.so", "library");
  const auto packages = make("agent");
  packages->take(code_.collect(rpc::PackageUse::program));
  serve(*packages);
  const rpc::StartProcess start = started(*packages);
  EXPECT_THAT(start.arguments, ElementsAre(code_.path("agent/program/bin/train"), "--epochs=3"));
  EXPECT_EQ(start.environment.at("LD_LIBRARY_PATH"), code_.path("agent/program/lib") + ":/own");
  EXPECT_EQ(start.directory, "/elsewhere");
}

TEST_F(AgentPackagesTest, WrongContentsAreRefused) {
  code_.write("a.py", "right");
  const auto packages = make("agent");
  packages->take(code_.collect(rpc::PackageUse::directory));
  packages->take(rpc::PackagePart{}, code_.read(asked_.front()));
  packages->take(rpc::PackagePart{}, "wrong");
  EXPECT_FALSE(packages->are_awaited());
  EXPECT_THAT(packages->problem(), HasSubstr("SHA-256"));
  EXPECT_EQ(times_done_, 1);
}

TEST_F(AgentPackagesTest, TheDriversErrorIsTold) {
  const auto packages = make("agent");
  packages->take(rpc::Packages{.packages = {{rpc::PackageUse::directory, std::string(64, 'a'), 7}}});
  packages->take(rpc::PackagePart{.error = "the driver cannot read it"}, "");
  EXPECT_THAT(packages->problem(), HasSubstr("the driver cannot read it"));
}

// A whole agent: what is to be started before the code is there waits for it.
class AgentWithPackagesTest : public ProcessFixture {
 protected:
  void SetUp() override {
    code_.emplace();
    code_->write("train.py", "train");
    fs::create_directories(code_->path("agent"));
    ProcessFixture::SetUp();
    guardian_.emplace(Guardian::fork_now().ValueOrDie());
    auto [controller_end, agent_end] = rpc::make_memory_channels();
    agent_ =
        start_agent(std::move(agent_end), *guardian_, {.node = "here", .folder = code_->path("agent")}).ValueOrDie();
    controller_.emplace(std::move(controller_end));
    controller_->send(0, code_->collect(rpc::PackageUse::directory));
  }
  void TearDown() override {
    agent_.reset();
    controller_.reset();
    guardian_.reset();
    ProcessFixture::TearDown();
    code_.reset();
  }
  // Of the list, then of the file.
  void answer(size_t number) {
    const auto reads = controller_->wait_for_number<rpc::PackageRead>(0, number + 1);
    rpc::Envelope part = rpc::pack(rpc::PackagePart{});
    part.bytes = code_->read(reads.at(number));
    controller_->send(std::move(part));
  }

  std::optional<Code> code_;
  std::optional<Guardian> guardian_;
  std::unique_ptr<Agent> agent_;
  std::optional<FakeController> controller_;
};

TEST_F(AgentWithPackagesTest, ProcessesWaitForTheCode) {
  controller_->start(1, {"describe"});
  controller_->start(2, {"describe"});
  answer(0);
  EXPECT_TRUE(controller_->types(1).empty());
  controller_->send(2, rpc::EndProcess{});
  EXPECT_THAT(controller_->wait_for<rpc::ProcessStartFailed>(2).error, HasSubstr("ended before"));
  answer(1);
  controller_->wait_for_line(1, "directory " + code_->path("agent/directory"));
  controller_->wait_for<rpc::ProcessExited>(1);
}

TEST_F(AgentWithPackagesTest, AnEndOfTheAgentEndsTheWait) {
  controller_->start(1, {"describe"});
  answer(0);
  agent_->end();
  EXPECT_THAT(controller_->wait_for<rpc::ProcessStartFailed>(1).error, HasSubstr("is ending"));
  EXPECT_TRUE(agent_->wait().ok());
}

}  // namespace
}  // namespace paceline::agent
