// The figures of a data process in the run folder, written by a thread: each second, while they change, and at the end;
// and each second what it did in it, for charts (track/sample_files.h).
//
// Readers see a whole file. One that cannot be written is missing, or old: reading goes on.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/data/service/data_service.h"
#include "paceline/track/sample_files.h"

namespace paceline::train {

class FiguresFile {
 public:
  /// `path` is one of run_layout::data_figures(), which the samples in `run_folder` have the number of. The service
  /// outlives it.
  FiguresFile(std::string path, const std::string& run_folder, data::DataService& service);
  ~FiguresFile();
  FiguresFile(const FiguresFile&) = delete;
  FiguresFile& operator=(const FiguresFile&) = delete;

 private:
  void keep();

  const std::string path_;
  track::SampleFiles samples_;
  data::DataService& service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace paceline::train
