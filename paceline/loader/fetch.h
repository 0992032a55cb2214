// fetch_once: the files of a dataset, fetched by one of all the processes that want them.
//
// Processes of one machine meet at a lock on a file in the folder: one fetches, the others wait for it and find the
// files there. A file is put under its name by a rename, when its SHA-256 is right; so what is there is whole.
// Thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace paceline {

struct FetchedFile {
  std::string name;    // in the folder; no '/'
  std::string sha256;  // 64 lower-case hexadecimal digits
};

/// Fetches the file called `name` into `target`; throws when it cannot.
using Fetcher = std::function<void(const std::string& name, const std::filesystem::path& target)>;

/// Returns when `folder` (made if need be) holds all `files`; calls `fetch` for those that are missing.
/// StorageError when a fetched file has another checksum, naming both, or the folder cannot be written. What `fetch`
/// throws passes through; the next process in line then tries again.
///
///     fetch_once("./data", {{"train.bin", "9f86d081…"}}, [](const std::string& name, const auto& target) {
///       download("https://example.org/" + name, target);
///     });
void fetch_once(const std::filesystem::path& folder, const std::vector<FetchedFile>& files, const Fetcher& fetch);

}  // namespace paceline
