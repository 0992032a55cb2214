#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/thread.h"
#include "paceline/core/run_layout.h"
#include "paceline/train/worker/figures_file_internal.h"

namespace paceline::train {
namespace {

constexpr std::chrono::seconds kInterval{1};

// Not durably: who looks at it looks while the machine runs.
void replace(const std::string& path, const std::string& content) {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  const std::string unfinished = path + ".paceline-tmp";  // as storage::is_temporary_file(): no mirror copies it
  std::ofstream(unfinished) << content << "\n";
  std::filesystem::rename(unfinished, path, problem);
}

// The number in "process_7.json".
WorkerId process_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem();
  int64_t number = 0;
  const size_t first = name.rfind('_') + 1;
  std::from_chars(name.data() + first, name.data() + name.size(), number);
  return WorkerId{number};
}

}  // namespace

FiguresFile::FiguresFile(std::string path, const std::string& run_folder, data::DataService& service)
    : path_(std::move(path)),
      samples_(run_folder + "/" + run_layout::data_samples(process_of(path_)), "data",
               std::to_string(process_of(path_).value)),
      service_(service),
      thread_(start_thread([this] { keep(); })) {}

FiguresFile::~FiguresFile() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FiguresFile::keep() {
  std::vector<DatasetFigures> written;
  DataFigures before;
  bool is_last = false;
  while (!is_last) {
    {
      std::unique_lock lock(mutex_);
      is_last = changed_.wait_for(lock, kInterval, [this] { return stopped_; });
    }
    DataFigures figures{.host = host_name(),
                        .pid = ::getpid(),
                        .time = to_seconds(SystemClock().now()),
                        .datasets = service_.figures()};
    samples_.add(track::columns_of(figures, before));
    before = figures;
    if (figures.datasets != written) {
      replace(path_, encode_json(figures));
      written = std::move(figures.datasets);
    }
  }
  samples_.finish();
}

}  // namespace paceline::train
