#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/thread.h"
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

}  // namespace

FiguresFile::FiguresFile(std::string path, data::DataService& service)
    : path_(std::move(path)), service_(service), thread_(start_thread([this] { keep(); })) {}

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
    if (figures.datasets != written) {
      replace(path_, encode_json(figures));
      written = std::move(figures.datasets);
    }
  }
}

}  // namespace paceline::train
