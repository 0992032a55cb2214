#include "paceline/train/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/clock.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/train/checkpoint_state.h"
#include "paceline/train/join.h"
#include "paceline/train/prepare_data_loader.h"
#include "paceline/train/prepare_model.h"
#include "paceline/train/worker/language_runtime.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_refused(const std::string& function, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << function << " did not throw";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(function), HasSubstr("outside a train loop")));
  }
}

TEST(Session, OutsideAWorkerEachFunctionSaysSo) {
  const auto tensor = torch::ones({2});
  torch::nn::Linear model(2, 2);
  expect_refused("report()", [] { report({{"loss", 1}}); });
  expect_refused("get_context()", [] { get_context(); });
  expect_refused("get_checkpoint()", [] { get_checkpoint(); });
  expect_refused("get_all_reported_checkpoints()", [] { get_all_reported_checkpoints(); });
  expect_refused("get_device()", [] { get_device(); });
  expect_refused("barrier()", [] { barrier(); });
  expect_refused("broadcast_from_rank_zero()", [] { broadcast_from_rank_zero(1); });
  expect_refused("enable_reproducibility()", [] { enable_reproducibility(); });
  expect_refused("all_reduce()", [&] { all_reduce(tensor); });
  expect_refused("all_gather()", [&] { all_gather(tensor); });
  expect_refused("broadcast()", [&] { broadcast(tensor); });
  expect_refused("process_group()", [] { process_group(); });
  expect_refused("void_step()", [] { void_step(); });
  expect_refused("step_ledger()", [] { step_ledger(); });
  expect_refused("Checkpoint::save()", [&] { Checkpoint::save(model); });
  expect_refused("prepare_model()", [&] { prepare_model(model); });
  expect_refused("prepare_data_loader()", [] { train::loader_place(); });
  expect_refused("no_sync()", [&] { no_sync(model); });
  expect_refused("join()", [&] { join([] {}, model); });
}

class NoReports final : public train::ReportSink {
 public:
  void submit(rpc::Report) override {}
  bool takes_from_any_thread() const override { return true; }
  void fail(const std::exception_ptr&) override {}
  PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest&) override { return {}; }
  void show_progress(rpc::ProgressBar) override {}
};

TEST(Session, MetricsThatNothingCouldReadAgainAreRefused) {
  NoReports sink;
  train::SessionOptions options;
  options.sink = &sink;
  train::Session session(options);
  Json deep = 1;
  for (int level = 0; level < kDeepestJson - 10; ++level) deep = Json::array({deep});
  EXPECT_THROW(report({{"deep", deep}}), ConfigError);
}

TEST(Session, AVoidStepDropsTheGradientsOfEveryPreparedModel) {
  NoReports sink;
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  train::Session session(options);
  auto shared = prepare_model(torch::nn::Linear(2, 1));
  auto own = prepare_model(torch::nn::Linear(2, 1), {.parallel_strategy = "none"});
  (shared->forward(torch::ones({1, 2})) + own->forward(torch::ones({1, 2}))).sum().backward();
  ASSERT_TRUE(shared->weight.grad().defined());
  ASSERT_TRUE(own->weight.grad().defined());
  void_step();
  EXPECT_FALSE(shared->weight.grad().defined());
  EXPECT_FALSE(own->weight.grad().defined());
  EXPECT_TRUE(step_ledger()->is_void());
}

TEST(Session, LetsGoOfAModelWhoseHoldersAreGone) {
  NoReports sink;
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  train::Session session(options);
  for (const char* strategy : {"ddp", "none"}) {
    auto model = prepare_model(torch::nn::Linear(2, 1), {.parallel_strategy = strategy});
    model->forward(torch::ones({1, 2})).sum().backward();
    const c10::weak_intrusive_ptr<c10::TensorImpl> weight(model->weight.getIntrusivePtr());
    session.set_step(1);
    EXPECT_FALSE(weight.expired()) << strategy;
    model = nullptr;
    session.set_step(2);
    EXPECT_TRUE(weight.expired()) << strategy;
  }
}

// Counts its steps in `progress`.
train::SessionOptions options_with(Progress& progress, train::ReportSink& sink) {
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  options.progress = &progress;
  return options;
}

TEST(Session, StepsOfOptimizersCountWhereNoLoaderCounts) {
  NoReports sink;
  const SystemClock clock;
  Progress progress = Progress::create(clock).ValueOrDie();
  train::Session session(options_with(progress, sink));
  session.set_step(7);
  for (int step = 0; step < 1000; ++step) {
    train::count_step();  // one for each batch
    session.set_step(8 + step);
  }
  EXPECT_EQ(progress.step(), 1007);
  for (int step = 0; step < 150; ++step) train::count_step();  // its batches come from elsewhere now
  EXPECT_EQ(progress.step(), 1007 + 51);
}

TEST(Session, StepsOfALoaderThatIsValidatedWithAreNoMarks) {
  NoReports sink;
  const SystemClock clock;
  Progress progress = Progress::create(clock).ValueOrDie();
  const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
  train::Session session(options_with(progress, sink));
  const auto validate = [&] {
    const torch::NoGradGuard no_grad;
    for (int64_t batch = 1; batch < 9; ++batch) session.set_step(batch);
  };
  validate();
  EXPECT_EQ(reader.read(clock.monotonic()).marks, 8) << "it may be a loop that only infers";
  for (int step = 0; step < 5; ++step) train::count_step();
  validate();
  EXPECT_EQ(progress.step(), 8 + 3);
  EXPECT_EQ(reader.read(clock.monotonic()).marks, 0) << "the evaluations of such a loop may take as long as they like";
}

TEST(Session, AStepBeforeTheFirstBatchLeavesTheStepsToTheLoader) {
  NoReports sink;
  const SystemClock clock;
  Progress progress = Progress::create(clock).ValueOrDie();
  const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
  train::Session session(options_with(progress, sink));
  train::count_step();  // as torch's own that makes an optimizer's state
  for (int64_t step = 1; step < 9; ++step) {
    session.set_step(step);
    train::count_step();
  }
  EXPECT_EQ(progress.step(), 8);
  EXPECT_EQ(reader.read(clock.monotonic()).marks, 7);
}

TEST(Session, StepsDoNotGoBackWhenALoaderComesBack) {
  NoReports sink;
  const SystemClock clock;
  Progress progress = Progress::create(clock).ValueOrDie();
  train::Session session(options_with(progress, sink));
  session.set_step(1);
  for (int step = 0; step < 300; ++step) train::count_step();
  const int64_t before = progress.step();
  EXPECT_GE(before, 200);
  for (int64_t batch = 2; batch < 300; ++batch) {
    const int64_t shown = progress.step();
    session.set_step(batch);
    train::count_step();
    ASSERT_GE(progress.step(), shown);
    ASSERT_LE(progress.step(), shown + 1);
  }
}

TEST(Session, JoinsLoopsOfModelsThatItKnows) {
  NoReports sink;
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  const train::Session session(options);
  auto model = prepare_model(torch::nn::Linear(2, 1));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  int steps = 0;
  join([&] { ++steps; }, {.throw_on_early_termination = true}, model, optimizer);
  join([&] { ++steps; }, model);
  EXPECT_EQ(steps, 2);
  EXPECT_THROW(join([] {}, optimizer), UsageError);
  EXPECT_THROW(join([] {}, torch::nn::Linear(2, 1)), UsageError);
}

TEST(Session, ALoaderMayOutliveIt) {
  NoReports sink;
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  auto session = std::make_unique<train::Session>(options);
  const LoaderPlace place = train::loader_place();
  session->stop("the loop has returned");
  EXPECT_THROW(place.before_batch(), Stopped);
  session.reset();
  place.before_batch();
  place.after_batch();
}

// A session that stores its stages, and the user's folder that it reports.
struct Reporting {
  testing::TemporaryFolder run, user;
  NoReports sink;
  train::Session session{options()};

  train::SessionOptions options() {
    testing::write_file(user / "file", "weights");
    train::SessionOptions options;
    options.group = comm::Group::create({}, nullptr);
    options.sink = &sink;
    options.run_folder = run.path();
    options.timeout = std::chrono::milliseconds(20);
    return options;
  }
  void report_folder(CheckpointUploadMode mode) {
    const ReportOptions how{.checkpoint_upload_mode = mode, .delete_local_checkpoint_after_upload = false};
    report({}, Checkpoint::from_directory(user.path()), how);
  }
};

TEST(Session, TheCheckpointIsThatOfTheReportBefore) {
  Reporting rank;
  rank.report_folder(CheckpointUploadMode::sync);
  EXPECT_THROW(get_checkpoint(), CollectiveError) << "not all ranks have made the report";
  rank.session.set_checkpoint("/runs/a/checkpoint_000001", 1);
  EXPECT_EQ(get_checkpoint()->path(), "/runs/a/checkpoint_000001");
  report({{"loss", 1}});
  EXPECT_EQ(get_checkpoint()->path(), "/runs/a/checkpoint_000001") << "nothing to wait for";
}

TEST(Session, TheCheckpointDoesNotWaitForWhatIsUploadedInTheBackground) {
  Reporting rank;
  rank.report_folder(CheckpointUploadMode::async);
  EXPECT_FALSE(get_checkpoint());
}

TEST(Session, AStopEndsTheWaitForACheckpoint) {
  Reporting rank;
  rank.report_folder(CheckpointUploadMode::sync);
  rank.session.stop("enough");
  EXPECT_THROW(get_checkpoint(), Stopped);
}

TEST(Session, AStopComesOutOfReportsAndCollectives) {
  NoReports sink;
  train::SessionOptions options;
  options.group = comm::Group::create({}, nullptr);
  options.sink = &sink;
  train::Session session(options);
  session.stop("enough");
  EXPECT_THROW(report({{"loss", 1}}), Stopped);
  EXPECT_THROW(barrier(), Stopped);
  EXPECT_THROW(broadcast_from_rank_zero(1), Stopped);
  EXPECT_THROW(all_reduce(torch::ones({1})), Stopped);
  EXPECT_THROW(session.collective([] { throw CollectiveError("peer is gone", CollectiveCause::other_rank); }), Stopped);
}

}  // namespace
}  // namespace paceline
