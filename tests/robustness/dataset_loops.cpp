// A train loop that reads a dataset, and dies in the middle of an epoch.
#include <paceline/paceline.h>

#include <csignal>

namespace {

// What rank 0 got, in steps of six rows of all ranks, with a report behind each second one. Of two ranks one dies in
// the fifth step.
paceline::Json dataset_rows() {
  const auto context = paceline::get_context();
  auto shard = paceline::get_dataset_shard("train");
  torch::nn::Linear model(1, 1);
  paceline::Json seen = paceline::Json::array();
  int64_t step = 0;
  for (auto& batch : shard.iter_batches({.batch_size = 6 / context.get_world_size()})) {
    const torch::Tensor& id = batch.at("id");
    for (int64_t row = 0; row < id.size(0); ++row) seen.push_back(id[row].item<int64_t>());
    if (++step == 5 && context.get_world_size() == 2 && context.get_world_rank() == 1) std::raise(SIGKILL);
    if (step % 2 == 1) continue;
    paceline::report({{"step", step}}, paceline::Checkpoint::save(model));
    (void)paceline::get_checkpoint();  // it is published
  }
  return seen;
}
PACELINE_TRAIN_LOOP(dataset_rows);

}  // namespace
