// Train loops that report: uploads of every kind, own files, uneven and validated reports.
#include <paceline/paceline.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "tests/robustness/train_loops.h"

namespace {

using paceline::Checkpoint;
using paceline::Config;
using paceline::testing::is_rank;
using paceline::testing::name_of;

// report() returns when the checkpoint is published, as it does where the run is in an object store.
void sees_its_checkpoints() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 5; ++step) {
    paceline::report({{"step", step}}, Checkpoint::save(model));
    const auto seen = paceline::get_checkpoint();
    if (!seen || name_of(*seen) != "checkpoint_00000" + std::to_string(step)) {
      throw std::runtime_error("the checkpoint of step " + std::to_string(step) + " is not there yet");
    }
    seen->load(model);
  }
}
PACELINE_TRAIN_LOOP(sees_its_checkpoints);

// Until somebody kills it.
void publish_and_wait() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  paceline::report({{"step", 1}}, Checkpoint::save(model));
  std::printf("%s is published\n", name_of(*paceline::get_checkpoint()).c_str());
  std::fflush(stdout);
  while (true) ::pause();
}
PACELINE_TRAIN_LOOP(publish_and_wait);

void uneven_reports() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  const int64_t reports = is_rank(0) ? 3 : 2;
  for (int64_t step = 1; step <= reports; ++step) paceline::report({{"step", step}}, Checkpoint::save(model));
}
PACELINE_TRAIN_LOOP(uneven_reports);

void save_on_rank_zero_only() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  std::optional<Checkpoint> checkpoint;
  if (is_rank(0)) checkpoint = Checkpoint::save(model);
  paceline::report({{"step", 1}}, checkpoint);
}
PACELINE_TRAIN_LOOP(save_on_rank_zero_only);

void own_files(const Config& config) {
  const std::string folder =
      config.get<std::string>("scratch") + "/rank_" + std::to_string(paceline::get_context().get_world_rank());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/whole_model.txt") << "model of rank " << paceline::get_context().get_world_rank();
  std::ofstream(folder + "/only_" + std::to_string(paceline::get_context().get_world_rank()) + ".txt") << "part";
  paceline::report({{"step", 1}}, Checkpoint::from_directory(folder));
}
PACELINE_TRAIN_LOOP(own_files);

void reports_twice() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  const auto checkpoint = Checkpoint::save(model);
  paceline::report({{"step", 1}}, checkpoint);
  paceline::report({{"step", 2}}, checkpoint);
}
PACELINE_TRAIN_LOOP(reports_twice);

// Saves that are never reported must not pile up.
paceline::Json saves_in_vain() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int i = 0; i < 5; ++i) Checkpoint::save(model);
  if (!is_rank(0)) return {};  // rank 0 writes
  int64_t folders = 0;
  const std::string staging = paceline::get_context().get_storage() + "/.staging";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(staging)) {
    if (entry.is_directory() && entry.path().filename().string().rfind("report_", 0) == 0) ++folders;
  }
  return folders;
}
PACELINE_TRAIN_LOOP(saves_in_vain);

// Rank 0 must be able to make all its reports before rank 1 makes its first.
void slow_peer(const Config& config) {
  const std::string marker = config.get<std::string>("scratch") + "_rank_0_is_done";
  if (is_rank(0)) {
    for (int64_t step = 1; step <= 1000; ++step) paceline::report({{"step", step}});
    std::ofstream(marker) << "done";
    return;
  }
  for (int i = 0; !std::filesystem::exists(marker); ++i) {
    if (i == 30'000) throw std::runtime_error("rank 0 was held up");
    ::usleep(1000);
  }
  paceline::report({{"step", 1}});
}
PACELINE_TRAIN_LOOP(slow_peer);

// Every way to hand over files, different on the ranks, and metrics between them.
void mixed_uploads(const Config& config) {
  using enum paceline::CheckpointUploadMode;
  auto model = paceline::prepare_model(torch::nn::Linear(64, 64));
  const std::string rank = std::to_string(paceline::get_context().get_world_rank());
  const auto folder = [&](const std::string& path) {
    std::filesystem::create_directories(path);
    std::ofstream(path + "/rank_" + rank + ".txt") << rank;
    return Checkpoint::from_directory(path);
  };
  int64_t folders = 0;  // an upload may be under way: each has a folder of its own
  const auto local = [&] { return config.get<std::string>("scratch") + "_" + rank + "_" + std::to_string(++folders); };
  const std::string storage = paceline::get_context().get_storage();
  for (int64_t round = 0; round < 3; ++round) {
    paceline::report({{"round", round}}, Checkpoint::async_save(model), {.checkpoint_upload_mode = async});
    paceline::report({{"round", round}});
    paceline::report({{"round", round}}, Checkpoint::save(model),
                     {.checkpoint_upload_mode = is_rank(0) ? sync : async});
    paceline::report({{"round", round}}, folder(local()), {.checkpoint_upload_mode = is_rank(0) ? async : sync});
    const std::string name = "mine_" + std::to_string(round);
    paceline::report({{"round", round}}, folder(is_rank(0) ? storage + "/" + name : local()),
                     {.checkpoint_upload_mode = is_rank(0) ? no_upload : async, .checkpoint_dir_name = name});
  }
  const auto all = paceline::get_all_reported_checkpoints();
  if (all.size() != 12) throw std::runtime_error("there are " + std::to_string(all.size()) + " checkpoints");
}
PACELINE_TRAIN_LOOP(mixed_uploads);

// Checkpoints whose metrics are together more than the head of a message may be.
void large_metrics() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 3; ++step) {
    paceline::report({{"step", step}, {"text", std::string(size_t{7} << 20, 'x')}}, Checkpoint::save(model));
  }
  const auto all = paceline::get_all_reported_checkpoints();
  if (all.size() != 3) throw std::runtime_error("there are " + std::to_string(all.size()) + " checkpoints");
}
PACELINE_TRAIN_LOOP(large_metrics);

// Rank 0's upload fails while both ranks go on.
void failing_upload(const Config& config) {
  while (!is_rank(0)) paceline::barrier();
  const std::string local = config.get<std::string>("scratch") + "_local";
  std::filesystem::create_directories(local);
  paceline::report({{"step", 1}}, Checkpoint::from_directory(local),
                   {.checkpoint_upload_mode = paceline::CheckpointUploadMode::async,
                    .delete_local_checkpoint_after_upload = false,
                    .checkpoint_upload_fn = [](const Checkpoint&, const std::string&) -> Checkpoint {
                      throw std::runtime_error("quota exceeded");
                    }});
  for (;;) paceline::barrier();
}
PACELINE_TRAIN_LOOP(failing_upload);

// Reports whose checkpoints are validated: the third kills its process, the last takes too long.
paceline::Json validated() {
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 4; ++step) {
    paceline::ValidationTaskConfig task{.config = {{"step", step}}};
    if (step == 4) task.timeout_s = 0.5;
    paceline::report({{"step", step}}, Checkpoint::save(model), {.validation = task});
  }
  paceline::Json said = paceline::Json::array();
  for (const auto& one : paceline::get_all_reported_checkpoints()) {
    said.push_back(
        {one.metrics.get<int64_t>("step"), one.metrics.get<double>("bias", 0), static_cast<int>(one.status)});
  }
  return said;
}
PACELINE_TRAIN_LOOP(validated);

// Asks its checkpoint for more than it has.
void loads_in_vain() {
  torch::nn::Linear model(4, 2), another(4, 2);
  const auto checkpoint = paceline::get_checkpoint();
  std::printf("loading %s\n", checkpoint->path().c_str());
  checkpoint->load(model, another);
}
PACELINE_TRAIN_LOOP(loads_in_vain);

void one_report() {
  paceline::report({{"step", 1}});
}
PACELINE_TRAIN_LOOP(one_report);

}  // namespace
