// checkpoint_stall: milliseconds for which an asynchronous checkpoint of 256 MB holds up the step, beside one memcpy()
// of as many bytes. The two alternate while nothing is being written.
#include <cstring>
#include <vector>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kMegabytes = 256;
  const auto model = model_of(kMegabytes);
  std::vector<char> from(size_t{kMegabytes} << 20, 'x');
  std::vector<char> to(from.size());
  std::vector<double> stalls, copies;
  double first = 0;
  for (int64_t step = 0; step <= config.get<int64_t>("iterations"); ++step) {
    const int64_t copy_ns = now_ns();
    std::memcpy(to.data(), from.data(), from.size());
    const int64_t start_ns = now_ns();
    const auto checkpoint = paceline::Checkpoint::async_save(model);
    paceline::report({{"step", step}}, checkpoint, {.checkpoint_upload_mode = paceline::CheckpointUploadMode::async});
    const double stall = static_cast<double>(now_ns() - start_ns) / 1e6;
    const std::string& written = checkpoint.path();  // waits
    from[0] = written.empty() ? 'x' : written.back();
    if (step == 0) {
      first = stall;  // its memory is new
      continue;
    }
    stalls.push_back(stall);
    copies.push_back(static_cast<double>(start_ns - copy_ns) / 1e6);
  }
  write_rank(config, {{"samples", stalls},
                      {"peers", {{"one memcpy()", copies}}},
                      {"also", {{"the first checkpoint, whose memory is new (ms)", first}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
