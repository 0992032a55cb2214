// Batches reach the GPU beside what it computes, and nobody reads one before it is whole.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <thread>

#include "paceline/loader/device.h"
#include "tests/gpu/gpu_fixture.h"

namespace {

using paceline::testing::Gpu;

/// Row i is 256 KiB that all say i.
class LargeRows : public torch::data::datasets::Dataset<LargeRows> {
 public:
  torch::data::Example<> get(size_t row) override {
    return {torch::full({65'536}, static_cast<float>(row)), torch::tensor(static_cast<int64_t>(row))};
  }
  std::optional<size_t> size() const override { return 320; }
};

/// About a second of work on an H200's float32 units, queued on the current stream.
void compute_for_a_while(const torch::Tensor& matrix) {
  for (int i = 0; i < 400; ++i) torch::mm(matrix, matrix);
}

TEST_F(Gpu, BatchesAreWholeWhenTheyAreComputedWith) {
  const torch::Tensor matrix = torch::randn({4096, 4096}, device_);
  for (const bool pin_memory : {true, false}) {
    for (const int64_t num_workers : {0, 1, 3}) {
      paceline::DataLoader loader(LargeRows(), {.batch_size = 16, .num_workers = num_workers, .pin_memory = pin_memory},
                                  {.device = device_});
      torch::Tensor wrong = torch::zeros({}, torch::dtype(torch::kInt64).device(device_));
      int64_t batches = 0;
      for (auto& [rows, labels] : loader) {
        ASSERT_EQ(rows.device(), device_);
        torch::mm(matrix, matrix);  // the loader is ahead: batches are freed while what reads them still waits
        wrong += rows.ne(labels.unsqueeze(1)).sum();
        ++batches;
      }
      EXPECT_EQ(batches, 20);
      EXPECT_EQ(wrong.item<int64_t>(), 0) << num_workers << " threads, pinned: " << pin_memory;
    }
  }
}

/// Draws on the GPU, from no generator that it names.
struct NoiseOnGpu {
  size_t size() const { return 12; }
  torch::Tensor get(size_t) {
    return torch::cat({torch::rand({2}, device), torch::dropout(torch::ones({8}, device), 0.5, true)});
  }
  torch::Device device;
};

TEST_F(Gpu, DrawsOnItDependOnTheRow) {
  torch::manual_seed(1);
  const torch::Tensor wanted = torch::rand({1}, device_);
  torch::manual_seed(1);
  std::vector<torch::Tensor> epochs;
  for (const int64_t num_workers : {0, 3}) {
    paceline::DataLoader loader(NoiseOnGpu{.device = device_}, {.batch_size = 2, .num_workers = num_workers});
    std::vector<torch::Tensor> batches;
    for (const auto& batch : loader) batches.push_back(batch.cpu());
    epochs.push_back(torch::cat(batches));
  }
  EXPECT_TRUE(torch::equal(epochs.at(0), epochs.at(1))) << epochs.at(0) << epochs.at(1);
  const torch::Tensor dropped = epochs.at(0).slice(1, 2);
  EXPECT_TRUE(((dropped == 0) | (dropped == 2)).all().item<bool>()) << dropped;
  EXPECT_TRUE(torch::equal(torch::rand({1}, device_), wanted)) << "the train loop's numbers are its own";
}

TEST_F(Gpu, CopiesRunBesideWhatComputes) {
  const torch::Tensor matrix = torch::randn({4096, 4096}, device_);
  const paceline::loader::DeviceCopy copy(device_, /*pin_memory=*/true);
  const torch::Tensor values = torch::arange(1'000'000);
  const auto copied = [&](std::vector<torch::Tensor>& batch) {
    std::shared_ptr<c10::Event> event;
    std::thread([&] { event = copy.start(batch); }).join();
    return event;
  };
  {
    std::vector<torch::Tensor> first = {values};  // allocating memory waits for the GPU; a second copy finds it there
    copied(first);
    torch::mm(matrix, matrix);
    torch::cuda::synchronize();
  }
  compute_for_a_while(matrix);
  c10::Event computed(torch::kCUDA);
  computed.record(c10::impl::VirtualGuardImpl(torch::kCUDA).getStream(device_));
  std::vector<torch::Tensor> batch = {values};
  const auto event = copied(batch);
  event->synchronize();
  EXPECT_FALSE(computed.query()) << "the copy has waited for what was being computed";
  copy.wait_for(batch, event.get());
  EXPECT_TRUE(torch::equal(batch.front(), values.to(device_)));
}

}  // namespace
