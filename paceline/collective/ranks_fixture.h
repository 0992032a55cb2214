// Ranks for tests of shared groups: threads of this process, or processes, and their values.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "paceline/collective/group.h"

namespace paceline::collective {

/// A bulletin in the memory of one process.
class MemoryBulletin {
 public:
  Bulletin bulletin() {
    return {.set =
                [this](const std::string& key, const std::string& value) {
                  const std::lock_guard lock(mutex_);
                  values_[key] = value;
                  changed_.notify_all();
                },
            .get =
                [this](const std::string& key, Deadline deadline) {
                  std::unique_lock lock(mutex_);
                  if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); })) {
                    throw std::runtime_error("nobody has set " + key);
                  }
                  return values_.at(key);
                }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

/// A bulletin of files in `folder`, for ranks that are processes.
inline Bulletin bulletin_in(const std::string& folder) {
  const auto path_of = [folder](std::string key) {
    std::replace(key.begin(), key.end(), '/', '_');
    return folder + "/" + key;
  };
  return {.set =
              [path_of](const std::string& key, const std::string& value) {
                const std::string path = path_of(key);
                std::ofstream(path + ".new") << value;
                std::filesystem::rename(path + ".new", path);
              },
          .get =
              [path_of](const std::string& key, Deadline /*deadline*/) {
                const std::string path = path_of(key);
                while (!std::filesystem::exists(path)) ::sched_yield();
                std::stringstream text;
                text << std::ifstream(path).rdbuf();
                return text.str();
              }};
}

/// The same in a folder of its own.
class FileBulletin {
 public:
  FileBulletin() {
    std::string path = ::testing::TempDir() + "paceline_bulletin_XXXXXX";
    folder_ = ::mkdtemp(path.data());
  }
  ~FileBulletin() { std::filesystem::remove_all(folder_); }
  FileBulletin(const FileBulletin&) = delete;
  FileBulletin& operator=(const FileBulletin&) = delete;

  Bulletin bulletin() const { return bulletin_in(folder_); }

 private:
  std::string folder_;
};

inline constexpr std::chrono::seconds kTestTimeout{60};

/// Runs `rank` on `world_size` threads, each with its place in a group.
inline void on_threads(int world_size, const std::function<void(SharedGroup&)>& rank, bool may_read_others = true) {
  MemoryBulletin memory;
  std::vector<std::thread> threads;
  for (int place = 0; place < world_size; ++place) {
    threads.emplace_back([&, place] {
      const auto group = SharedGroup::create(memory.bulletin(), place, world_size, kTestTimeout, may_read_others);
      ASSERT_NE(group, nullptr);
      rank(*group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Where a rank's values are.
enum class Place { heap, arena, mixed };

/// Values of one rank.
class Buffer {
 public:
  Buffer(SharedGroup& group, Place place, size_t count) : group_(group), count_(count) {
    if (place == Place::arena || (place == Place::mixed && group.rank() % 2 == 0)) {
      block_ = group.arena()->allocate(count * sizeof(int64_t)).ValueOrDie();
      data_ = static_cast<int64_t*>(block_);
    } else {
      values_.resize(count);
      data_ = values_.data();
    }
  }
  ~Buffer() { group_.arena()->free(block_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  int64_t* data() { return data_; }
  int64_t& operator[](size_t i) { return data_[i]; }
  size_t size() const { return count_; }

 private:
  SharedGroup& group_;
  const size_t count_;
  std::vector<int64_t> values_;
  void* block_ = nullptr;
  int64_t* data_ = nullptr;
};

inline Request request(Kind kind, Buffer* input, uint64_t elements, std::vector<void*> outputs, int root = -1) {
  return {.kind = kind,
          .what = {.element = Element::int64},
          .root = root,
          .elements = elements,
          .input = input == nullptr ? nullptr : input->data(),
          .outputs = std::move(outputs),
          .timeout = kTestTimeout};
}

inline void run(SharedGroup& group, Request request) {
  group.wait(group.start(std::move(request)));
}

}  // namespace paceline::collective
