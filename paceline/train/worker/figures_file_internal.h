// The figures of a data process in the run folder, written by a thread: each second, while they change, and at the end.
//
// Readers see a whole file. One that cannot be written is missing, or old: reading goes on.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/data/service/data_service.h"

namespace paceline::train {

class FiguresFile {
 public:
  /// The service outlives it.
  FiguresFile(std::string path, data::DataService& service);
  ~FiguresFile();
  FiguresFile(const FiguresFile&) = delete;
  FiguresFile& operator=(const FiguresFile&) = delete;

 private:
  void keep();

  const std::string path_;
  data::DataService& service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace paceline::train
