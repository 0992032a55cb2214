#include "paceline/views/log_streams.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <tuple>

#include "paceline/core/json.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/views/readable_text.h"

namespace paceline::views {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".log";

// "worker_7.1" for "worker_7.log.1"; "" for what is no log.
std::string stream_of(const std::string& file) {
  const size_t ending = file.rfind(kEnding);
  if (ending == std::string::npos || ending == 0) return "";
  const std::string piece = file.substr(ending + kEnding.size());
  const bool is_piece = piece.empty() || (piece.size() > 1 && piece[0] == '.' &&
                                          piece.find_first_not_of("0123456789", 1) == std::string::npos);
  return is_piece ? file.substr(0, ending) + piece : "";
}

std::string kind_of(const std::string& stream) {
  if (stream == "controller" || stream.starts_with("controller.")) return "controller";
  for (const char* kind : {"worker", "data", "validation"}) {
    if (stream.starts_with(std::string(kind) + "_")) return kind;
  }
  return "other";
}

// Opened where it lies, and never through a link.
arrow::Result<Descriptor> open_log(const std::string& run_folder, const std::string& stream) {
  const std::string folder = run_folder + "/" + run_layout::kLogs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    if (stream.empty() || stream_of(file) != stream) continue;
    const Descriptor logs(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    Descriptor log(::openat(logs.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat what{};
    if (log && ::fstat(log.get(), &what) == 0 && S_ISREG(what.st_mode)) return log;
    break;
  }
  return arrow::Status::KeyError("the run in ", run_folder, " has no log \"", stream, "\"");
}

arrow::Result<std::string> read_at(const Descriptor& file, int64_t offset, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t read =
        ::pread(file.get(), bytes.data() + got, bytes.size() - got, offset + static_cast<int64_t>(got));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return errno_status("reading a log");
    if (read == 0) break;
    got += static_cast<size_t>(read);
  }
  bytes.resize(got);
  return bytes;
}

bool has_text(std::string_view line, std::string_view small_text) {
  const auto same = [](unsigned char one, unsigned char other) { return std::tolower(one) == other; };
  return std::ranges::search(line, small_text, same).begin() != line.end() || small_text.empty();
}

// The lines with that text among whole lines, up to so many bytes; says how far it came.
std::string grep(std::string_view lines, const std::string& wanted, int64_t limit, size_t& end) {
  std::string small = wanted, found;
  std::ranges::transform(small, small.begin(), [](unsigned char letter) { return std::tolower(letter); });
  end = 0;
  while (end < lines.size()) {
    const size_t newline = lines.find('\n', end);
    const size_t next = newline == std::string_view::npos ? lines.size() : newline + 1;
    const std::string_view line = lines.substr(end, next - end);
    if (has_text(line, small)) {
      if (!found.empty() && std::ssize(found) + std::ssize(line) > limit) break;
      found += line;
    }
    end = next;
  }
  return found;
}

}  // namespace

arrow::Result<std::vector<LogStream>> log_streams(const track::RunRecord& record) {
  std::vector<LogStream> streams;
  const std::string folder = record.run.path + "/" + run_layout::kLogs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    struct stat what{};
    LogStream stream{.stream = stream_of(file)};
    if (stream.stream.empty() || ::lstat(entry->path().c_str(), &what) != 0 || !S_ISREG(what.st_mode)) continue;
    stream.kind = kind_of(stream.stream);
    stream.size = what.st_size;
    stream.modified = static_cast<double>(what.st_mtim.tv_sec) + 1e-9 * static_cast<double>(what.st_mtim.tv_nsec);
    if (const int64_t id = run_layout::worker_of_log(file); id != 0) {
      stream.worker = id;
      const auto worker = record.workers.find(id);
      if (worker != record.workers.end()) {
        stream.attempt = worker->second.attempt;
        if (worker->second.rank >= 0) stream.rank = worker->second.rank;
      }
    }
    streams.push_back(std::move(stream));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return arrow::Status::IOError("reading ", folder, ": ", error.message());
  }
  const auto place = [](const LogStream& stream) {
    const int64_t group = stream.kind == "controller" ? 0 : stream.kind == "worker" ? 1 : 2;
    return std::tuple(group, stream.attempt.value_or(0), stream.rank.value_or(-1), stream.stream);
  };
  std::ranges::sort(streams, {}, place);
  return streams;
}

arrow::Result<LogPart> read_log(const std::string& run_folder, const std::string& stream, const LogRange& range) {
  ARROW_ASSIGN_OR_RAISE(const Descriptor log, open_log(run_folder, stream));
  struct stat what{};
  if (::fstat(log.get(), &what) != 0) return errno_status("asking for the size of log " + stream);
  LogPart part{.size = what.st_size};
  const int64_t limit = std::clamp<int64_t>(range.limit, 1, kMostLogBytes);
  const int64_t wanted = range.grep.empty() ? limit : kMostSearched;
  const bool has_end = range.before != LogRange{}.before;
  const int64_t last = std::clamp<int64_t>(range.before, 0, part.size);
  const int64_t offset = has_end ? last - std::min(wanted, last) : range.offset;
  const bool from_end = has_end || offset < 0;
  part.offset = offset < 0 ? std::max<int64_t>(0, part.size + offset) : std::min(offset, part.size);
  ARROW_ASSIGN_OR_RAISE(std::string bytes, read_at(log, part.offset, std::min(wanted, last - part.offset)));
  if (from_end && part.offset > 0) {
    const size_t newline = bytes.find('\n');
    const size_t skipped = newline == std::string::npos || newline + 1 == bytes.size() ? 0 : newline + 1;
    bytes.erase(0, skipped);
    part.offset += static_cast<int64_t>(skipped);
  }
  // A line that is longer than what was read is given in parts.
  const bool is_cut = part.offset + std::ssize(bytes) < last;
  if (const size_t newline = bytes.rfind('\n'); is_cut && newline != std::string::npos) bytes.resize(newline + 1);
  size_t end = bytes.size();
  part.text = readable(range.grep.empty() ? bytes : grep(bytes, range.grep, limit, end));
  part.next = part.offset + static_cast<int64_t>(end);
  return part;
}

}  // namespace paceline::views
