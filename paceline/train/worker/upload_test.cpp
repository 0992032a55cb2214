// What report() does with a checkpoint's files, in every mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>

#include "paceline/checkpoint/store.h"
#include "paceline/core/run_layout.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/train/checkpoint_state.h"
#include "paceline/train/session.h"
#include "paceline/train/worker/session_internal.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// Keeps what was reported, and publishes it.
class Reports final : public train::ReportSink {
 public:
  void submit(rpc::Report report) override {
    const std::lock_guard lock(mutex_);
    reports_.push_back(std::move(report));
    changed_.notify_all();
  }
  void submit_files(rpc::CheckpointUploaded files) override {
    const std::lock_guard lock(mutex_);
    const auto made = std::ranges::find(reports_, files.index, &rpc::Report::index);
    made->staged = files.staged;
    made->uploading = false;
    changed_.notify_all();
  }
  bool takes_from_any_thread() const override { return true; }
  void fail(const std::exception_ptr& error) override { failed_.set_exception(error); }
  PublishedCheckpoints checkpoints(const rpc::CheckpointsRequest&) override { return {}; }
  void show_progress(rpc::ProgressBar) override {}

  // Waits for one that was not given yet, and its files; gives the last.
  rpc::Report next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reports_.size() > given_ && !reports_.back().uploading; });
    given_ = reports_.size();
    return reports_.back();
  }
  std::future<void> failure() { return failed_.get_future(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<rpc::Report> reports_;
  size_t given_ = 0;
  std::promise<void> failed_;
};

class Uploads : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(run());
    train::SessionOptions options;
    options.context = {.storage = run()};
    options.run_folder = run();
    options.identity = {.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}};
    options.group = comm::Group::create({}, nullptr);
    options.sink = &reports_;
    session_.emplace(options);
    testing::write_file(folder_ / "local/weights", "content");
  }

  std::string run() const { return folder_ / "run"; }
  std::string local() const { return folder_ / "local"; }
  Checkpoint own() const { return Checkpoint::from_directory(local()); }

  // As the controller, which tells the worker.
  checkpoint::Published publish() {
    auto finished = std::async(std::launch::async, [this] { session_->finish(); });
    const rpc::Report report = reports_.next();
    const auto published =
        checkpoint::Store(run())
            .publish({{.rank = 0, .staged = report.staged}}, {.report = report.index, .name = report.folder_name})
            .ValueOrDie();
    session_->set_checkpoint(published.path, report.index);
    finished.get();
    return published;
  }
  template <class Problem>
  std::string refusal(const Checkpoint& checkpoint, const ReportOptions& options) {
    try {
      report({{"loss", 1}}, checkpoint, options);
    } catch (const Problem& problem) {
      return problem.what();
    }
    return "accepted";
  }

  testing::TemporaryFolder folder_;
  Reports reports_;
  std::optional<train::Session> session_;
};

TEST_F(Uploads, AnotherRunsFolderUnderTheNameOfTheRunsGetsNothing) {
  fs::rename(run(), folder_ / "moved");
  fs::create_directory(run());
  EXPECT_THAT(refusal<StorageError>(own(), {}), HasSubstr("the run folder " + run() + " is gone"));
  EXPECT_TRUE(fs::is_empty(run()));
}

TEST_F(Uploads, AsynchronouslyTheLocalFolderGoesUnlessItIsToStay) {
  report({}, own(),
         {.checkpoint_upload_mode = CheckpointUploadMode::async, .delete_local_checkpoint_after_upload = false});
  publish();
  EXPECT_TRUE(fs::exists(local()));
  report({}, own(), {.checkpoint_upload_mode = CheckpointUploadMode::async});
  EXPECT_TRUE(checkpoint::verify(publish().path).ok());
  EXPECT_FALSE(fs::exists(local()));
}

TEST_F(Uploads, SynchronouslyTheLocalFolderStaysUnlessItIsToGo) {
  report({}, own());
  publish();
  EXPECT_TRUE(fs::exists(local()));
  // The loop may write into the same folder once report() has returned.
  auto reported =
      std::async(std::launch::async, [this] { report({}, own(), {.delete_local_checkpoint_after_upload = true}); });
  const rpc::Report made = reports_.next();
  EXPECT_TRUE(fs::exists(local())) << "who is killed now has no other copy";
  session_->set_checkpoint(run() + "/checkpoint_000002", made.index);
  reported.get();
  EXPECT_FALSE(fs::exists(local()));
}

TEST_F(Uploads, NothingInOrAroundTheRunsFolderIsDeleted) {
  const ReportOptions deletes = {.delete_local_checkpoint_after_upload = true};
  EXPECT_THAT(refusal<ConfigError>(Checkpoint::from_directory(run()), deletes), HasSubstr("holds the run's folder"));
  EXPECT_THAT(refusal<ConfigError>(Checkpoint::from_directory(folder_.path()), deletes),
              HasSubstr("holds the run's folder"));
  fs::create_directory_symlink(folder_.path(), folder_ / "link");
  EXPECT_THAT(refusal<ConfigError>(Checkpoint::from_directory(folder_ / "link/run/../run"), deletes),
              HasSubstr("holds the run's folder"));
  report({}, own());
  const Checkpoint published = CheckpointAccess::published(publish().path);
  EXPECT_THAT(refusal<ConfigError>(published, deletes), HasSubstr("in the run's folder"));
  report({}, published, {.checkpoint_upload_mode = CheckpointUploadMode::async});
  publish();
  EXPECT_TRUE(fs::exists(published.path())) << "a published checkpoint is not a local folder";
  EXPECT_THAT(refusal<ConfigError>(own(), {.checkpoint_upload_mode = CheckpointUploadMode::no_upload,
                                           .delete_local_checkpoint_after_upload = true}),
              HasSubstr("the checkpoint itself"));
}

TEST_F(Uploads, WhatIsInPlaceStaysThere) {
  testing::write_file(run() + "/best/deep/weights", "content");
  report({}, Checkpoint::from_directory(run() + "/best"), {.checkpoint_upload_mode = CheckpointUploadMode::no_upload});
  const auto published = publish();
  EXPECT_EQ(published.path, run() + "/best");
  EXPECT_TRUE(checkpoint::verify(published.path).ok());
  const auto list = checkpoint::Store(run()).list().ValueOrDie();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "best");
}

TEST_F(Uploads, WithoutUploadTheFilesMustBeInTheRunsFolder) {
  const ReportOptions no_upload = {.checkpoint_upload_mode = CheckpointUploadMode::no_upload};
  EXPECT_THAT(refusal<ConfigError>(own(), no_upload),
              AllOf(HasSubstr("no_upload is " + local()), HasSubstr(run()), HasSubstr("a file that says where")));
  testing::write_file(run() + "/logs/file", "content");
  EXPECT_THAT(refusal<ConfigError>(Checkpoint::from_directory(run() + "/logs"), no_upload),
              HasSubstr("a name of Paceline's own"));
  torch::nn::Linear model(2, 2);
  EXPECT_THAT(refusal<ConfigError>(Checkpoint::save(model), no_upload), HasSubstr("Checkpoint::save()"));
}

TEST_F(Uploads, AFunctionBringsTheFilesAwayInItsOwnWay) {
  torch::nn::Linear model(2, 2);
  for (const auto mode : {CheckpointUploadMode::sync, CheckpointUploadMode::async}) {
    const Checkpoint saved = Checkpoint::async_save(model);
    report({}, saved,
           {.checkpoint_upload_mode = mode, .checkpoint_upload_fn = [this](const Checkpoint& local, const auto& name) {
              fs::copy(local.path(), run() + "/" + name, fs::copy_options::recursive);
              return Checkpoint::from_directory(run() + "/" + name);
            }});
    const auto published = publish();
    EXPECT_EQ(published.name, run_layout::checkpoint_folder(published.report));
    torch::nn::Linear loaded(2, 2);
    CheckpointAccess::published(published.path).load(loaded);
    EXPECT_TRUE(torch::equal(loaded->weight, model->weight));
    EXPECT_FALSE(fs::exists(saved.path())) << "nobody needs the stage any more";
  }
}

TEST_F(Uploads, AFunctionThatReturnsAnotherPlaceIsRefused) {
  const auto stays = [](const Checkpoint& local, const std::string&) { return local; };
  EXPECT_THAT(refusal<ConfigError>(own(), {.checkpoint_upload_fn = stays}),
              AllOf(HasSubstr("checkpoint_upload_fn returned is " + local()), HasSubstr(run())));
}

TEST_F(Uploads, AFunctionThatThrowsOnItsThreadFailsTheAttemptAndStopsTheLoop) {
  auto failure = reports_.failure();
  std::promise<void> reported;
  const auto quota = [told = reported.get_future().share()](const Checkpoint&, const std::string&) -> Checkpoint {
    told.wait();
    throw std::runtime_error("quota exceeded");
  };
  report({}, own(), {.checkpoint_upload_mode = CheckpointUploadMode::async, .checkpoint_upload_fn = quota});
  reported.set_value();
  try {
    failure.get();
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("report 1"), HasSubstr("quota exceeded")));
  }
  EXPECT_THROW(session_->finish_uploads(), StorageError);
  EXPECT_TRUE(fs::exists(local()));
}

TEST_F(Uploads, ACheckpointHasTheNameThatItIsGiven) {
  report({}, own(), {.checkpoint_dir_name = "epoch 3"});
  EXPECT_EQ(publish().path, run() + "/epoch 3");
  for (const std::string name :
       {"a/b", ".hidden", "checkpoint_000007", "logs", "journal.jsonl", "metrics.jsonl", "records", "trackers", "hang",
        "artifacts", "wandb", "lease", "location", "tensorboard"}) {
    EXPECT_THAT(refusal<ConfigError>(own(), {.checkpoint_dir_name = name}), HasSubstr("\"" + name + "\"")) << name;
  }
}

TEST_F(Uploads, WhatIsSavedAsynchronouslyIsWhatTheModelWas) {
  torch::nn::Linear model(300, 300);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<torch::Tensor> weights;
  std::vector<checkpoint::Published> published;
  for (int64_t step = 0; step < 4; ++step) {
    weights.push_back(model->weight.detach().clone());
    report({}, Checkpoint::async_save(model, optimizer), {.checkpoint_upload_mode = CheckpointUploadMode::async});
    optimizer.zero_grad();
    model->forward(torch::ones({1, 300})).sum().backward();
    optimizer.step();
    published.push_back(publish());
  }
  for (size_t step = 0; step < weights.size(); ++step) {
    EXPECT_TRUE(checkpoint::verify(published[step].path).ok());
    torch::nn::Linear loaded(300, 300);
    CheckpointAccess::published(published[step].path).load(loaded);
    EXPECT_TRUE(torch::equal(loaded->weight, weights[step]));
  }
}

TEST_F(Uploads, TensorsOfAnyLayoutAreCopied) {
  struct Odd : torch::nn::Module {
    Odd() {
      register_buffer("transposed", torch::rand({3, 5}).t());
      register_buffer("empty", torch::empty({0, 4}));
      register_buffer("scalar", torch::tensor(true));
      register_buffer("halves", torch::rand({7}).to(torch::kBFloat16));
    }
  };
  const auto module = std::make_shared<Odd>();
  const Checkpoint saved = Checkpoint::async_save(module);
  const Checkpoint read = Checkpoint::from_directory(saved.path());  // waits for the files
  EXPECT_EQ(saved.get_metadata(), Json::object());
  report({}, saved);
  const auto loaded = std::make_shared<Odd>();
  CheckpointAccess::published(publish().path).load(loaded);
  for (const auto& buffer : module->named_buffers()) {
    EXPECT_TRUE(torch::equal(loaded->named_buffers()[buffer.key()], buffer.value())) << buffer.key();
  }
}

TEST_F(Uploads, AnAsynchronousSaveThatNobodyReportsIsReplaced) {
  torch::nn::Linear model(2, 2);
  const Checkpoint first = Checkpoint::async_save(model);
  const Checkpoint second = Checkpoint::async_save(model);
  EXPECT_FALSE(fs::exists(first.path()));
  EXPECT_THROW(report({}, first), UsageError);
  report({}, second);
  EXPECT_TRUE(checkpoint::verify(publish().path).ok());
}

}  // namespace
}  // namespace paceline
