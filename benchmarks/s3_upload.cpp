// s3_upload: MB/s of the publication of a checkpoint, as ranks have staged it, in an object store: the controller's
// part of a report. s3_upload.py starts the store and makes the files.
#include <chrono>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/storage/location.h"

using namespace paceline;

namespace {

template <class T>
T value_of(arrow::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

// Seconds that the publication of `files` as the checkpoint of `report` takes.
double publish(checkpoint::Store& store, const std::string& run_folder, const std::string& files, int64_t report) {
  std::filesystem::create_directories(run_folder);
  auto stage = value_of(checkpoint::Stage::create(run_folder, {.attempt = {1}, .worker = {1}}, report));
  if (const auto copied = stage.copy_folder(files); !copied.ok()) throw std::runtime_error(copied.ToString());
  const std::string staged = value_of(stage.finish());
  const auto start = std::chrono::steady_clock::now();
  value_of(store.publish({{0, staged}}, {.report = report}));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  std::string uri, files, scratch;
  int64_t report = 1;
  CLI::App app("Publishes FILES in an object store and prints how many seconds it took");
  app.add_option("uri", uri)->required();
  app.add_option("files", files)->required();
  app.add_option("scratch", scratch)->required();
  app.add_option("report", report)->required();
  CLI11_PARSE(app, argc, argv);
  std::filesystem::create_directories(scratch);
  auto objects = value_of(storage::open_storage(uri));
  checkpoint::Store store(scratch, objects);
  value_of(store.list());  // connects
  std::cout << publish(store, scratch, files, report) << std::endl;
}
