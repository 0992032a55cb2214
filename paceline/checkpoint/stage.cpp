#include "paceline/checkpoint/stage.h"

#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/fail_point.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::checkpoint {
namespace {

namespace fs = std::filesystem;

arrow::Status check_tensor(const TensorBytes& tensor) {
  ARROW_ASSIGN_OR_RAISE(const int64_t wanted, byte_count(tensor.dtype, tensor.shape));
  if (static_cast<int64_t>(tensor.bytes.size()) != wanted) {
    return arrow::Status::Invalid("tensor \"", tensor.name, "\" has ", tensor.bytes.size(), " bytes; wanted ", wanted,
                                  " for ", to_string(tensor.shape), " of ", tensor.dtype);
  }
  return arrow::Status::OK();
}

// Of a folder that may be a checkpoint, or a copy of one; nullopt for one of the user's own.
arrow::Result<std::optional<FoundManifest>> manifest_in(const std::string& folder) {
  auto found = find_manifest_in(folder);
  if (found.ok()) return std::optional(std::move(found).ValueUnsafe());
  if (found.status().IsKeyError()) return std::nullopt;
  if (found.status().IsIOError()) return found.status();
  return arrow::Status::Invalid(folder, "/", kManifestName,
                                " has the name of a checkpoint's own manifest but is none (", found.status().message(),
                                "); give the file another name");
}

}  // namespace

Stage::Stage(std::string run_folder, std::string relative)
    : run_folder_(std::move(run_folder)), relative_(std::move(relative)), folder_(run_folder_ + "/" + relative_) {}

std::string stage_of(const Identity& identity, int64_t number, const std::string& driver) {
  return run_layout::stage(identity.attempt, identity.worker, number, driver);
}

// The part last: a stage without one is never published.
arrow::Status Stage::send(const std::string& run_folder, const std::string& relative, storage::Storage& objects) {
  const std::string folder = run_folder + "/" + relative;
  ARROW_ASSIGN_OR_RAISE(const std::string text, storage::read_file(folder + kPartEnding));
  ARROW_ASSIGN_OR_RAISE(const Manifest part, decode_manifest(text));
  ARROW_ASSIGN_OR_RAISE(const auto files, storage::files_below(folder));
  ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(files.size(), [&](size_t index) -> arrow::Status {
    const std::string& name = files[index];
    ARROW_ASSIGN_OR_RAISE(const auto sum, objects.upload(folder + "/" + name, relative + "/" + name));
    const auto wanted = part.files.find(name);
    if (wanted == part.files.end() || wanted->second.checksum == sum.checksum) return arrow::Status::OK();
    return arrow::Status::IOError(folder, "/", name, " has changed since it was staged");
  }));
  ARROW_RETURN_NOT_OK(fail_point("stage.before_sent_part"));
  ARROW_RETURN_NOT_OK(objects.write(relative + kPartEnding, text));
  return discard(run_folder, relative);
}

arrow::Status Stage::discard(const std::string& run_folder, const std::string& relative) {
  // The part first: a folder without one is never published.
  ARROW_RETURN_NOT_OK(storage::remove_all(run_folder + "/" + relative + kPartEnding));
  return storage::remove_all(run_folder + "/" + relative);
}

arrow::Result<Stage> Stage::create(const std::string& run_folder, const Identity& identity, int64_t number,
                                   const std::string& driver) {
  Stage stage(run_folder, stage_of(identity, number, driver));
  stage.part_.attempt = identity.attempt.value;
  stage.part_.report = number;
  ARROW_RETURN_NOT_OK(storage::remove_all(stage.folder_));
  ARROW_RETURN_NOT_OK(storage::remove_all(stage.folder_ + kPartEnding));
  ARROW_RETURN_NOT_OK(stage.make_folder_of("file"));
  return stage;
}

// Not synced: of a stage only the files must be durable, their names become so when they are published.
arrow::Status Stage::make_folder_of(const std::string& file) {
  return storage::make_folders_below(run_folder_, (fs::path(relative_) / file).parent_path());
}

arrow::Status Stage::write_tensors(const std::string& file, const std::vector<TensorBytes>& tensors,
                                   const std::string& item) {
  const auto name_in_manifest = [&item](const std::string& name) { return item.empty() ? name : item + "/" + name; };
  std::map<std::string, const TensorBytes*> by_name;
  std::vector<SafetensorsEntry> entries;
  for (const TensorBytes& tensor : tensors) {
    ARROW_RETURN_NOT_OK(check_tensor(tensor));
    if (part_.tensors.contains(name_in_manifest(tensor.name))) {
      return arrow::Status::Invalid("tensor \"", tensor.name, "\" is in this checkpoint already");
    }
    by_name[tensor.name] = &tensor;
    entries.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
  }
  ARROW_ASSIGN_OR_RAISE(const SafetensorsHead head, encode_safetensors(std::move(entries)));
  ARROW_RETURN_NOT_OK(make_folder_of(file));
  ARROW_ASSIGN_OR_RAISE(auto writer, storage::FileWriter::create(folder_ + "/" + file));
  ARROW_RETURN_NOT_OK(writer.append(std::as_bytes(std::span(head.bytes))));
  for (const SafetensorsEntry& entry : head.entries) {
    const TensorBytes& tensor = *by_name.at(entry.name);
    storage::Checksum checksum;
    ARROW_RETURN_NOT_OK(writer.append(tensor.bytes, &checksum));
    part_.tensors[name_in_manifest(entry.name)] = {.dtype = tensor.dtype,
                                                   .shape = tensor.global_shape,
                                                   .slices = {{.file = file,
                                                               .offset = entry.offset,
                                                               .size = entry.size,
                                                               .start = tensor.start,
                                                               .shape = tensor.shape,
                                                               .checksum = checksum.hex()}}};
  }
  ARROW_ASSIGN_OR_RAISE(const auto sum, writer.finish());
  part_.files[file] = {.size = sum.size, .checksum = sum.checksum};
  return arrow::Status::OK();
}

void Stage::add_value(const std::string& item, Json value) {
  part_.values[item] = std::move(value);
}

arrow::Status Stage::copy_folder(const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(const auto files, storage::files_below(folder));
  ARROW_ASSIGN_OR_RAISE(const auto manifest, manifest_in(folder));
  for (const std::string& file : files) {
    if (manifest && file == manifest->file) continue;
    ARROW_RETURN_NOT_OK(make_folder_of(file));
    ARROW_ASSIGN_OR_RAISE(const auto sum, storage::copy_file(folder + "/" + file, folder_ + "/" + file));
    if (file != kMetadataName) part_.files[file] = {.size = sum.size, .checksum = sum.checksum};
  }
  if (manifest) take_over(manifest->manifest);
  return arrow::Status::OK();
}

arrow::Status Stage::adopt_folder(const std::string& name) {
  part_.name = name;
  ARROW_ASSIGN_OR_RAISE(const auto files, storage::files_below(place()));
  ARROW_ASSIGN_OR_RAISE(const auto manifest, manifest_in(place()));
  std::set<fs::path> folders;
  for (const std::string& file : files) {
    const std::string path = place() + "/" + file;
    folders.insert(fs::path(path).parent_path());
    if ((manifest && file == manifest->file) || file == kMetadataName) continue;
    ARROW_ASSIGN_OR_RAISE(const auto sum, storage::checksum_of_file(path));
    part_.files[file] = {.size = sum.size, .checksum = sum.checksum};
  }
  // The publisher syncs the folders into which it moves files; these are moved by nobody.
  for (const fs::path& folder : folders) ARROW_RETURN_NOT_OK(storage::sync(folder.string()));
  if (manifest) take_over(manifest->manifest);
  return arrow::Status::OK();
}

arrow::Status Stage::take_over_from(const std::string& relative) {
  const std::string path = run_folder_ + "/" + relative + kPartEnding;
  ARROW_ASSIGN_OR_RAISE(const std::string text, storage::read_file(path));
  const auto part = decode_manifest(text);
  if (!part.ok()) return arrow::Status::Invalid(path, ": ", part.status().message());
  take_over(*part);
  return arrow::Status::OK();
}

void Stage::take_over(const Manifest& manifest) {
  const auto unchanged = [&](const Slice& slice) {
    const auto file = part_.files.find(slice.file);
    const auto& wanted = manifest.files.at(slice.file);
    return file != part_.files.end() && file->second.size == wanted.size && file->second.checksum == wanted.checksum;
  };
  for (const auto& [name, tensor] : manifest.tensors) {
    if (std::all_of(tensor.slices.begin(), tensor.slices.end(), unchanged)) part_.tensors.emplace(name, tensor);
  }
  for (const auto& [item, value] : manifest.values.items()) part_.values.emplace(item, value);
}

// One at a time each file would wait for a commit of the file system's journal of its own.
arrow::Status Stage::sync_files() const {
  constexpr size_t kMany = 1000;
  if (part_.files.size() > kMany) return storage::sync_file_system(place());
  std::vector<std::string> names;
  for (const auto& [name, file] : part_.files) names.push_back(name);
  return storage::for_each_in_parallel(names.size(),
                                       [&](size_t index) { return storage::sync(place() + "/" + names[index]); });
}

// Nobody could read them again.
arrow::Status Stage::check_depth() const {
  for (const auto& [item, value] : part_.values.items()) {
    if (!is_too_deep(value, 2)) continue;
    return arrow::Status::Invalid("the state of \"", item,
                                  "\" is nested too deeply to be kept as JSON: wanted at most ", kDeepestJson - 2,
                                  " levels");
  }
  return arrow::Status::OK();
}

arrow::Result<std::string> Stage::finish() {
  ARROW_RETURN_NOT_OK(check_depth());
  ARROW_RETURN_NOT_OK(fail_point("stage.before_sync"));
  ARROW_RETURN_NOT_OK(sync_files());
  if (const std::string metadata = place() + "/" + kMetadataName; fs::exists(metadata)) {
    ARROW_RETURN_NOT_OK(storage::sync(metadata));
  }
  ARROW_RETURN_NOT_OK(fail_point("stage.before_part"));
  const std::string text = encode_manifest(part_);
  ARROW_ASSIGN_OR_RAISE(auto writer, storage::FileWriter::create(folder_ + kPartEnding));
  ARROW_RETURN_NOT_OK(writer.append(std::as_bytes(std::span(text))));
  ARROW_RETURN_NOT_OK(writer.finish());
  return relative_;
}

}  // namespace paceline::checkpoint
