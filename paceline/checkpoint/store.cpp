#include "paceline/checkpoint/store.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp()

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "paceline/checkpoint/damage.h"
#include "paceline/checkpoint/object_checkpoint.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/core/fail_point.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::checkpoint {
namespace {

namespace fs = std::filesystem;

// Whether there is something of that name; IOError when the file system does not tell.
arrow::Result<bool> is_there(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) return arrow::Status::IOError("examining ", path, ": ", error.message());
  return fs::exists(status);
}

arrow::Status rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return errno_status("renaming " + from + " to " + to);
  return arrow::Status::OK();
}

// Both at once. NotImplemented where the file system cannot do that.
arrow::Status exchange_folders(const std::string& one, const std::string& other) {
  const arrow::Status may = fail_point("publish.exchange");
  if (!may.ok()) return arrow::Status::NotImplemented(may.message());
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return arrow::Status::OK();
  const bool unknown = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
  arrow::Status status = errno_status("exchanging " + one + " with " + other);
  return unknown ? arrow::Status::NotImplemented(status.message()) : status;
}

struct Part {
  int64_t rank = 0;
  std::string relative;  // the stage's folder
  bool is_sent = false;  // it is in the object store
  std::string stage;
  std::string folder;  // with the files: the stage's, or one of the run's own
  Manifest manifest;
};

// Name of the folder into which ranks have put their files themselves, "" for none. All of them, and `wanted` if it is
// given, must be one.
arrow::Result<std::string> name_of_folder_in_place(const std::vector<Part>& parts, const std::string& wanted) {
  const Part* first = nullptr;
  for (const Part& part : parts) {
    const std::string& name = part.manifest.name;
    if (name.empty()) continue;
    if (first == nullptr) first = &part;
    if (name != first->manifest.name) {
      return arrow::Status::Invalid("ranks have put files of one checkpoint into different folders: rank ", first->rank,
                                    " into \"", first->manifest.name, "\", rank ", part.rank, " into \"", name,
                                    "\"; use one folder on all ranks");
    }
    if (!wanted.empty() && name != wanted) {
      return arrow::Status::Invalid("rank ", part.rank, " has put its files into the folder \"", name,
                                    "\", but the checkpoint is to be called \"", wanted, "\"; use one name");
    }
  }
  return first == nullptr ? "" : first->manifest.name;
}

arrow::Result<std::string> read_if_there(const std::string& path) {
  auto text = storage::read_file(path);
  if (text.ok()) return text;
  ARROW_ASSIGN_OR_RAISE(const bool exists, is_there(path));
  return exists ? text.status() : arrow::Status::KeyError("there is no file ", path);
}

// In the order of ranks, with the rank entered in every file.
arrow::Result<std::vector<Part>> read_parts(const std::string& run_folder, std::vector<StagedPart> staged,
                                            const storage::Storage* objects) {
  std::sort(staged.begin(), staged.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::vector<Part> parts;
  for (const auto& [rank, relative] : staged) {
    Part part{.rank = rank, .relative = relative, .stage = run_folder + "/" + relative};
    auto here = read_if_there(part.stage + kPartEnding);
    part.is_sent = objects != nullptr && here.status().IsKeyError();
    if (part.is_sent) here = storage::read_whole(*objects, relative + kPartEnding);
    if (here.status().IsKeyError()) return arrow::Status::IOError("of rank ", rank, ": ", here.status().message());
    ARROW_ASSIGN_OR_RAISE(const std::string text, std::move(here));
    auto manifest = decode_manifest(text);
    if (!manifest.ok()) {
      return arrow::Status::IOError("the part of rank ", rank, " in ", part.stage, ": ", manifest.status().message());
    }
    part.manifest = std::move(manifest).ValueUnsafe();
    part.folder = part.manifest.name.empty() ? part.stage : run_folder + "/" + part.manifest.name;
    for (auto& [name, file] : part.manifest.files) file.rank = rank;
    parts.push_back(std::move(part));
  }
  return parts;
}

// Moves the files that stay into `folder` and makes its tree durable but for its top, which the manifest's write syncs.
arrow::Status move_files(const std::vector<Part>& parts, const std::string& folder) {
  std::set<fs::path> folders;
  std::set<std::string> taken;
  bool has_metadata = false;
  for (const Part& part : parts) {
    for (const auto& [name, file] : part.manifest.files) {
      if (!taken.insert(name).second) continue;
      const fs::path to = fs::path(folder) / name;
      for (fs::path level = to.parent_path(); level != fs::path(folder); level = level.parent_path()) {
        if (!folders.insert(level).second) break;
      }
      if (part.folder == folder) continue;  // it stands there already
      ARROW_RETURN_NOT_OK(storage::make_folders_below(folder, fs::path(name).parent_path()));
      ARROW_RETURN_NOT_OK(rename(part.folder + "/" + name, to.string()));
    }
    ARROW_ASSIGN_OR_RAISE(const bool has_notes, is_there(part.folder + "/" + kMetadataName));
    if (has_metadata || !has_notes) continue;
    has_metadata = true;
    if (part.folder == folder) continue;
    ARROW_RETURN_NOT_OK(rename(part.folder + "/" + kMetadataName, folder + "/" + kMetadataName));
  }
  for (const fs::path& level : folders) ARROW_RETURN_NOT_OK(storage::sync(level.string()));
  return arrow::Status::OK();
}

// The local folder of a run, as one driver has it.
struct RunFolder {
  std::string path;
  std::string staging;                  // relative
  std::function<arrow::Status()> gate;  // says whether a change is allowed, right before it is made
};

arrow::Status put_together(const std::vector<Part>& parts, const Manifest& manifest, const RunFolder& run,
                           const std::string& name) {
  const std::string folder = run.path + "/" + name;
  ARROW_RETURN_NOT_OK(fail_point("publish.before_merge"));
  ARROW_RETURN_NOT_OK(storage::make_folders_below(run.path, name));
  ARROW_RETURN_NOT_OK(move_files(parts, folder));
  ARROW_RETURN_NOT_OK(fail_point("publish.before_manifest"));
  ARROW_RETURN_NOT_OK(run.gate());
  return storage::write_atomically(folder + "/" + kManifestName, encode_manifest(manifest));
}

// Of files that several ranks have, the lowest rank's.
arrow::Result<std::vector<StagedFile>> files_to_upload(const std::vector<Part>& parts,
                                                       const storage::Storage& objects) {
  std::vector<StagedFile> files;
  std::set<std::string> taken;
  for (const Part& part : parts) {
    const std::string folder = (part.is_sent ? part.relative : part.folder) + "/";
    for (const auto& [name, file] : part.manifest.files) {
      if (taken.insert(name).second) files.push_back({name, folder + name, part.is_sent});
    }
    const std::string notes = folder + kMetadataName;
    if (taken.contains(kMetadataName)) continue;
    bool has_notes = is_there(notes).ValueOr(false);
    if (part.is_sent) {
      ARROW_ASSIGN_OR_RAISE(const auto sent, objects.list(part.relative));
      has_notes = std::ranges::find(sent, notes, &storage::FileSize::name) != sent.end();
    }
    if (!has_notes) continue;
    taken.insert(kMetadataName);
    files.push_back({kMetadataName, notes, part.is_sent});
  }
  return files;
}

arrow::Status remove_stages(const std::vector<Part>& parts, storage::Storage* objects) {
  for (const Part& part : parts) {
    if (part.is_sent) {
      ARROW_RETURN_NOT_OK(objects->remove(part.relative + kPartEnding));
      ARROW_RETURN_NOT_OK(objects->remove_below(part.relative));
      continue;
    }
    ARROW_RETURN_NOT_OK(storage::remove_all(part.stage));
    ARROW_RETURN_NOT_OK(storage::remove_all(part.stage + kPartEnding));
  }
  return arrow::Status::OK();
}

Published published(const storage::Location& path, const Manifest& manifest) {
  const PublishedCheckpoint checkpoint{.report = manifest.report,
                                       .name = folder_name(manifest.name, manifest.report),
                                       .metrics = manifest.metrics,
                                       .time = manifest.time};
  return {checkpoint, path};
}

// The manifest of a folder of the run's; nullopt for what is no checkpoint.
arrow::Result<std::optional<Manifest>> manifest_of(const std::string& folder) {
  auto found = find_manifest_in(folder);
  if (found.ok()) return std::optional(std::move(found->manifest));
  if (found.status().IsKeyError() || found.status().IsInvalid()) return std::nullopt;
  return found.status().IsIOError() ? found.status()
                                    : found.status().WithMessage(folder, "/", found.status().message());
}

// A new folder in the driver's part of `.staging`, relative to the run's, that nobody else has or will have: a
// publisher of an earlier driver may hang there and wake up.
arrow::Result<std::string> make_own_folder(const RunFolder& run, const std::string& name) {
  ARROW_RETURN_NOT_OK(storage::make_folders_below(run.path, run.staging));
  const std::string relative = run.staging + "/" + name + "_XXXXXX";
  std::string path = run.path + "/" + relative;
  if (::mkdtemp(path.data()) == nullptr) return errno_status("making folder " + path);
  // Not for its owner alone, as mkdtemp() makes it: it may become the checkpoint.
  std::error_code error;
  const fs::perms wanted = fs::status(run.path, error).permissions();
  if (!error) fs::permissions(path, wanted, error);
  if (error) return arrow::Status::IOError("setting who may read ", path, ": ", error.message());
  return path.substr(run.path.size() + 1);
}

// Moves what is under that name to where it is deleted, at once as far as readers can see. With `unless_checkpoint`,
// what has become a checkpoint meanwhile stays: AlreadyExists.
arrow::Status remove_folder(const RunFolder& run, const std::string& name, bool unless_checkpoint) {
  const std::string path = run.path + "/" + name;
  ARROW_ASSIGN_OR_RAISE(const bool exists, is_there(path));
  if (!exists) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const std::string own, make_own_folder(run, run_layout::kDeleted + name));
  const std::string doomed = run.path + "/" + own;
  ARROW_RETURN_NOT_OK(run.gate());
  ARROW_RETURN_NOT_OK(storage::move(path, doomed + "/" + name));
  if (unless_checkpoint && manifest_of(doomed + "/" + name).ValueOr(std::nullopt)) {
    ARROW_RETURN_NOT_OK(storage::move(doomed + "/" + name, path));
    return arrow::Status::AlreadyExists(path, " has become another driver's checkpoint");
  }
  ARROW_RETURN_NOT_OK(fail_point("remove.after_rename"));
  return storage::remove_all(doomed);
}

// Whether a checkpoint takes the place of one that has its name.
bool may_replace(const Manifest& earlier, const Manifest& about, const std::string& name) {
  return belongs(earlier, name) && !run_layout::is_checkpoint_folder(name) && earlier.report < about.report;
}

// Whether a new checkpoint may have the name, which is made free if it may be. `in_place`: its files stand there
// already. True where a checkpoint stands there whose place it takes.
arrow::Result<bool> claim_name(const RunFolder& run, const std::string& name, const Manifest& about, bool in_place) {
  const std::string target = run.path + "/" + name;
  ARROW_ASSIGN_OR_RAISE(const bool exists, is_there(target));
  if (!exists) return false;
  ARROW_ASSIGN_OR_RAISE(const auto manifest, manifest_of(target));
  if (manifest && may_replace(*manifest, about, name)) return true;
  if (manifest) return name_is_taken(target, name, *manifest);
  if (in_place) return false;
  if (!run_layout::is_checkpoint_folder(name)) return name_is_used(target);
  ARROW_RETURN_NOT_OK(fail_point("publish.before_removal"));
  ARROW_RETURN_NOT_OK(remove_folder(run, name, /*unless_checkpoint=*/true));
  return false;
}

// Brings the folder, which is complete, to its place. Of what is replaced the folder's former path is left.
arrow::Status show_folder(const std::string& folder, Manifest& about, const RunFolder& run, std::string& name,
                          bool replaces) {
  if (!replaces) return rename(folder, run.path + "/" + name);
  arrow::Status exchanged = exchange_folders(folder, run.path + "/" + name);
  if (!exchanged.IsNotImplemented()) return exchanged;
  name = about.name = name_beside(name, about.report);
  ARROW_RETURN_NOT_OK(storage::write_atomically(folder + "/" + kManifestName, encode_manifest(about)));
  return rename(folder, run.path + "/" + name);
}

// Makes the staged files a checkpoint in the run's folder. `name`, and the manifest's, may have to become another.
arrow::Status publish_folder(const std::vector<Part>& staged, Manifest& about, const RunFolder& run, std::string& name,
                             bool in_place) {
  ARROW_ASSIGN_OR_RAISE(const bool replaces, claim_name(run, name, about, in_place));
  if (in_place) return put_together(staged, about, run, name);
  ARROW_ASSIGN_OR_RAISE(const std::string temporary,
                        make_own_folder(run, run_layout::kPublishing + std::to_string(about.report)));
  const std::string folder = run.path + "/" + temporary;
  auto status = put_together(staged, about, run, temporary);
  if (status.ok()) status = fail_point("publish.before_rename");
  if (status.ok()) status = run.gate();
  if (status.ok()) status = show_folder(folder, about, run, name, replaces);
  // The first error says more; what has been replaced goes with the rest of `.staging` if not now.
  if (!status.ok() || replaces) (void)storage::remove_all(folder);
  return status;
}

// Whether the folder in the object store has a checkpoint whose place the new one takes.
arrow::Result<bool> has_replaceable(const storage::Storage& run, const std::string& name, const Manifest& about) {
  const std::string path = name + "/" + kManifestName;
  ARROW_ASSIGN_OR_RAISE(const auto files, run.list(name));
  if (std::ranges::find(files, path, &storage::FileSize::name) == files.end()) return false;
  ARROW_ASSIGN_OR_RAISE(const std::string text, storage::read_whole(run, path));
  const auto manifest = decode_manifest(text);
  return manifest.ok() && may_replace(*manifest, about, name);
}

// Behind the moment from which readers can see it.
arrow::Status tidy_up(const std::vector<Part>& staged, const std::string& run_folder, storage::Storage* objects) {
  const bool is_local = objects == nullptr;
  if (is_local) ARROW_RETURN_NOT_OK(fail_point("publish.after_rename"));
  const arrow::Status synced = is_local ? storage::sync(run_folder) : arrow::Status::OK();
  const arrow::Status removed = remove_stages(staged, objects);
  return synced.ok() ? removed : synced;
}

}  // namespace

arrow::Status check_folder_name(const std::string& name) {
  if (name.empty() || name.find_first_of(std::string("/\0", 2)) != std::string::npos || name.size() > 255) {
    return arrow::Status::Invalid("allowed: a name of at most 255 characters without \"/\"");
  }
  if (name.starts_with('.')) return arrow::Status::Invalid("allowed: a name that does not begin with \".\"");
  if (run_layout::is_reserved(name))
    return arrow::Status::Invalid("that is a name of Paceline's own in the run's folder; give it another");
  if (run_layout::is_checkpoint_folder(name)) {
    return arrow::Status::Invalid("checkpoint_ and a number is what reports without a name of their own are called");
  }
  return arrow::Status::OK();
}

Store::Store(std::string run_folder, std::shared_ptr<storage::Storage> objects, std::string folder_ending)
    : run_folder_(std::move(run_folder)), objects_(std::move(objects)), folder_ending_(std::move(folder_ending)) {}

void Store::belong_to(std::string driver, std::function<arrow::Status()> gate) {
  driver_ = std::move(driver);
  if (gate) gate_ = std::move(gate);
}

arrow::Result<Store> Store::at(const storage::Location& location) {
  if (!location.is_uri()) return Store(location.text());
  ARROW_ASSIGN_OR_RAISE(auto objects, storage::open_storage(location));
  return Store("", std::move(objects));
}

storage::Location Store::path_of(const std::string& name) const {
  return objects_ ? objects_->location(name) : storage::Location(run_folder_ + "/" + name);
}

arrow::Result<Published> Store::publish(const std::vector<StagedPart>& parts, Manifest about) {
  ARROW_ASSIGN_OR_RAISE(const std::vector<Part> staged, read_parts(run_folder_, parts, objects_.get()));
  std::vector<Manifest> manifests;
  for (const Part& part : staged) manifests.push_back(part.manifest);
  ARROW_ASSIGN_OR_RAISE(const Manifest merged, merge(manifests));
  about.files = merged.files;
  about.tensors = merged.tensors;
  about.values = merged.values;

  ARROW_ASSIGN_OR_RAISE(const std::string in_place, name_of_folder_in_place(staged, about.name));
  const std::string own = folder_name(in_place.empty() ? about.name : in_place, about.report);
  std::string name = objects_ ? own + folder_ending_ : own;
  if (objects_ && !run_layout::is_checkpoint_folder(name)) {
    ARROW_ASSIGN_OR_RAISE(const bool replaces, has_replaceable(*objects_, name, about));
    if (replaces) name = name_beside(name, about.report);
  }
  about.name = name == run_layout::checkpoint_folder(about.report) ? "" : name;
  std::vector<StagedFile> files;
  if (objects_) {
    ARROW_ASSIGN_OR_RAISE(files, files_to_upload(staged, *objects_));
  }
  arrow::Status done = objects_ ? publish_objects(*objects_, name, files, about)
                                : publish_folder(staged, about, {run_folder_, run_layout::staging(driver_), gate_},
                                                 name, !in_place.empty());
  if (!done.ok()) {
    const bool may_be_there = !objects_ && !done.IsAlreadyExists();
    if (!may_be_there || manifest_of(path_of(name).text()).ValueOr(std::nullopt) != about) return done;
  }
  const arrow::Status tidied = tidy_up(staged, run_folder_, objects_.get());
  if (done.ok()) done = tidied;
  Published result = published(path_of(name), about);
  if (!done.ok()) result.warning = name + " is published, but then: " + done.message();
  return result;
}

arrow::Result<std::vector<Published>> Store::list() const {
  if (objects_) return list_objects();
  std::vector<Published> checkpoints;
  std::error_code error;
  for (fs::directory_iterator entry(run_folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code no_folder;
    if (run_layout::is_reserved(name) || !fs::is_directory(entry->path(), no_folder)) continue;
    ARROW_ASSIGN_OR_RAISE(const auto manifest, manifest_of(entry->path().string()));
    if (manifest && belongs(*manifest, name)) checkpoints.push_back(published(entry->path().string(), *manifest));
  }
  if (error) return arrow::Status::IOError("reading folder ", run_folder_, ": ", error.message());
  std::sort(checkpoints.begin(), checkpoints.end(), [](const auto& a, const auto& b) { return a.report < b.report; });
  return checkpoints;
}

// A driver that was stopped may have sent a manifest for which its successor has deleted the files.
arrow::Result<std::vector<Published>> Store::list_objects(std::vector<std::string>* replaced) const {
  ARROW_ASSIGN_OR_RAISE(const ObjectFolders folders, list_object_folders(*objects_));
  const std::vector<std::pair<std::string, std::map<std::string, int64_t>>> listed(folders.checkpoints.begin(),
                                                                                   folders.checkpoints.end());
  std::vector<std::optional<Published>> found(listed.size());
  ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(found.size(), [&](size_t index) -> arrow::Status {
    const auto& [name, sizes] = listed[index];
    const auto at = find_object_manifest(*objects_, name);
    if (at.ok() && belongs(at->manifest, name) && has_files(at->manifest, sizes)) {
      found[index] = published(objects_->location(name), at->manifest);
    }
    // Deleted meanwhile, or damaged.
    if (at.ok() || at.status().IsKeyError() || at.status().IsInvalid()) return arrow::Status::OK();
    return at.status().IsIOError() ? at.status()
                                   : at.status().WithMessage(objects_->location(name), "/", at.status().message());
  }));
  // Of one report the last generation's, whose name has the longest ending.
  const auto rank = [](const Published& one) { return std::pair(one.name.size(), one.name); };
  std::map<int64_t, Published> by_report;
  for (auto& one : found) {
    if (!one) continue;
    Published& known = by_report.try_emplace(one->report, *one).first->second;
    if (rank(known) == rank(*one)) continue;
    if (rank(known) < rank(*one)) std::swap(known, *one);
    if (replaced != nullptr) replaced->push_back(one->name);
  }
  std::vector<Published> checkpoints;
  for (const auto& [report, one] : by_report) checkpoints.push_back(one);
  return checkpoints;
}

arrow::Status Store::remove(const std::string& name) {
  return objects_
             ? remove_objects(*objects_, name)
             : remove_folder({run_folder_, run_layout::staging(driver_), gate_}, name, /*unless_checkpoint=*/false);
}

arrow::Status Store::discard_stages(Attempt attempt, WorkerId worker) {
  if (expects_sent_stages_) ARROW_RETURN_NOT_OK(objects_->remove_below(run_layout::stages(attempt, worker, driver_)));
  return storage::remove_all(run_folder_ + "/" + run_layout::stages(attempt, worker, driver_));
}

arrow::Status Store::collect_leftovers() {
  ARROW_RETURN_NOT_OK(fail_point("store.collect"));
  ARROW_RETURN_NOT_OK(gate_());
  ARROW_RETURN_NOT_OK(storage::remove_all(run_folder_ + "/" + run_layout::kStaging));
  ARROW_RETURN_NOT_OK(storage::remove_temporary_files(run_folder_));
  if (objects_) {
    ARROW_RETURN_NOT_OK(objects_->remove_below(run_layout::kStaging));
    ARROW_ASSIGN_OR_RAISE(const ObjectFolders folders, list_object_folders(*objects_));
    for (const std::string& name : folders.leftovers) ARROW_RETURN_NOT_OK(objects_->remove_below(name));
    std::vector<std::string> replaced;
    ARROW_RETURN_NOT_OK(list_objects(&replaced).status());
    for (const std::string& name : replaced) ARROW_RETURN_NOT_OK(remove_objects(*objects_, name));
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(const auto checkpoints, list());
  for (const Published& checkpoint : checkpoints)
    ARROW_RETURN_NOT_OK(storage::remove_temporary_files(checkpoint.path.text()));
  return arrow::Status::OK();
}

arrow::Result<Manifest> read_manifest(const storage::Location& checkpoint_path) {
  ARROW_ASSIGN_OR_RAISE(const auto folder, storage::open_storage(checkpoint_path));
  auto found = find_object_manifest(*folder);
  if (found.ok()) return std::move(found->manifest);
  const std::string why = found.status().message();
  if (found.status().IsKeyError()) {
    return no_manifest(checkpoint_path.text() + " is not a checkpoint of Paceline's: " + why +
                       "; read files of your own through Checkpoint.as_directory(), and give the folder itself, such "
                       "as RUN/checkpoint_000042, not the run's");
  }
  return found.status().IsIOError() ? found.status() : no_manifest(checkpoint_path.text() + "/" + why);
}

arrow::Result<FoundManifest> find_manifest_in(const std::string& folder) {
  return find_manifest([&folder](const std::string& name) { return read_if_there(folder + "/" + name); });
}

arrow::Status check_sizes(const storage::Location& checkpoint_path, const Manifest& manifest) {
  if (checkpoint_path.is_uri()) {
    ARROW_ASSIGN_OR_RAISE(const auto folder, storage::open_storage(checkpoint_path));
    return check_object_sizes(*folder, manifest);
  }
  for (const auto& [name, wanted] : manifest.files) {
    const std::string path = checkpoint_path + "/" + name;
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error == std::errc::no_such_file_or_directory) return missing_file(path, wanted.size);
    if (error) return arrow::Status::IOError("reading checkpoint file ", path, ": ", error.message());
    if (static_cast<int64_t>(size) != wanted.size) return wrong_size(path, static_cast<int64_t>(size), wanted.size);
  }
  return arrow::Status::OK();
}

namespace {

// A folder from somebody else must not tell what files elsewhere hold.
arrow::Status refuse_links(const fs::path& folder, const fs::path& name) {
  for (fs::path part = name; !part.empty(); part = part.parent_path()) {
    std::error_code error;
    if (fs::is_symlink(folder / part, error)) return is_link((folder / part).string());
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Status verify(const storage::Location& checkpoint_path, const std::stop_token& given_up) {
  ARROW_ASSIGN_OR_RAISE(const Manifest manifest, read_manifest(checkpoint_path));
  if (checkpoint_path.is_uri()) {
    ARROW_ASSIGN_OR_RAISE(const auto folder, storage::open_storage(checkpoint_path));
    return verify_objects(*folder, manifest, given_up);
  }
  for (const auto& [name, wanted] : manifest.files) ARROW_RETURN_NOT_OK(refuse_links(checkpoint_path.text(), name));
  ARROW_RETURN_NOT_OK(check_sizes(checkpoint_path, manifest));
  for (const auto& [name, wanted] : manifest.files) {
    const std::string path = checkpoint_path + "/" + name;
    const auto got = storage::checksum_of_file(path, given_up);
    if (got.status().IsCancelled()) return verification_given_up(checkpoint_path.text());
    ARROW_RETURN_NOT_OK(got);
    if (got->checksum != wanted.checksum) return wrong_checksum(path, got->checksum, wanted.checksum);
  }
  return arrow::Status::OK();
}

}  // namespace paceline::checkpoint
