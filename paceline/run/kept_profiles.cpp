#include "paceline/run/kept_profiles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "paceline/core/json.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/policy/failure_text.h"
#include "paceline/storage/local/durable.h"

namespace paceline::run {
namespace {

namespace fs = std::filesystem;

// Equal problems of several processes are said once: "ranks 0-3: …".
std::vector<std::string> problems_of(const stacks::Profiles& taken) {
  std::vector<std::string> all;
  std::map<std::string, std::vector<int64_t>> ranks;
  for (const stacks::Profile& profile : taken) {
    for (const std::string& problem : profile.problems) {
      if (!ranks.contains(problem)) all.push_back(problem);
      std::vector<int64_t>& of_problem = ranks[problem];
      if (profile.rank >= 0) of_problem.push_back(profile.rank);
    }
  }
  for (std::string& problem : all) {
    const std::vector<int64_t>& those = ranks.at(problem);
    if (those.empty()) continue;
    problem = (those.size() == 1 ? "rank " : "ranks ") + policy::ranges_text(those) + ": " + problem;
  }
  return all;
}

// A folder in that of all profiles, by a name that the listing has given; none where there is a link.
Descriptor open_listed(const std::string& all_profiles, const std::string& name) {
  const Descriptor all(::open(all_profiles.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return Descriptor(::openat(all.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// The same by any name: none for one that is not in the listing.
Descriptor open_named(const std::string& all_profiles, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator entry(all_profiles, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string() == name) return open_listed(all_profiles, name);
  }
  return {};
}

// IOError where there is no such file.
arrow::Result<std::string> read_in(const Descriptor& folder, const char* file) {
  const Descriptor opened(::openat(folder.get(), file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat what{};
  if (!opened || ::fstat(opened.get(), &what) != 0) return errno_status(std::string("reading ") + file);
  if (!S_ISREG(what.st_mode)) return arrow::Status::IOError(file, " is no file");
  if (what.st_size > kMostProfileBytes) {
    return arrow::Status::IOError(file, " has ", what.st_size, " bytes; profiles have at most ", kMostProfileBytes);
  }
  std::string bytes(static_cast<size_t>(what.st_size), '\0');
  ARROW_ASSIGN_OR_RAISE(const size_t read, storage::read_at(opened, file, 0, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(read);
  return bytes;
}

// What its note says; nothing where there is none, or a damaged one.
std::optional<KeptProfile> note_in(const Descriptor& folder, const std::string& name) {
  const auto text = read_in(folder, run_layout::kProfileNote);
  if (!text.ok()) return std::nullopt;
  const auto json = decode_json(*text);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  try {
    auto profile = json->get<KeptProfile>();
    profile.name = name;
    return profile;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

arrow::Result<stacks::Profiles> lines_in(const Descriptor& folder) {
  ARROW_ASSIGN_OR_RAISE(const std::string lines, read_in(folder, run_layout::kProfileLines));
  return stacks::decode_profiles(lines);
}

// What the listing looks for comes last: half a profile is none.
arrow::Status write_files(const std::string& folder, const KeptProfile& profile, const stacks::Profiles& taken,
                          const Timelines& timelines, const std::string& run_name) {
  for (const auto& [rank, timeline] : timelines) {
    ARROW_RETURN_NOT_OK(storage::write_atomically(folder + run_layout::timeline_of(rank), timeline));
  }
  const Json shown = stacks::to_speedscope(taken, "run " + run_name);
  ARROW_RETURN_NOT_OK(storage::write_atomically(folder + run_layout::kProfileSpeedscope, encode_json(shown) + "\n"));
  ARROW_RETURN_NOT_OK(storage::write_atomically(folder + run_layout::kProfileNote, encode_json(profile) + "\n"));
  return storage::write_atomically(folder + run_layout::kProfileLines, stacks::encode_lines(taken));
}

KeptProfile without_note(const std::string& name, const stacks::Profiles& taken) {
  return described({.name = name, .time = time_of_profile(name)}, taken);
}

}  // namespace

std::string profile_name(Time asked) {
  return paceline::to_string(asked);
}

double time_of_profile(const std::string& name) {
  std::tm time{};
  const char* const rest = ::strptime(name.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (rest == nullptr) return 0;
  int milliseconds = 0;  // three digits, as profile_name() writes them
  if (*rest == '.' && std::all_of(rest + 1, rest + 4, [](char letter) { return letter >= '0' && letter <= '9'; })) {
    std::from_chars(rest + 1, rest + 4, milliseconds);
  }
  return static_cast<double>(::timegm(&time)) + milliseconds / 1e3;
}

KeptProfile described(KeptProfile profile, const stacks::Profiles& taken) {
  profile.samples = {};
  std::set<int64_t> ranks;
  std::optional<double> sampled_s;
  for (const stacks::Profile& one : taken) {
    if (!one.ways.empty()) sampled_s = std::max(sampled_s.value_or(0), one.seconds);
    if (one.rank >= 0) ranks.insert(one.rank);
    for (const stacks::ThreadProfile& thread : one.threads) {
      int64_t& samples = profile.samples[thread.language];
      for (const stacks::CountedStack& stack : thread.stacks) samples += stack.count;
    }
  }
  if (sampled_s) profile.seconds = *sampled_s;
  profile.ranks = {ranks.begin(), ranks.end()};
  profile.problems = problems_of(taken);
  return profile;
}

arrow::Status keep_profile(const std::string& run_folder, const KeptProfile& profile, const stacks::Profiles& taken,
                           const Timelines& timelines, const std::string& run_name) {
  const std::string relative = std::string(run_layout::kProfiles) + "/" + profile.name;
  ARROW_RETURN_NOT_OK(storage::make_folders_below(run_folder, relative));
  const std::string folder = run_folder + "/" + relative + "/";
  const arrow::Status written = write_files(folder, profile, taken, timelines, run_name);
  if (written.ok()) return written;
  std::error_code error;
  fs::remove_all(folder, error);
  return written;
}

arrow::Status prune_profiles(const std::string& run_folder, const std::string& newest, ProfileLimits limits) {
  const fs::path all = run_folder + "/" + run_layout::kProfiles;
  struct Folder {
    std::string name;
    int64_t bytes = 0;
    bool stays = false;
  };
  std::vector<Folder> folders;
  std::error_code error;
  for (fs::directory_iterator entry(all, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->symlink_status().type() != fs::file_type::directory) continue;
    Folder folder{.name = entry->path().filename().string()};
    folder.stays = folder.name == newest || fs::exists(entry->path() / run_layout::kPinnedProfile);
    for (fs::directory_iterator file(entry->path(), error); !error && file != end; file.increment(error)) {
      std::error_code gone;
      const auto bytes = file->is_regular_file(gone) ? file->file_size(gone) : 0;
      if (!gone) folder.bytes += static_cast<int64_t>(bytes);
    }
    folders.push_back(std::move(folder));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return arrow::Status::IOError("reading ", all.string(), ": ", error.message());
  }
  std::ranges::sort(folders, {}, &Folder::name);  // which is the time
  int64_t bytes = 0;
  for (const Folder& folder : folders) bytes += folder.bytes;
  size_t left = folders.size();
  for (const Folder& folder : folders) {
    if (left <= limits.most && bytes <= limits.most_bytes) break;
    if (folder.stays) continue;
    fs::remove_all(all / folder.name, error);
    if (error) return arrow::Status::IOError("removing ", (all / folder.name).string(), ": ", error.message());
    --left;
    bytes -= folder.bytes;
  }
  return arrow::Status::OK();
}

arrow::Result<std::vector<KeptProfile>> list_kept_profiles(const std::string& run_folder) {
  std::vector<KeptProfile> all;
  const std::string folder = run_folder + "/" + run_layout::kProfiles;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const Descriptor opened = open_listed(folder, name);
    struct stat what{};
    if (!opened || ::fstatat(opened.get(), run_layout::kProfileLines, &what, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (auto noted = note_in(opened, name)) {
      all.push_back(*std::move(noted));
    } else if (const auto taken = lines_in(opened); taken.ok() && !taken->empty()) {
      all.push_back(without_note(name, *taken));
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return arrow::Status::IOError("reading ", folder, ": ", error.message());
  }
  std::ranges::sort(all, [](const KeptProfile& one, const KeptProfile& other) {
    return std::tie(one.time, one.name) > std::tie(other.time, other.name);
  });
  return all;
}

arrow::Result<ReadProfile> read_kept_profile(const std::string& run_folder, const std::string& name) {
  const Descriptor folder = open_named(run_folder + "/" + run_layout::kProfiles, name);
  if (!folder) return arrow::Status::KeyError("the run in ", run_folder, " has no profile \"", name, "\"");
  ReadProfile read;
  ARROW_ASSIGN_OR_RAISE(read.taken, lines_in(folder));
  if (read.taken.empty()) {
    return arrow::Status::IOError("the profile ", name, " of the run in ", run_folder,
                                  " is damaged: no line of its samples can be read");
  }
  read.profile = note_in(folder, name).value_or(without_note(name, read.taken));
  return read;
}

arrow::Result<std::string> read_timeline(const std::string& run_folder, const std::string& name, int64_t rank) {
  const Descriptor folder = open_named(run_folder + "/" + run_layout::kProfiles, name);
  auto timeline = folder ? read_in(folder, run_layout::timeline_of(rank).c_str()) : arrow::Status::IOError("");
  if (timeline.ok()) return timeline;
  return arrow::Status::KeyError("the run in ", run_folder, " has no timeline of rank ", rank, " in a profile \"", name,
                                 "\"");
}

}  // namespace paceline::run
