// Train loops that say what the functions of a session gave them: context, collectives, data loaders, return values.
#include <paceline/paceline.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace {

using paceline::Checkpoint;
using paceline::Config;

class Samples : public torch::data::Dataset<Samples> {
 public:
  explicit Samples(size_t size = 7) : size_(size) {}
  torch::data::Example<> get(size_t index) override {
    if (index >= size_) throw std::runtime_error("sample " + std::to_string(index) + " is torn");
    return {torch::ones({1}), torch::full({1}, static_cast<int64_t>(index))};
  }
  torch::optional<size_t> size() const override { return 7; }

 private:
  size_t size_;
};

void torn_sample() {
  auto loader = paceline::prepare_data_loader(Samples(3), {.batch_size = 1, .num_workers = 2});
  for (auto& batch : loader) (void)batch;
}
PACELINE_TRAIN_LOOP(torn_sample);

paceline::Json returning(const Config&) {
  return {{"answer", 42 + paceline::get_context().get_world_rank()}};
}
PACELINE_TRAIN_LOOP(returning);

// What each function gives, on rank 0 of two.
paceline::Json session_functions() {
  const auto rank = paceline::get_context().get_world_rank();
  const auto own = torch::tensor({rank + 1, 10 * (rank + 1)});
  const auto as_json = [](const torch::Tensor& tensor) {
    const auto flat = tensor.contiguous();
    return paceline::Json(std::vector<int64_t>(flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + 2));
  };
  double seen = 0;
  auto loader = paceline::prepare_data_loader(Samples(), {.batch_size = 2, .evaluation = true});
  for (auto& [inputs, targets] : loader) seen += inputs.sum().item<double>();
  for (int i = 0; i < 3; ++i) paceline::barrier();
  paceline::Json said = paceline::Json::array();
  for (int i = 0; i < 3; ++i) said.push_back(paceline::broadcast_from_rank_zero({{"rank", rank}, {"turn", i}}));
  // Rank 1 tells what it heard.
  const bool heard = said[2] == paceline::Json({{"rank", 0}, {"turn", 2}});
  const auto heard_by = paceline::all_reduce(torch::tensor({heard ? 1 : 0}));
  const auto gathered = paceline::all_gather(own);
  return {{"sum", as_json(paceline::all_reduce(own))},
          {"max", as_json(paceline::all_reduce(own, paceline::ReduceOp::max))},
          {"own", as_json(own)},
          {"gathered", {as_json(gathered.at(0)), as_json(gathered.at(1))}},
          {"broadcast", as_json(paceline::broadcast(own, 1))},
          {"rows", paceline::all_reduce(torch::tensor({seen})).item<double>()},
          {"heard", heard_by.item<int64_t>()}};
}
PACELINE_TRAIN_LOOP(session_functions);

// In the calling processes of a torchrun group.
paceline::Json meets(const Config& config) {
  const auto rank = paceline::get_context().get_world_rank();
  const std::string marker = config.get<std::string>("scratch") + "_rank_1_has_come";
  if (rank == 1) {
    ::usleep(200'000);  // a barrier that does not wait is caught then
    std::ofstream(marker) << "here";
  }
  paceline::barrier();
  if (!std::filesystem::exists(marker)) throw std::runtime_error("the barrier did not wait");
  std::printf("rank %ld heard %s\n", static_cast<long>(rank),
              paceline::broadcast_from_rank_zero("rank " + std::to_string(rank)).dump().c_str());
  auto model = paceline::prepare_model(torch::nn::Linear(4, 2));
  for (int64_t step = 1; step <= 3; ++step) {
    paceline::report({{"ranks", rank + 1}, {"step", step}}, Checkpoint::save(model), {.reduce = "sum"});
  }
  paceline::report({{"ranks", rank + 1}}, std::nullopt, {.reduce = "sum"});
  return {{"rank", rank}};
}
PACELINE_TRAIN_LOOP(meets);

void world_size() {
  std::printf("world size %ld\n", static_cast<long>(paceline::get_context().get_world_size()));
}
PACELINE_TRAIN_LOOP(world_size);

}  // namespace
