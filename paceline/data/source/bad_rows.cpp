#include "paceline/data/source/bad_rows.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/order/permutation.h"
#include "paceline/data/rows/gather.h"

namespace paceline::data {
namespace {

constexpr size_t kMostLines = size_t{1} << 20;  // that are remembered, which takes some 40 MB

// Whether the file ends in the middle of a line, as a program leaves it that is killed while it writes.
bool has_torn_line(int file) {
  struct stat status = {};
  char last = '\n';
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
         ::pread(file, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

// All of the lines or, as far as the file can be cut, none. Those of several processes do not mix.
arrow::Status append(const std::string& path, std::string lines) {
  constexpr int kAppend = O_CREAT | O_APPEND | O_CLOEXEC;
  Descriptor file(::open(path.c_str(), O_RDWR | kAppend, 0666));
  if (!file && errno == EACCES) file = Descriptor(::open(path.c_str(), O_WRONLY | kAppend, 0666));
  const auto failed = [&] {
    return arrow::Status::IOError("cannot write to the quarantine of bad rows, ", path, ": ", std::strerror(errno));
  };
  if (!file) return failed();
  while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  if (has_torn_line(file.get())) lines.insert(0, "\n");
  struct stat before = {};
  const bool can_be_cut = ::fstat(file.get(), &before) == 0 && S_ISREG(before.st_mode);
  for (size_t done = 0; done < lines.size();) {
    const ssize_t written = ::write(file.get(), lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const arrow::Status status = failed();
      if (can_be_cut && done > 0) (void)!::ftruncate(file.get(), before.st_size);
      return status;
    }
    done += static_cast<size_t>(written);
  }
  return arrow::Status::OK();
}

bool is_fault_of_rows(const arrow::Status& status) {
  return !status.IsOutOfMemory() && !status.IsCancelled();
}

}  // namespace

struct BadRows::Parts {
  struct Good {
    int64_t first = 0;
    int64_t last = 0;  // the row to take the place of bad ones behind: with OnError::replace not of the same place
    std::shared_ptr<arrow::RecordBatch> made;
  };
  struct Bad {
    int64_t row = 0;
    arrow::Status status;
  };
  std::vector<Good> good;
  std::vector<Bad> bad;
};

arrow::Status BadRows::sort_out(int64_t first, int64_t rows, const Attempt& attempt, Parts& parts) const {
  auto made = attempt(first, rows);
  if (made.ok()) {
    parts.good.push_back({first, first + rows - 1, *std::move(made)});
    return arrow::Status::OK();
  }
  if (!is_fault_of_rows(made.status())) return made.status();
  if (rows == 1) {
    parts.bad.push_back({first, made.status()});
    return arrow::Status::OK();
  }
  ARROW_RETURN_NOT_OK(sort_out(first, rows / 2, attempt, parts));
  return sort_out(first + rows / 2, rows - rows / 2, attempt, parts);
}

// What is made of the last good row, or the first; a null pointer where there is none.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> BadRows::good_row(int64_t first, int64_t rows, bool is_last,
                                                                     const Attempt& attempt) {
  if (rows == 0) return nullptr;
  auto made = attempt(first, rows);
  if (rows == 1 && made.ok()) return made;
  if (made.ok()) return attempt(is_last ? first + rows - 1 : first, 1);
  if (!is_fault_of_rows(made.status())) return made.status();
  if (rows == 1) return nullptr;
  const int64_t half = rows / 2;
  for (const bool in_second : {is_last, !is_last}) {
    ARROW_ASSIGN_OR_RAISE(auto row, in_second ? good_row(first + half, rows - half, is_last, attempt)
                                              : good_row(first, half, is_last, attempt));
    if (row != nullptr) return row;
  }
  return nullptr;
}

// Of the blocks before, the nearest first, then of those behind.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> BadRows::good_row_elsewhere(const Place& place) {
  for (int64_t i = 1; i < place.blocks; ++i) {
    const bool is_before = i <= place.block;
    ARROW_ASSIGN_OR_RAISE(const auto other, place.others(is_before ? place.block - i : i));
    if (!other) continue;
    ARROW_ASSIGN_OR_RAISE(auto row, good_row(0, other->rows, is_before, other->attempt));
    if (row != nullptr) return row;
  }
  return nullptr;
}

arrow::Status BadRows::quarantine(const Parts& parts, const Describe& describe) {
  std::string lines;
  std::unordered_set<uint64_t> fresh;
  Met& met = *met_;
  const std::lock_guard lock(met.mutex);
  for (const Parts::Bad& bad : parts.bad) {
    Json line = describe(bad.row);
    line["error"] = bad.status.message();
    const std::string text = encode_json(line) + "\n";
    const uint64_t print = mix_text(0, text);
    // One more than may be is all that need be known.
    const bool counts = static_cast<int64_t>(met.blocks.size()) <= options_.most_blocks;
    if (&bad == &parts.bad.front() && counts) met.blocks.insert(print);
    if (!met.lines.contains(print) && fresh.insert(print).second) lines += text;
  }
  if (options_.most_blocks >= 0 && static_cast<int64_t>(met.blocks.size()) > options_.most_blocks) {
    const arrow::Status& first = parts.bad.front().status;
    return first.WithMessage("more than ", options_.most_blocks,
                             " blocks have bad rows, as many as may; the next is: ", first.message());
  }
  if (options_.quarantine.empty() || lines.empty()) return arrow::Status::OK();
  ARROW_RETURN_NOT_OK(append(options_.quarantine, std::move(lines)));
  for (const uint64_t print : fresh) {  // they are there now
    if (met.lines.size() < kMostLines) met.lines.insert(print);
  }
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> BadRows::without_bad(int64_t rows, const arrow::Status& status,
                                                                        const Attempt& attempt,
                                                                        const Describe& describe, const Place& place) {
  if (rows == 0 || !is_fault_of_rows(status)) return status;
  Parts parts;
  if (rows == 1) {
    parts.bad.push_back({0, status});
  } else {
    ARROW_RETURN_NOT_OK(sort_out(0, rows / 2, attempt, parts));
    ARROW_RETURN_NOT_OK(sort_out(rows / 2, rows - rows / 2, attempt, parts));
  }
  if (!parts.bad.empty()) ARROW_RETURN_NOT_OK(quarantine(parts, describe));
  if (options_.on_error == OnError::replace) {
    if (parts.good.empty()) {
      ARROW_ASSIGN_OR_RAISE(const auto row, good_row_elsewhere(place));
      if (row == nullptr) {
        return status.WithMessage("no row of any block is good, so that none can take the place of others: ",
                                  status.message());
      }
      return gather({row}, std::vector<RowRun>(static_cast<size_t>(rows), {0, 0, row->num_rows()}), reading_memory());
    }
    for (const Parts::Bad& bad : parts.bad) {
      const auto after = std::ranges::upper_bound(parts.good, bad.row, {}, &Parts::Good::first);
      const int64_t good = after == parts.good.begin() ? after->first : std::prev(after)->last;
      ARROW_ASSIGN_OR_RAISE(auto made, attempt(good, 1));
      parts.good.insert(after, {bad.row, good, std::move(made)});
    }
  }
  if (parts.good.empty()) return attempt(0, 0);
  arrow::RecordBatchVector batches;
  std::vector<RowRun> runs;
  for (Parts::Good& good : parts.good) {
    runs.push_back({static_cast<int64_t>(runs.size()), 0, good.made->num_rows()});
    batches.push_back(std::move(good.made));
  }
  return gather(batches, runs, reading_memory());
}

arrow::Result<std::shared_ptr<BadRows>> bad_rows_of(const Json& options) {
  const std::string on_error = options.value("on_error", std::string("raise"));
  if (on_error == "raise") return nullptr;
  if (on_error != "skip" && on_error != "replace") {
    return arrow::Status::Invalid("on_error is '", on_error, "'; allowed: 'raise', 'skip', 'replace'");
  }
  return std::make_shared<BadRows>(BadRowOptions{.on_error = on_error == "skip" ? OnError::skip : OnError::replace,
                                                 .quarantine = options.value("quarantine", std::string()),
                                                 .most_blocks = options.value("most_errored_blocks", int64_t{-1})});
}

}  // namespace paceline::data
