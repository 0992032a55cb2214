#include "paceline/controller/run_books.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <stdexcept>
#include <thread>

#include "paceline/checkpoint/stage.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"

namespace paceline::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
  void execute(const policy::StartDataProcess&) override {}
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

class CountsReports : public UserCallback {
 public:
  void after_report(const RunContext&, const std::vector<Metrics>&, const Checkpoint* checkpoint) override {
    told += checkpoint == nullptr ? "without " : "with ";
  }
  std::string told;
};

class RunBooksTest : public ::testing::Test {
 protected:
  RunBooksTest() {
    request_.run_folder = folder_.path();
    request_.location = folder_.path();
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

TEST_F(RunBooksTest, AFolderThatHasTakenTheRunsPlaceIsNotChanged) {
  train();
  const std::string moved = folder_.path() + "_moved";
  std::filesystem::rename(folder_.path(), moved);
  std::filesystem::create_directories(folder_ / "checkpoint_000001");  // of the next run of that name
  const arrow::Status removed = books_->store().remove("checkpoint_000001");
  EXPECT_TRUE(removed.IsCancelled());
  EXPECT_THAT(removed.message(), HasSubstr(folder_.path() + " was moved away"));
  EXPECT_TRUE(books_->store().collect_leftovers().IsCancelled());
  EXPECT_TRUE(std::filesystem::exists(folder_ / "checkpoint_000001"));
  std::filesystem::remove_all(folder_.path());
  std::filesystem::rename(moved, folder_.path());
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

// Rank 1 reports nothing: what rank 0 has made is on the disk all the same, and somebody is told.
TEST_F(RunBooksTest, AReportThatOneRankMakesIsOnTheDiskAndNamed) {
  options_.num_workers = 2;
  begin();
  books_->feed(policy::NodeJoined{{.name = "node"}});
  for (const WorkerId worker : crew_.workers) books_->feed(policy::WorkerJoined{worker, 1});
  books_->report(0, {.index = 1, .has_checkpoint = true, .staged = ".staging/1"});
  for (int64_t report = 2; report <= 17; ++report) books_->report(0, {.index = report, .metrics = {{"n", report}}});
  books_->flush();
  EXPECT_EQ(track::read_history(folder_.path())->size(), 17u);
  EXPECT_EQ(books_->shown_metrics(), Json({{"n", 17}}));
  EXPECT_TRUE(crew_.publish_jobs.empty());
  EXPECT_THAT(storage::read_file(folder_ / "logs/controller.log").ValueOrDie(),
              HasSubstr("rank 0 has made 17 reports, rank 1 has made 0: the checkpoint of report 1 is published when"));
}

// While a checkpoint is on its way, for minutes perhaps, what is reported meanwhile is shown and stored.
TEST_F(RunBooksTest, APublicationHoldsBackNoMetrics) {
  train();
  books_->report(0, {.index = 1, .has_checkpoint = true, .staged = ".staging/1"});
  books_->report(0, {.index = 2, .metrics = {{"n", 2}}});
  ASSERT_EQ(crew_.publish_jobs.size(), 1u);
  books_->flush();
  EXPECT_EQ(track::read_history(folder_.path())->size(), 2u);
  EXPECT_EQ(books_->shown_report(), 2);
}

// On a file system of which several machines have the folder: there were drivers with leases.
struct SharedFolderTest : RunBooksTest {
  SharedFolderTest() {
    books_.reset();
    claim(1, /*ended=*/true);
    request_.lease_renewal = std::chrono::milliseconds(1);
    books_ = RunBooks::open(request_, clock_, [this](const std::string& why) { lost.set_value(why); }).ValueOrDie();
  }
  void claim(int64_t generation, bool ended) {
    const std::string file = folder_ / ".lease/00000" + std::to_string(generation) + "_other";
    std::filesystem::create_directory(folder_ / ".lease");
    ASSERT_TRUE(
        storage::write_atomically(file, R"({"pid":7,"host":"other","ended":)" + std::string(ended ? "true}" : "false}"))
            .ok());
  }
  // By name, without claims.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> found;
    for (const std::string& name : storage::files_below(folder_.path()).ValueOrDie()) {
      if (!name.starts_with(".lease")) found[name] = storage::read_file(folder_ / name).ValueOrDie();
    }
    return found;
  }
  std::promise<std::string> lost;
};

TEST_F(SharedFolderTest, WhoHasLostItsLeaseChangesNothing) {
  train();
  books_->report(0, {.index = 1, .metrics = {{"n", 1}}});
  books_->flush();
  books_->report(0, {.index = 2, .metrics = {{"n", 2}}, .has_checkpoint = true, .staged = ".staging/2"});
  claim(9, /*ended=*/false);
  const std::string why = lost.get_future().get();
  EXPECT_THAT(why, HasSubstr("taken over by process 7 on host other"));
  const auto before = contents();
  books_->report(0, {.index = 3, .metrics = {{"n", 3}}});
  checkpoint::Published published;
  published.report = 2;
  published.name = checkpoint::folder_name("", 2);
  books_->settle(2, published);
  books_->flush();
  books_->feed(policy::StorageFailed{why});
  leave();
  EXPECT_EQ(books_->close().state, FinalState::errored);
  EXPECT_EQ(contents(), before);
  EXPECT_THAT(before.at("metrics.jsonl"), Not(HasSubstr("\"n\":3")));
}

// The loop, which is told of the loss by a message, may be busy for a while.
TEST_F(SharedFolderTest, WhatHasNotBeenWrittenWhenTheLeaseIsLostIsNotWritten) {
  train();
  books_->report(0, {.index = 1, .metrics = {{"n", 1}}});
  books_->flush();
  books_->report(0, {.index = 2, .metrics = {{"n", 2}}});
  claim(9, /*ended=*/false);
  lost.get_future().wait();
  const auto before = contents();
  books_.reset();
  EXPECT_EQ(contents(), before);
}

// Nobody has told it yet: it was stopped, as with SIGSTOP, and its lease is over by the clock.
TEST_F(SharedFolderTest, WhoWakesUpBehindASuccessorChangesNothing) {
  books_.reset();
  request_.lease_renewal = std::chrono::hours(1);
  request_.lease_takeover = std::chrono::seconds(2);
  books_ = RunBooks::open(request_, clock_, [](const std::string&) {}).ValueOrDie();
  train();
  const std::string stale = "checkpoint_000001/file";
  testing::write_file(folder_ / stale, "the successor's");
  checkpoint::Store store = books_->store();
  std::filesystem::remove_all(folder_ / ".lease");
  claim(1, /*ended=*/false);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (books_->is_ours() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(books_->is_ours());
  EXPECT_TRUE(store.remove("checkpoint_000001").IsCancelled());
  EXPECT_EQ(contents().count(stale), 1u);
  const auto before = contents();
  books_->feed(policy::StopRequested{.reason = "woken"});
  EXPECT_EQ(contents(), before);
}

TEST_F(SharedFolderTest, StagesHaveANameOfTheDriversOwn) {
  const std::string first = books_->own_staging_folder();
  EXPECT_NE(first, books_->staging_folder());
  EXPECT_TRUE(checkpoint::stage_of({.attempt = {1}, .worker = {1}}, 1, books_->storage_proof())
                  .starts_with(first.substr(folder_.path().size() + 1)));
  books_.reset();
  books_ = RunBooks::open(request_, clock_, [](const std::string&) {}).ValueOrDie();
  EXPECT_NE(books_->own_staging_folder(), first);
}

// A checkpoint whose upload takes long: a loop that reports every step goes on, and is seen to.
TEST_F(RunBooksTest, AnUploadHoldsBackNoMetrics) {
  train();
  books_->report(0, {.index = 1, .has_checkpoint = true, .uploading = true});
  for (int64_t report = 2; report <= 1000; ++report) books_->report(0, {.index = report, .metrics = {{"n", report}}});
  books_->flush();
  EXPECT_EQ(track::read_history(folder_.path())->size(), 1000u);
  EXPECT_EQ(books_->shown_report(), 1000);
  EXPECT_EQ(books_->held_up_by(), "");
  EXPECT_TRUE(crew_.publish_jobs.empty());
  EXPECT_TRUE(books_->waits_up_to(1));
  books_->uploaded(0, {.index = 1, .staged = ".staging/1"});
  ASSERT_EQ(crew_.publish_jobs.size(), 1u);
  EXPECT_EQ(crew_.publish_jobs[0].about.report, 1);
  EXPECT_EQ(crew_.publish_jobs[0].parts.at(0).staged, ".staging/1");
}

// The rank dies while it uploads: callbacks are told of the report, which has no checkpoint.
TEST_F(RunBooksTest, AnUploadThatNeverEndsHoldsNothingBackBehindItsGroup) {
  auto callback = std::make_shared<CountsReports>();
  request_.run_config.callbacks = {callback};
  books_ = RunBooks::open(request_, clock_, [](const std::string&) {}).ValueOrDie();
  train();
  books_->report(0, {.index = 1, .has_checkpoint = true, .uploading = true});
  books_->report(0, {.index = 2});
  EXPECT_EQ(callback->told, "");
  books_->feed(policy::WorkerExited{.worker = crew_.workers.at(0), .end = {.status = {.signal = 9}}});
  EXPECT_EQ(callback->told, "without without ");
  EXPECT_TRUE(crew_.publish_jobs.empty());
}

// As when another driver has taken it over.
struct AgainTest : RunBooksTest {
  void publish_as(int64_t report) {
    auto stage = checkpoint::Stage::create(folder_.path(), {.attempt = {1}, .worker = {1}}, report).ValueOrDie();
    const std::string staged = stage.finish().ValueOrDie();
    ASSERT_TRUE(checkpoint::Store(folder_.path()).publish({{0, staged}}, {.report = report}).ok());
  }
  // A run of which the journal knows checkpoints 1 and 2.
  void run_with_checkpoints() {
    crew_.publishes_at_once = [this](int64_t report) {
      publish_as(report);
      books_->settle(report, checkpoint::Store(folder_.path()).list().ValueOrDie().back());
    };
    train();
    for (const int64_t report : {1, 2}) {
      books_->report(0, {.index = report, .has_checkpoint = true, .staged = ".staging/x"});
    }
    leave();
    books_->close();
    books_.reset();
  }
  arrow::Result<std::unique_ptr<RunBooks>> open() {
    return RunBooks::open(request_, clock_, [](const std::string&) {});
  }
};

TEST_F(AgainTest, ACheckpointThatIsLostStopsTheRun) {
  run_with_checkpoints();
  std::filesystem::remove_all(folder_ / "checkpoint_000002");
  const arrow::Status refused = open().status();
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("knows the checkpoint " + folder_ / "checkpoint_000002"),
                                       HasSubstr("resume_from_checkpoint = \"" + folder_ / "checkpoint_000001\"")));
  request_.resume_from_checkpoint = "/models/pretrained";  // a constant of the user's program says nothing of it
  EXPECT_FALSE(open().ok());
  request_.resume_from_checkpoint = folder_ / "checkpoint_000001";
  EXPECT_TRUE(open().ok());
}

// Retention has deleted what the journal's last whole line knows.
TEST_F(AgainTest, AJournalThatLacksItsEndBehindADeletionStopsNothing) {
  run_with_checkpoints();
  publish_as(3);
  std::filesystem::remove_all(folder_ / "checkpoint_000001");
  std::filesystem::remove_all(folder_ / "checkpoint_000002");
  EXPECT_TRUE(open().ok());
}

TEST_F(AgainTest, AManifestThatCannotBeReadStopsTheRun) {
  run_with_checkpoints();
  const std::string manifest = folder_ / "checkpoint_000001/paceline_manifest.json";
  std::filesystem::remove(manifest);
  std::filesystem::create_directory(manifest);  // reading it is an error, also for root
  EXPECT_THAT(open().status().message(), HasSubstr("checkpoint_000001/paceline_manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "checkpoint_000002/paceline_manifest.json"));
}

// Somebody's backup beside them counts for nothing, and retention leaves it alone.
TEST_F(AgainTest, ACopyOfACheckpointIsNoneOfTheRuns) {
  run_with_checkpoints();
  std::filesystem::copy(folder_ / "checkpoint_000001", folder_ / "backup", std::filesystem::copy_options::recursive);
  std::filesystem::copy(folder_ / "checkpoint_000001", folder_ / "checkpoint_000009",
                        std::filesystem::copy_options::recursive);
  books_ = open().ValueOrDie();
  options_.checkpoint_config.num_to_keep = 1;
  begin();
  std::vector<int64_t> known;
  for (const auto& one : books_->state().checkpoints) known.push_back(one.report);
  EXPECT_THAT(known, Not(::testing::Contains(9)));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "backup/paceline_manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "checkpoint_000009/paceline_manifest.json"));
  EXPECT_EQ(books_->highest_report(), 2);
}

TEST_F(AgainTest, AnOlderOneThatIsLostIsAWarning) {
  run_with_checkpoints();
  std::filesystem::remove_all(folder_ / "checkpoint_000001");
  ASSERT_TRUE(open().ok());
  EXPECT_THAT(storage::read_file(folder_ / "logs/controller.log").ValueOrDie(),
              HasSubstr("knows the checkpoint " + folder_ / "checkpoint_000001"));
}

// The driver was killed between the publication and the line in the history.
TEST_F(AgainTest, ThePublishedCheckpointsLineIsRestored) {
  run_with_checkpoints();
  publish_as(3);
  auto again = open().ValueOrDie();
  ASSERT_TRUE(again->begin(options_, crew_).ok());
  again->flush();
  std::vector<std::string> lines;
  ASSERT_TRUE(track::visit_history(folder_.path(), [&](const track::HistoryRow& row) {
                if (!row.checkpoint.empty()) lines.push_back(row.checkpoint);
              }).ok());
  EXPECT_THAT(lines, ElementsAre("checkpoint_000001", "checkpoint_000002", "checkpoint_000003"));
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
