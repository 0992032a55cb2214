#include "paceline/controller/run_books.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <functional>
#include <stdexcept>

#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ranks that are nobody: keeps what the books ask for.
class Nobody final : public Crew {
 public:
  void execute(const policy::EnterState&) override {}
  void execute(const policy::StartWorker& action) override { workers.push_back(action.worker); }
  void execute(const policy::AssignWorkers&) override {
    if (throws_at_assignment) throw std::runtime_error("no room");
  }
  void execute(const policy::EndWorker& action) override { ended.push_back(action.reason); }
  void execute(const policy::CloseGroup&) override {}
  void publish(PublishJob job) override {
    const int64_t report = job.about.report;
    publish_jobs.push_back(std::move(job));
    if (publishes_at_once) publishes_at_once(report);
  }
  void execute(const policy::DeleteCheckpoint&) override { did.emplace_back("delete"); }
  void execute(const policy::TellCommitted&) override { did.emplace_back("tell"); }
  void execute(const policy::StartValidation&) override {}
  void execute(const policy::EndValidation&) override {}
  void execute(const policy::SetTimer&) override {}

  bool throws_at_assignment = false;
  std::function<void(int64_t report)> publishes_at_once;  // as the calling process does
  std::vector<WorkerId> workers;
  std::vector<std::string> ended;
  std::vector<PublishJob> publish_jobs;
  std::vector<std::string> did;  // about checkpoints
};

// While it lives no file of this process grows.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

class RunBooksTest : public ::testing::Test {
 protected:
  RunBooksTest() {
    request_.run_folder = request_.location = folder_.path();
    request_.run_config.name = "books";
    request_.run_config.quiet = true;
    request_.run_config.log_level = "ERROR";
    books_ = RunBooks::open(request_, clock_, [](const std::string&) {}).ValueOrDie();
  }

  void begin() { ASSERT_TRUE(books_->begin(options_, crew_).ok()); }
  void train() {
    begin();
    books_->feed(policy::NodeJoined{{.name = "node"}});
    books_->feed(policy::WorkerJoined{crew_.workers.at(0), 1});
  }
  void leave() {
    books_->finish(books_->state().workers.at(crew_.workers.at(0)), {});
    books_->feed(policy::WorkerExited{.worker = crew_.workers.at(0)});
  }

  testing::TemporaryFolder folder_;
  SystemClock clock_;
  RunRequest request_;
  policy::RunOptions options_{.num_workers = 1};
  Nobody crew_;
  std::unique_ptr<RunBooks> books_;
};

TEST_F(RunBooksTest, ARunGoesFromItsFirstEventToItsOutcome) {
  train();
  books_->report(0, {.index = 1, .metrics = {{"loss", 0.5}}});
  EXPECT_EQ(books_->shown_metrics(), Json({{"loss", 0.5}}));
  leave();
  EXPECT_EQ(books_->close().state, FinalState::finished);
  EXPECT_EQ(run::replay(folder_.path()).ValueOrDie()->state, policy::State::finished);
}

// Callbacks hear of a report with its checkpoint once the journal and the workers have, and before retention deletes
// it.
TEST_F(RunBooksTest, CallbacksHearOfACheckpointBetweenTheWorkersAndItsDeletion) {
  class LooksAtTheJournal : public UserCallback {
   public:
    LooksAtTheJournal(std::string folder, std::vector<std::string>& did) : did_(did), folder_(std::move(folder)) {}
    void after_report(const RunContext&, const std::vector<Metrics>&, const Checkpoint* checkpoint) override {
      if (checkpoint == nullptr) return;
      did_.emplace_back("callback");
      known = run::replay(folder_).ValueOrDie()->checkpoints;
    }
    PublishedCheckpoints known;

   private:
    std::vector<std::string>& did_;
    const std::string folder_;
  };
  const auto callback = std::make_shared<LooksAtTheJournal>(folder_.path(), crew_.did);
  request_.run_config.callbacks = {callback};
  crew_.publishes_at_once = [this](int64_t report) {
    checkpoint::Published published;
    published.report = report;
    published.name = checkpoint::folder_name("", report);
    books_->settle(report, published);
  };
  options_.checkpoint_config.num_to_keep = 1;
  train();
  books_->report(0, {.index = 1, .has_checkpoint = true, .staged = ".staging/1"});
  books_->report(0, {.index = 2, .has_checkpoint = true, .staged = ".staging/2"});
  EXPECT_THAT(crew_.did, ElementsAre("tell", "callback", "tell", "callback", "delete"));
  ASSERT_FALSE(callback->known.empty());
  EXPECT_EQ(callback->known.back().report, 2);
}

TEST_F(RunBooksTest, ACrewThatThrowsDoesNotHoldBackTheEnd) {
  crew_.throws_at_assignment = true;
  EXPECT_THROW(train(), std::runtime_error);
  books_->feed(
      policy::WorkerFailed{.worker = crew_.workers.at(0), .exception = "std::runtime_error", .text = "no room"});
  books_->feed(policy::WorkerExited{.worker = crew_.workers.at(0)});
  const RunOutcome outcome = books_->close();
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("no room"));
}

TEST_F(RunBooksTest, ARunThatIsLeftInTheMiddleHasNotFinished) {
  train();
  const RunOutcome outcome = books_->close();
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("running"));
}

TEST_F(RunBooksTest, AnEndThatCannotBeWrittenIsAnError) {
  train();
  books_->finish(books_->state().workers.at(crew_.workers.at(0)), {});
  {
    const FullDisk disk;
    books_->feed(policy::WorkerExited{.worker = crew_.workers.at(0)});
  }
  EXPECT_EQ(books_->state().state, policy::State::finished);
  const RunOutcome outcome = books_->close();
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("could not be written to the end"));
}

}  // namespace
}  // namespace paceline::controller
