// checkpoint_load: MB/s of a checkpoint of 1 GB from the local disk into a model, checksums compared, beside read() of
// the same files into one buffer. The two alternate, both from the disk: the page cache is emptied of the files before.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

namespace {

constexpr int64_t kMegabytes = 1024;

double rate(int64_t start_ns) {
  return kMegabytes * 1048576.0 / 1e6 / (static_cast<double>(now_ns() - start_ns) / 1e9);
}

template <class Use>
void with_files(const std::string& folder, Use use) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::runtime_error("cannot open " + entry.path().string());
    use(file);
    ::close(file);
  }
}

void forget(const std::string& folder) {
  with_files(folder, [](int file) { ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); });
}

}  // namespace

void train_loop(const paceline::Config& config) {
  const bool measures = paceline::get_context().get_world_rank() == 0;
  const auto model = model_of(measures ? kMegabytes : 4);
  paceline::report({}, paceline::Checkpoint::save(model));
  const auto all = paceline::get_all_reported_checkpoints();
  std::vector<double> ours, theirs, warm;
  for (int64_t step = 0; measures && step < config.get<int64_t>("iterations"); ++step) {
    const paceline::Checkpoint& checkpoint = all.back().checkpoint;
    forget(checkpoint.path());
    int64_t start_ns = now_ns();
    checkpoint.load(model);
    ours.push_back(rate(start_ns));
    start_ns = now_ns();
    checkpoint.load(model);
    warm.push_back(rate(start_ns));
    forget(checkpoint.path());
    std::vector<char> buffer(size_t{1} << 20);
    start_ns = now_ns();
    with_files(checkpoint.path(), [&buffer](int file) {
      while (::read(file, buffer.data(), buffer.size()) > 0) {
      }
    });
    theirs.push_back(rate(start_ns));
  }
  paceline::barrier();
  write_rank(config, {{"samples", ours},
                      {"peers", {{"read()", theirs}}},
                      {"also", {{"from the page cache (MB/s)", warm.empty() ? 0.0 : warm.back()}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
