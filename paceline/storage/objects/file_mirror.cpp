#include "paceline/storage/objects/file_mirror.h"

#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>

#include "paceline/core/fail_point.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/location.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::storage {
std::string mirrored_segment(const std::string& file, int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "/%06lld", static_cast<long long>(number));
  return std::string(run_layout::kRecords) + "/" + file + text;
}

struct FileMirror::Desk {
  // What tells that a file is as it was. Its inode does not: a file that is replaced again and again has two in turn.
  struct Version {
    uint64_t inode = 0;
    int64_t modified_ns = 0;

    static Version of(const struct stat& about) {
      return {about.st_ino, about.st_mtim.tv_sec * int64_t{1'000'000'000} + about.st_mtim.tv_nsec};
    }
    bool operator==(const Version&) const = default;
  };

  // Of one file, how much of it is in the storage.
  struct Copied {
    Version version;
    int64_t size = 0;

    bool is_all_of(const struct stat& about) const {
      return segments > 0 && about.st_size == size && Version::of(about) == version;
    }
    int64_t segments = 0;
    int64_t turn = 0;    // its last one's number
    int64_t begun = -1;  // with this segment; -1: not yet
    std::chrono::steady_clock::time_point rests_until{};
  };

  std::shared_ptr<Storage> to;
  std::string folder;
  std::function<std::vector<std::string>()> files;
  FileMirrorOptions options;

  std::mutex mutex;
  std::condition_variable changed;
  bool asked = false;
  bool ending = false;
  arrow::Status last;
  std::map<std::string, Copied> copied;  // the thread's
  bool knows_segments = false;
  int64_t turn = 0;
  std::chrono::steady_clock::time_point next_turn;
  std::chrono::steady_clock::time_point next_look;
  std::chrono::milliseconds look_pause{};

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait_for(lock, options.interval, [this] { return asked || ending; });
      const bool final_round = ending;
      const bool due_only = !asked && !ending;
      if (due_only && !fail_point("mirror.due").ok()) continue;
      asked = false;
      lock.unlock();
      arrow::Status status = copy_all(final_round);
      lock.lock();
      last = std::move(status);
      if (final_round) return;
    }
  }

  // What an earlier driver has copied: written again are the last segment, whatever its size, and all from one that is
  // not whole, which a driver before that one had sent, and which has arrived late.
  arrow::Status look_at_segments() {
    ARROW_ASSIGN_OR_RAISE(const auto segments, to->list(run_layout::kRecords));
    std::map<std::string, int64_t> whole;
    for (auto& [name, file] : copied) file.segments = 0;
    for (const auto& segment : segments) {
      const size_t slash = segment.name.rfind('/');
      const size_t start = std::string(run_layout::kRecords).size() + 1;
      if (slash <= start) continue;
      const std::string name = segment.name.substr(start, slash - start);
      int64_t& whole_ones = whole[name];
      if (whole_ones == copied[name].segments++ && segment.size == kSegmentBytes) ++whole_ones;
    }
    for (auto& [name, file] : copied) {
      struct stat about{};
      if (::stat((folder + "/" + name).c_str(), &about) != 0) continue;
      file.version.inode = about.st_ino;
      file.size = std::max<int64_t>(0, std::min(whole[name], file.segments - 1)) * kSegmentBytes;
    }
    knows_segments = true;
    look_pause = std::max(options.looks_again.value_or(look_pause), 2 * look_pause);
    next_look = std::chrono::steady_clock::now() + look_pause;
    return arrow::Status::OK();
  }

  bool is_look_due(bool final_round) const {
    if (!knows_segments) return true;
    return options.looks_again && (final_round || std::chrono::steady_clock::now() >= next_look);
  }

  // What a late segment may have replaced by one of the same size. The last one is written again anyway.
  arrow::Status write_first_again(const std::string& name, const Copied& known) {
    const int64_t end = std::min(known.begun + 2, known.size / kSegmentBytes);
    if (known.begun < 0 || known.begun >= end) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_for_reading(folder + "/" + name));
    for (int64_t segment = known.begun; segment < end; ++segment) {
      ARROW_RETURN_NOT_OK(copy_segment(name, file, segment).status());
    }
    return arrow::Status::OK();
  }

  // Takes names away whose turn it is not. Of those that have not grown none uses up a turn.
  void keep_turns(std::vector<std::string>& names) {
    if (!options.takes_turns) return;
    const auto now = std::chrono::steady_clock::now();
    const bool is_due = now >= next_turn;
    if (is_due) next_turn = now + options.interval;
    std::vector<std::pair<int64_t, std::string>> waiting;
    std::erase_if(names, [&](const std::string& name) {
      if (!options.takes_turns(name)) return false;
      struct stat about{};
      const Copied& known = copied[name];
      const bool has_changed = is_due && now >= known.rests_until &&
                               ::stat((folder + "/" + name).c_str(), &about) == 0 && !known.is_all_of(about);
      if (has_changed) waiting.emplace_back(known.turn, name);
      return true;
    });
    std::ranges::sort(waiting);
    for (size_t i = 0; i < std::min(waiting.size(), kInTurn); ++i) {
      Copied& chosen = copied[waiting[i].second];
      chosen.turn = ++turn;
      if (options.rests) chosen.rests_until = now + options.rests(waiting[i].second);
      names.push_back(std::move(waiting[i].second));
    }
  }

  arrow::Status copy_all(bool final_round) {
    const bool looks = is_look_due(final_round);
    const bool looks_again = looks && knows_segments;
    if (looks) ARROW_RETURN_NOT_OK(look_at_segments());
    std::vector<std::string> names = files();
    for (const std::string& name : names) (void)copied[name];
    if (!final_round) keep_turns(names);
    arrow::Status first = names.empty() ? arrow::Status::OK() : remove_deleted();
    std::mutex first_mutex;
    // One file that fails keeps no other from being copied.
    (void)for_each_in_parallel(names.size(), [&](size_t index) {
      const auto known = copied.find(names[index]);
      if (known == copied.end()) return arrow::Status::OK();
      arrow::Status status = copy(known->first, known->second);
      if (status.ok() && looks_again) status = write_first_again(known->first, known->second);
      const std::lock_guard lock(first_mutex);
      if (first.ok()) first = status;
      return arrow::Status::OK();
    });
    return first;
  }

  arrow::Status remove_deleted() {
    for (auto file = copied.begin(); file != copied.end();) {
      struct stat about{};
      if (::stat((folder + "/" + file->first).c_str(), &about) == 0 || errno != ENOENT) {
        ++file;
        continue;
      }
      for (int64_t& left = file->second.segments; left > 0; --left) {
        ARROW_RETURN_NOT_OK(to->remove(mirrored_segment(file->first, left - 1)));
      }
      file = copied.erase(file);
    }
    return arrow::Status::OK();
  }

  // Gives its bytes. There is an empty one of an empty file only.
  arrow::Result<int64_t> copy_segment(const std::string& name, const Descriptor& file, int64_t segment) {
    std::string bytes(kSegmentBytes, '\0');
    ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(file, folder + "/" + name, segment * kSegmentBytes,
                                                      std::as_writable_bytes(std::span(bytes))));
    bytes.resize(count);
    if (count > 0 || segment == 0) ARROW_RETURN_NOT_OK(to->write(mirrored_segment(name, segment), bytes));
    return static_cast<int64_t>(count);
  }

  arrow::Status copy(const std::string& name, Copied& known) {
    const std::string path = folder + "/" + name;
    struct stat about{};
    if (::stat(path.c_str(), &about) != 0) return arrow::Status::OK();  // gone meanwhile
    if (known.is_all_of(about)) return arrow::Status::OK();
    const bool has_grown = about.st_ino == known.version.inode && about.st_size >= known.size;
    const int64_t start = has_grown ? known.size / kSegmentBytes : 0;
    if (known.begun < 0) known.begun = start;
    ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_for_reading(path));
    int64_t segment = start;
    int64_t size = start * kSegmentBytes;
    int64_t count = 0;
    do {
      ARROW_ASSIGN_OR_RAISE(count, copy_segment(name, file, segment));
      size += count;
      segment += count > 0 || segment == 0 ? 1 : 0;
    } while (count == kSegmentBytes);
    for (int64_t old = segment; old < known.segments; ++old)
      ARROW_RETURN_NOT_OK(to->remove(mirrored_segment(name, old)));
    known.version = Version::of(about);
    known.size = size;
    known.segments = segment;
    return arrow::Status::OK();
  }
};

FileMirror::FileMirror(std::shared_ptr<Storage> to, std::string folder, std::function<std::vector<std::string>()> files,
                       FileMirrorOptions options)
    : desk_(std::make_shared<Desk>()) {
  desk_->to = std::move(to);
  desk_->folder = std::move(folder);
  desk_->files = std::move(files);
  desk_->options = std::move(options);
  thread_ = BackgroundThread([desk = desk_] { desk->work(); });
}

FileMirror::~FileMirror() {
  (void)finish(std::chrono::seconds(30));
}

void FileMirror::push() {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->asked = true;
  }
  desk_->changed.notify_all();
}

arrow::Status FileMirror::finish(std::chrono::milliseconds patience) {
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->ending = true;
  }
  desk_->changed.notify_all();
  if (!thread_.finish(patience)) {
    return arrow::Status::IOError("copying the run's records to ", desk_->to->location(""),
                                  " takes too long; the storage hangs");
  }
  const std::lock_guard lock(desk_->mutex);
  return desk_->last;
}

arrow::Result<std::vector<FileSize>> mirrored_files(const Storage& storage) {
  ARROW_ASSIGN_OR_RAISE(const auto segments, storage.list(run_layout::kRecords));
  std::map<std::string, int64_t> sizes;
  for (const auto& segment : segments) {
    const size_t start = std::string(run_layout::kRecords).size() + 1;
    const size_t slash = segment.name.rfind('/');
    if (slash > start) sizes[segment.name.substr(start, slash - start)] += segment.size;
  }
  std::vector<FileSize> files;
  for (const auto& [name, size] : sizes) files.push_back({name, size});
  return files;
}

arrow::Result<std::string> read_mirrored(const Storage& storage, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const auto segments, storage.list(std::string(run_layout::kRecords) + "/" + name));
  if (segments.empty()) return arrow::Status::KeyError("there is no record ", name, " in ", storage.location(""));
  std::vector<std::string> parts(segments.size());
  ARROW_RETURN_NOT_OK(for_each_in_parallel(parts.size(), [&](size_t index) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(parts[index], read_whole(storage, segments[index].name));
    return arrow::Status::OK();
  }));
  std::string content;
  for (const std::string& part : parts) content += part;
  return content;
}

}  // namespace paceline::storage
