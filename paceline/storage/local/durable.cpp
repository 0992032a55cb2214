#include "paceline/storage/local/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "paceline/core/fail_point.h"
#include "paceline/core/json.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/file_writer.h"

namespace paceline::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryEnding = ".paceline-tmp";

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Beside `path`, on the same file system, with a name that no other thread or process takes.
std::string temporary_beside(const std::string& path) {
  static std::atomic<int64_t> count = 0;
  return parent_of(path) + "/." + fs::path(path).filename().string() + "." + std::to_string(::getpid()) + "." +
         std::to_string(count++) + std::string(kTemporaryEnding);
}

arrow::Status error_status(const std::string& what, const std::error_code& code) {
  return arrow::Status::IOError(what, ": ", code.message());
}

arrow::Status write_and_sync(const std::string& path, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return errno_status("making file " + path);
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("writing " + path);
    content.remove_prefix(static_cast<size_t>(written));
  }
  ARROW_RETURN_NOT_OK(fail_point("write_atomically.before_sync"));
  if (::fsync(file.get()) != 0) return errno_status("syncing " + path);
  return arrow::Status::OK();
}

arrow::Result<Descriptor> open_file_or_folder(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  // A file that another process has under a lease (Samba's oplocks): this open waits until it is given back.
  if (!file && errno == EWOULDBLOCK) file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_status("opening " + path);
  return file;
}

// Walks `folder`; `above` are the folders on the way down, so that links in a circle are found.
arrow::Status add_files_below(const std::string& folder, const std::string& prefix, std::vector<FileId>& above,
                              std::vector<std::string>& files) {
  ARROW_ASSIGN_OR_RAISE(const FileId self, file_id(folder));
  if (std::find(above.begin(), above.end(), self) != above.end()) {
    return arrow::Status::Invalid("links in a circle: ", folder, " leads back to a folder above it");
  }
  above.push_back(self);
  struct stat about{};
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = prefix + entry->path().filename().string();
    const std::string path = entry->path().string();
    if (!is_utf8(name)) return arrow::Status::Invalid("a file name below ", folder, " is not UTF-8");
    if (::stat(path.c_str(), &about) != 0) {
      const arrow::Status status = errno_status("reading " + path);
      if (::lstat(path.c_str(), &about) != 0 && errno == ENOENT) continue;  // deleted or renamed meanwhile
      return status;                                                        // a link to nothing, too
    }
    if (S_ISDIR(about.st_mode)) {
      ARROW_RETURN_NOT_OK(add_files_below(path, name + "/", above, files));
    } else if (S_ISREG(about.st_mode)) {
      files.push_back(name);
    } else {
      return arrow::Status::Invalid(path, " is neither a file nor a folder (a socket, pipe or device?)");
    }
  }
  if (error) return error_status("reading folder " + folder, error);
  above.pop_back();
  return arrow::Status::OK();
}

// `temporary` is written and synced, or `status` says why not.
arrow::Status put_in_place(const std::string& temporary, const std::string& path, arrow::Status status) {
  if (status.ok()) status = fail_point("write_atomically.before_rename");
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) status = errno_status("renaming to " + path);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  ARROW_RETURN_NOT_OK(fail_point("write_atomically.after_rename"));
  return sync(parent_of(path));
}

}  // namespace

arrow::Result<Descriptor> open_for_reading(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(Descriptor file, open_file_or_folder(path));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return errno_status("looking at " + path);
  if (!S_ISREG(status.st_mode)) return arrow::Status::IOError("reading ", path, ": it is no regular file");
  return file;
}

arrow::Result<size_t> read_at(const Descriptor& file, const std::string& path, int64_t offset,
                              std::span<std::byte> buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t count =
        ::pread(file.get(), buffer.data() + done, buffer.size() - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_status("reading " + path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

std::string name_to_set_aside(const std::string& path) {
  const std::string first = path + run_layout::kDamaged;
  std::string name = first;
  std::error_code error;
  for (int number = 2; std::filesystem::exists(std::filesystem::symlink_status(name, error)); ++number) {
    name = first + "_" + std::to_string(number);
  }
  return name;
}

arrow::Result<std::string> read_file(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_for_reading(path));
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return errno_status("reading " + path);
  std::string content(static_cast<size_t>(about.st_size) + 1, '\0');
  for (size_t size = 0;;) {
    const std::span<char> room(content.data() + size, content.size() - size);
    ARROW_ASSIGN_OR_RAISE(const size_t count,
                          read_at(file, path, static_cast<int64_t>(size), std::as_writable_bytes(room)));
    size += count;
    if (count < room.size()) {
      content.resize(size);
      return content;
    }
    content.resize(2 * content.size());  // it grows while we read, or has no size (/proc)
  }
}

arrow::Status write_atomically(const std::string& path, std::string_view content) {
  const std::string temporary = temporary_beside(path);
  return put_in_place(temporary, path, write_and_sync(temporary, content));
}

arrow::Result<FileSum> copy_file_atomically(const std::string& from, const std::string& to) {
  const std::string temporary = temporary_beside(to);
  const auto copied = copy_file(from, temporary);
  ARROW_RETURN_NOT_OK(put_in_place(temporary, to, copied.ok() ? sync(temporary) : copied.status()));
  return copied;
}

bool is_temporary_file(std::string_view path) {
  return path.ends_with(kTemporaryEnding);
}

arrow::Status remove_temporary_files(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_temporary_file(entry->path().filename().string())) continue;
    if (::unlink(entry->path().c_str()) != 0 && errno != ENOENT)
      return errno_status("deleting " + entry->path().string());
  }
  if (error) return error_status("reading folder " + folder, error);
  return arrow::Status::OK();
}

arrow::Status sync(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_file_or_folder(path));
  if (::fsync(file.get()) != 0) return errno_status("syncing " + path);
  return arrow::Status::OK();
}

arrow::Status sync_file_system(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const Descriptor file, open_file_or_folder(path));
  return ::syncfs(file.get()) == 0 ? arrow::Status::OK() : errno_status("syncing the file system of " + path);
}

arrow::Status make_folders(const std::string& path) {
  std::vector<std::string> missing;
  for (std::string level = path;; level = parent_of(level)) {
    if (::mkdir(level.c_str(), 0777) == 0) {
      ARROW_RETURN_NOT_OK(sync(parent_of(level)));
      break;
    }
    if (errno == EEXIST) {
      if (!fs::is_directory(level)) return arrow::Status::IOError("making folder ", path, ": ", level, " is a file");
      break;
    }
    if (errno != ENOENT || level == parent_of(level)) return errno_status("making folder " + path);
    missing.push_back(level);
  }
  for (auto level = missing.rbegin(); level != missing.rend(); ++level) {
    if (::mkdir(level->c_str(), 0777) != 0 && errno != EEXIST) return errno_status("making folder " + path);
    ARROW_RETURN_NOT_OK(sync(parent_of(*level)));
  }
  return arrow::Status::OK();
}

arrow::Status make_folders_below(const std::string& root, const std::string& relative) {
  std::string level = root;
  for (const fs::path& part : fs::path(relative)) {
    level += "/" + part.string();
    if (::mkdir(level.c_str(), 0777) == 0) continue;
    if (errno != EEXIST) return errno_status("making folder " + level);
    std::error_code error;
    if (!fs::is_directory(level, error)) return arrow::Status::IOError("making folder ", level, ": there is a file");
  }
  return arrow::Status::OK();
}

arrow::Status move(const std::string& from, const std::string& to) {
  ARROW_RETURN_NOT_OK(fail_point("move.before_rename"));
  if (::rename(from.c_str(), to.c_str()) != 0) return errno_status("renaming " + from + " to " + to);
  ARROW_RETURN_NOT_OK(fail_point("move.after_rename"));
  ARROW_RETURN_NOT_OK(sync(parent_of(to)));
  return parent_of(from) == parent_of(to) ? arrow::Status::OK() : sync(parent_of(from));
}

arrow::Result<FileId> file_id(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return errno_status("examining " + path);
  return FileId{about.st_dev, about.st_ino};
}

arrow::Status remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? error_status("deleting " + path, error) : arrow::Status::OK();
}

arrow::Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::vector<FileId> above;
  ARROW_RETURN_NOT_OK(add_files_below(folder, "", above, files));
  std::sort(files.begin(), files.end());
  return files;
}

arrow::Status check_writable(const std::string& folder) {
  const auto attempt = [&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(make_folders(folder));
    const std::string probe = temporary_beside(folder + "/probe");
    constexpr std::string_view kContent = "paceline";
    auto status = write_and_sync(probe, kContent);
    if (status.ok()) {
      const auto read = read_file(probe);
      status = read.status();
      if (read.ok() && *read != kContent) status = arrow::Status::IOError("reading back ", probe, ": other content");
    }
    ::unlink(probe.c_str());
    return status;
  };
  arrow::Status status = attempt();
  if (status.ok()) return status;
  return arrow::Status::IOError("cannot write to the folder ", folder, " (", status.message(),
                                "); give a storage path where you may write");
}

}  // namespace paceline::storage
