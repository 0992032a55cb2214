// checkpoint_write: MB/s of a checkpoint of 1 GB from memory to the local disk, synced, beside dd with fsync. The two
// alternate.
#include <cstdlib>
#include <filesystem>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

namespace {

constexpr int64_t kMegabytes = 1024;

double rate(int64_t start_ns) {
  return kMegabytes * 1048576.0 / 1e6 / (static_cast<double>(now_ns() - start_ns) / 1e9);
}

}  // namespace

void train_loop(const paceline::Config& config) {
  const bool measures = paceline::get_context().get_world_rank() == 0;
  const auto model = model_of(measures ? kMegabytes : 4);
  const std::string file = config.get<std::string>("scratch") + "/dd";
  const std::string dd =
      "dd if=/dev/zero of=" + file + " bs=1M conv=fsync status=none count=" + std::to_string(kMegabytes);
  std::vector<double> ours, theirs;
  for (int64_t step = 0; step < config.get<int64_t>("iterations"); ++step) {
    int64_t start_ns = now_ns();
    paceline::report({{"step", step}}, paceline::Checkpoint::save(model));
    ours.push_back(rate(start_ns));
    if (measures) {
      start_ns = now_ns();
      // NOLINTNEXTLINE(bugprone-command-processor): a command of its own
      if (std::system(dd.c_str()) != 0) throw std::runtime_error("dd failed");
      theirs.push_back(rate(start_ns));
      std::filesystem::remove(file);
    }
    paceline::barrier();
  }
  write_rank(config, {{"samples", ours}, {"peers", {{"dd with fsync", theirs}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
