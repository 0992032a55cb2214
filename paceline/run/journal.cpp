#include "paceline/run/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "paceline/core/fail_point.h"
#include "paceline/core/run_layout.h"
#include "paceline/policy/consequences.h"
#include "paceline/policy/decide.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {

using namespace policy;
namespace {

// Cuts what stands behind the last newline.
arrow::Status remove_torn_line(const std::string& path, int file) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return errno_status("cannot examine " + path);
  off_t end = status.st_size;
  std::string block;
  while (end > 0) {
    const off_t start = std::max<off_t>(0, end - 4096);
    block.resize(static_cast<size_t>(end - start));
    if (::pread(file, block.data(), block.size(), start) != static_cast<ssize_t>(block.size())) {
      return errno_status("cannot read " + path);
    }
    const size_t newline = block.rfind('\n');
    end = newline == std::string::npos ? start : start + static_cast<off_t>(newline) + 1;
    if (newline != std::string::npos) break;
  }
  if (end != status.st_size && ::ftruncate(file, end) != 0) return errno_status("cannot truncate " + path);
  return arrow::Status::OK();
}

// Moves the journal's end, from the damaged line on, to a file that is not there yet; gives its name.
arrow::Result<std::string> set_aside(const std::string& path, const JournalDamage& damage) {
  ARROW_ASSIGN_OR_RAISE(const std::string whole, storage::read_file(path));
  std::string aside = storage::name_to_set_aside(path);
  ARROW_RETURN_NOT_OK(storage::write_atomically(aside, whole.substr(static_cast<size_t>(damage.offset))));
  // A new file: who reads the old one sees that it must begin anew.
  ARROW_RETURN_NOT_OK(storage::write_atomically(path, whole.substr(0, static_cast<size_t>(damage.offset))));
  return aside;
}

}  // namespace

std::string journal_path(const std::string& run_folder) {
  return run_folder + "/" + run_layout::kJournal;
}

arrow::Result<Journal> Journal::open(const std::string& run_folder,
                                     const std::function<void(const std::string&)>& note) {
  const std::string path = journal_path(run_folder);
  Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file) return errno_status("cannot open " + path);
  ARROW_RETURN_NOT_OK(remove_torn_line(path, file.get()));
  ARROW_ASSIGN_OR_RAISE(const auto damage, read_journal(run_folder, [](const Event&, Time) {}));
  if (damage) {
    ARROW_ASSIGN_OR_RAISE(const std::string aside, set_aside(path, *damage));
    file = Descriptor(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
    if (!file) return errno_status("cannot open " + path);
    note(damage->text(run_folder) + "; the run goes on from what stands before it, and the rest is in " + aside);
  }
  return Journal(std::move(file));
}

arrow::Status Journal::append(const Event& event, const RunState& state, const Actions& actions, Time now) {
  Json line = encode_event(event);
  line["time"] = to_seconds(now);
  line["epoch"] = state.epoch;
  if (std::holds_alternative<RunOpened>(event)) line["format"] = kJournalFormat;
  Json then = encode_consequences(consequences_of(event, state, actions));
  if (!then.empty()) line["then"] = std::move(then);
  const std::string text = encode_json(line) + "\n";
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(file_.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const arrow::Status failed = errno_status("cannot write the journal");
      // A half-written line in the middle would spoil the journal.
      return written == 0 ? failed : failed & remove_torn_line("the journal", file_.get());
    }
    written += static_cast<size_t>(count);
  }
  return arrow::Status::OK();
}

arrow::Status Journal::sync() {
  ARROW_RETURN_NOT_OK(fail_point("journal.sync"));
  if (::fdatasync(file_.get()) != 0) return errno_status("cannot sync the journal");
  return arrow::Status::OK();
}

arrow::Result<int64_t> journal_format(const Json& line) {
  const auto found = line.find("format");
  if (found == line.end()) return 1;
  if (!found->is_number_integer() || *found < 1) return arrow::Status::Invalid("\"format\" is no format's number");
  const auto format = found->get<int64_t>();
  if (format <= kJournalFormat) return format;
  return arrow::Status::NotImplemented("a later Paceline wrote it, in format ", format,
                                       "; this one reads formats up to ", kJournalFormat,
                                       ": use the Paceline that ran it, or a later one");
}

bool JournalEpochs::take(const Json& line) {
  const auto epoch = line.is_object() ? line.find("epoch") : line.end();
  if (epoch == line.end() || !epoch->is_number_integer()) return true;
  const auto number = epoch->get<int64_t>();
  if (number < last_) return false;
  if (line.value("event", Json()) == RunOpened::kType) last_ = number;
  return true;
}

arrow::Result<JournalEntry> decode_journal_entry(const Json& line) {
  // The format first: what a later Paceline wrote need not decode.
  if (line.is_object()) ARROW_RETURN_NOT_OK(journal_format(line).status());
  ARROW_ASSIGN_OR_RAISE(Event event, decode_event(line));
  const auto time = line.find("time");
  if (time == line.end() || !time->is_number()) return arrow::Status::Invalid("no time");
  return JournalEntry{std::move(event), from_seconds(time->get<double>())};
}

std::string JournalDamage::text(const std::string& run_folder) const {
  return journal_path(run_folder) + " is damaged in line " + std::to_string(line) + ": " + why;
}

arrow::Result<std::optional<JournalDamage>> read_journal(const std::string& run_folder,
                                                         const std::function<void(const Event&, Time)>& entry) {
  const std::string path = journal_path(run_folder);
  std::ifstream file(path);
  if (!file) return arrow::Status::IOError("cannot read ", path);
  std::string text;
  JournalDamage at;
  JournalEpochs epochs;
  for (at.line = 1; std::getline(file, text); ++at.line) {
    if (file.eof()) break;  // no newline: torn
    const auto line = [&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(const Json json, decode_json(text));
      ARROW_ASSIGN_OR_RAISE(const JournalEntry read, decode_journal_entry(json));
      if (epochs.take(json)) entry(read.event, read.time);
      return arrow::Status::OK();
    }();
    if (line.IsNotImplemented()) return line.WithMessage(path, ": ", line.message());
    if (!line.ok()) {
      at.why = line.message();
      return at;
    }
    at.offset += static_cast<int64_t>(text.size()) + 1;
  }
  if (file.bad()) return arrow::Status::IOError("cannot read ", path);
  return std::nullopt;
}

arrow::Result<std::optional<RunState>> replay(const std::string& run_folder) {
  std::optional<RunState> state;
  if (::access(journal_path(run_folder).c_str(), F_OK) != 0) return state;
  ARROW_RETURN_NOT_OK(read_journal(run_folder, [&state](const Event& event, Time time) {
                        if (!state) state.emplace();
                        decide(*state, event, time);
                      }).status());
  return state;
}

}  // namespace paceline::run
