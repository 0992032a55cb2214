// Trains a VisionTransformer on CIFAR-10 that it reads from Parquet files, through a dataset of Paceline's.
//
// The program makes the files once, of the photographs that 030 reads too. A dataset says where rows come from and what
// is done to them: here Arrow filters by label, and a function of tensors makes numbers of pixels. Workers read it in
// an order that depends on seed and epoch alone. Reported checkpoints say how far they are, so that a run that was
// interrupted goes on in the middle of an epoch, with any number of workers.
#include <paceline/paceline.h>
#include <CLI/CLI.hpp>

#include <arrow/type.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "examples/help.h"
#include "examples/vision/cifar10.h"
#include "examples/vision/evaluate.h"
#include "examples/vision/vision_transformer.h"

namespace {

namespace compute = arrow::compute;
using paceline::data::Dataset;

constexpr int64_t kReportEvery = 20;  // steps

/// What the train loop gets in each step.
PACELINE_BATCH(Photographs, image, label);

/// From bytes to numbers between -1 and 1.
paceline::TensorBatch normalize(paceline::TensorBatch batch) {
  batch["image"] = batch.at("image").to(torch::kFloat32).mul_(2.0F / 255.0F).sub_(1.0F);
  return batch;
}
PACELINE_MAP_BATCHES(normalize);

paceline::Json train_loop(const paceline::Config& config) {
  const auto epochs = config.get<int64_t>("epochs");
  const int64_t batch_size = config.get<int64_t>("batch_size") / paceline::get_context().get_world_size();

  torch::manual_seed(0);
  auto model = paceline::prepare_model(VisionTransformer());
  paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  if (auto checkpoint = paceline::get_checkpoint()) checkpoint->load(model, optimizer);

  auto shard = paceline::get_dataset_shard("train");  // goes on where the checkpoint was reported
  auto test_shard = paceline::get_dataset_shard("test");
  const auto test_batches = test_shard.iter_batches<Photographs>({.batch_size = batch_size, .evaluation = true});
  while (shard.epoch() < epochs) {
    const int64_t epoch = shard.epoch();
    int64_t step = 0;
    torch::Tensor loss;
    for (auto& [image, label] : shard.iter_batches<Photographs>({.batch_size = batch_size, .prefetch_batches = 2})) {
      optimizer.zero_grad();
      loss = torch::cross_entropy_loss(model->forward(image), label);
      loss.backward();
      optimizer.step();
      if (++step % kReportEvery == 0) {
        paceline::report({{"epoch", epoch}, {"loss", loss.item<double>()}},
                         paceline::Checkpoint::save(model, optimizer), {.reduce = "mean"});
      }
    }
    const Evaluation test = evaluate(model, test_batches);
    paceline::report({{"epoch", epoch}, {"test_loss", test.loss}, {"accuracy", test.accuracy}},
                     paceline::Checkpoint::save(model, optimizer));
  }
  return shard.stats();
}
PACELINE_TRAIN_LOOP(train_loop);

struct Options {
  int64_t num_workers = 2;
  int64_t epochs = 1;
  bool use_gpu = false;
  int64_t batch_size = 128;
  int64_t classes = 10;
  int64_t train_images = 50'000;
  std::optional<std::string> name;
  std::string data = "data";
  std::string storage_path = "results";
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a VisionTransformer on CIFAR-10 in Parquet files.");
  app.formatter(std::make_shared<PlainHelp>());
  app.add_option("--num-workers", options.num_workers, "worker processes")
      ->check(CLI::Range(int64_t{1}, int64_t{512}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the photographs")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  app.add_flag("--use-gpu", options.use_gpu, "one GPU for each worker");
  app.add_option("--batch-size", options.batch_size, "photographs in each step, of all workers together")
      ->check(CLI::Range(int64_t{1}, int64_t{50'000}))
      ->capture_default_str();
  app.add_option("--classes", options.classes, "kinds of things, of the ten that there are")
      ->check(CLI::Range(int64_t{2}, int64_t{10}))
      ->capture_default_str();
  app.add_option("--train-images", options.train_images, "photographs to train on")
      ->check(CLI::Range(int64_t{1}, int64_t{50'000}))
      ->capture_default_str();
  app.add_option("--name", options.name, "name of the run; the name of an unfinished run continues it");
  app.add_option("--data", options.data, "folder of the photographs, which are fetched if missing")
      ->capture_default_str();
  app.add_option("--storage-path", options.storage_path, "folder of the runs")->capture_default_str();
  try {
    app.parse(argc, argv);
    if (options.batch_size % options.num_workers != 0) {
      throw CLI::ValidationError("--num-workers", "a batch of " + std::to_string(options.batch_size) +
                                                      " photographs cannot be shared out to " +
                                                      std::to_string(options.num_workers) + " workers equally");
    }
  } catch (const CLI::ParseError& error) {
    explain(app, error);
  }
  return options;
}

/// The photographs in Parquet files, which are made if they are missing. Under another name first: a folder that is
/// there is whole.
Dataset photographs(const std::string& data, const std::string& part) {
  const std::filesystem::path folder = std::filesystem::path(data) / "cifar-10-parquet" / part;
  if (!std::filesystem::exists(folder)) {
    const std::filesystem::path unfinished = folder.string() + ".unfinished";
    std::filesystem::remove_all(unfinished);
    const Cifar10 originals(data, /*train=*/part == "train");
    paceline::from_torch({{"image", originals.pixels()}, {"label", originals.labels()}})
        .repartition(10)
        .write_parquet(unfinished.string());
    std::filesystem::rename(unfinished, folder);
  }
  return paceline::data::read_parquet(folder.string());
}

/// Those of the first `classes` kinds.
Dataset of_classes(const Dataset& dataset, int64_t classes) {
  if (classes == 10) return dataset;
  return dataset.filter(compute::less(compute::field_ref("label"), compute::literal(classes)));
}

/// The program's exit code: 0 only for a run that has finished.
int run(const Options& options) {
  const Dataset all = photographs(options.data, "train");
  std::cout << all.count() << " photographs in " << all.num_blocks() << " blocks, " << all.size_bytes() / 1'000'000
            << " MB\n"
            << all.schema()->ToString() << "\n\n";
  const Dataset train = of_classes(all.limit(options.train_images), options.classes)
                            .random_shuffle({.seed = 1})
                            .map_batches(normalize, {.udf_modifying_row_count = false});
  const Dataset test = of_classes(photographs(options.data, "test"), options.classes)
                           .map_batches(normalize, {.udf_modifying_row_count = false});
  std::cout << train.explain() << "\n";

  paceline::TorchTrainer trainer(train_loop,
                                 {.train_loop_config = {{"epochs", options.epochs}, {"batch_size", options.batch_size}},
                                  .scaling_config = {.num_workers = options.num_workers, .use_gpu = options.use_gpu},
                                  .run_config = {.name = options.name, .storage_path = options.storage_path},
                                  .datasets = {{"train", train}, {"test", test}}});
  const paceline::Result result = trainer.fit();
  if (result.state != "finished") {
    std::cerr << "the run is " << result.state << "; with the same --name it goes on\n";
    return result.exit_code();
  }
  std::cout << "\nWhat rank 0 has read:\n" << result.return_value.get<std::string>();
  std::cout << "named " << 100 * result.metrics.get<double>("accuracy") << " % of " << test.count()
            << " unseen photographs rightly\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    paceline::init(argc, argv);
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "060_vision_transformer_datasets: " << error.what() << "\n";
    return 1;
  }
}
