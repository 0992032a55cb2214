#include "paceline/checkpoint/manifest.h"

#include <filesystem>

#include "paceline/core/run_layout.h"
#include "paceline/storage/checksum.h"

namespace paceline::checkpoint {
namespace {

// The text ends with this, 32 digits, and kChecksumEnd: `{…,"checksum":"…"}`.
constexpr std::string_view kChecksumStart = R"(,"checksum":")";
constexpr std::string_view kChecksumEnd = R"("})";
constexpr size_t kChecksumDigits = 32;
constexpr size_t kTailSize = kChecksumStart.size() + kChecksumDigits + kChecksumEnd.size();

std::string sum(std::string_view text) {
  return storage::checksum_of(std::as_bytes(std::span(text)));
}

// A file of a manifest must lie in the checkpoint's folder.
bool is_relative_inside(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return false;
  const std::filesystem::path path(name);
  if (path.is_absolute()) return false;
  for (const auto& part : path) {
    if (part == ".." || part == "." || part.empty()) return false;
  }
  return true;
}

arrow::Status check_slice(const Slice& slice, const TensorEntry& tensor, const FileEntries& files) {
  const auto file = files.find(slice.file);
  if (file == files.end())
    return arrow::Status::Invalid("a slice is in \"", slice.file, "\", which is not a file of it");
  ARROW_ASSIGN_OR_RAISE(const int64_t wanted, byte_count(tensor.dtype, slice.shape));
  if (slice.size != wanted) {
    return arrow::Status::Invalid("a slice ", to_string(slice.shape), " of ", tensor.dtype, " has ", slice.size,
                                  " bytes; wanted ", wanted);
  }
  if (slice.offset < 0 || slice.size > file->second.size || slice.offset > file->second.size - slice.size) {
    return arrow::Status::Invalid("a slice at byte ", slice.offset, " with ", slice.size, " bytes is outside of \"",
                                  slice.file, "\", which has ", file->second.size);
  }
  bool inside = slice.start.size() == tensor.shape.size() && slice.shape.size() == tensor.shape.size();
  for (size_t dim = 0; inside && dim < tensor.shape.size(); ++dim) {
    const int64_t start = slice.start[dim];
    inside = start >= 0 && start <= tensor.shape[dim] && slice.shape[dim] <= tensor.shape[dim] - start;
  }
  if (inside) return arrow::Status::OK();
  return arrow::Status::Invalid("a slice at ", to_string(slice.start), " of shape ", to_string(slice.shape),
                                " is outside of the tensor's ", to_string(tensor.shape));
}

arrow::Status check(const Manifest& manifest) {
  for (const auto& [name, file] : manifest.files) {
    if (!is_relative_inside(name) || file.size < 0) {
      return arrow::Status::Invalid("\"", name, "\" with ", file.size, " bytes cannot be a file of a checkpoint");
    }
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    ARROW_RETURN_NOT_OK(byte_count(tensor.dtype, tensor.shape));
    for (const auto& slice : tensor.slices) {
      const auto status = check_slice(slice, tensor, manifest.files);
      if (!status.ok()) return arrow::Status::Invalid("tensor \"", name, "\": ", status.message());
    }
  }
  return arrow::Status::OK();
}

arrow::Status check_version(const Json& json) {
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (!json.is_object() || version == json.end() || !version->is_number_integer()) {
    return arrow::Status::Invalid("not a manifest of a checkpoint: no \"version\"");
  }
  if (version->get<int64_t>() >= 1 && version->get<int64_t>() <= kManifestVersion) return arrow::Status::OK();
  return arrow::Status::NotImplemented("the manifest has version ", version->dump(),
                                       "; this Paceline reads up to version ", kManifestVersion, ": use a later one");
}

// Without the last member, `checksum`, whose value must be right.
arrow::Status check_checksum(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (text.size() <= kTailSize || !text.ends_with(kChecksumEnd) ||
      !text.substr(text.size() - kTailSize).starts_with(kChecksumStart)) {
    return arrow::Status::Invalid("the manifest does not end with its checksum: it is damaged or was edited");
  }
  const auto wanted = text.substr(text.size() - kTailSize + kChecksumStart.size(), kChecksumDigits);
  const std::string got = sum(text.substr(0, text.size() - kTailSize));
  if (got == wanted) return arrow::Status::OK();
  return arrow::Status::Invalid("the manifest is damaged: its checksum is ", got, ", wanted ", wanted);
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  std::string text = encode_json(Json(manifest));
  text.pop_back();  // the closing brace
  const std::string checksum = sum(text);
  return text.append(kChecksumStart).append(checksum).append(kChecksumEnd).append("\n");
}

arrow::Result<Manifest> decode_manifest(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(const Json json, decode_json(text));
  ARROW_RETURN_NOT_OK(check_version(json));
  ARROW_RETURN_NOT_OK(check_checksum(text));
  Manifest manifest;
  try {
    json.get_to(manifest);
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("not a manifest of a checkpoint: ", error.what());
  }
  ARROW_RETURN_NOT_OK(check(manifest));
  return manifest;
}

arrow::Result<FoundManifest> find_manifest(const ReadFile& read) {
  const auto text = read(kManifestName);
  if (text.ok()) {
    auto manifest = decode_manifest(*text);
    if (manifest.ok()) return FoundManifest{kManifestName, std::move(manifest).ValueUnsafe()};
    return manifest.status().WithMessage(kManifestName, ": ", manifest.status().message());
  }
  if (!text.status().IsKeyError()) return text.status();
  const auto first = read(kFirstManifestName);
  if (first.status().IsKeyError()) return arrow::Status::KeyError("it has no ", kManifestName);
  ARROW_RETURN_NOT_OK(first.status());
  auto manifest = decode_manifest(*first);
  if (manifest.ok() && manifest->version == 1) {
    return FoundManifest{kFirstManifestName, std::move(manifest).ValueUnsafe()};
  }
  return arrow::Status::KeyError("it has no ", kManifestName, ", and its ", kFirstManifestName,
                                 " is none that an earlier Paceline wrote",
                                 manifest.ok() ? "" : ": " + manifest.status().message());
}

std::string folder_name(const std::string& name, int64_t report) {
  return name.empty() ? run_layout::checkpoint_folder(report) : name;
}

std::string name_beside(const std::string& name, int64_t report) {
  return name + ".report_" + std::to_string(report);
}

std::string given_name(const PublishedCheckpoint& checkpoint) {
  const std::string name = folder_name(checkpoint.name, checkpoint.report);
  const std::string ending = name_beside("", checkpoint.report);
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

bool belongs(const Manifest& manifest, const std::string& folder) {
  return folder_name(manifest.name, manifest.report) == folder;
}

arrow::Status name_is_taken(const std::string& location, const std::string& folder,
                            const arrow::Result<Manifest>& manifest) {
  if (!manifest.ok()) return manifest.status().WithMessage(location, ": ", manifest.status().message());
  if (!belongs(*manifest, folder)) {
    return arrow::Status::AlreadyExists("there is a copy of the checkpoint ",
                                        folder_name(manifest->name, manifest->report), " in ", location,
                                        "; move it to where the run has no checkpoints");
  }
  return arrow::Status::AlreadyExists("there is a checkpoint ", location, " of report ", manifest->report, " already");
}

arrow::Status name_is_used(const std::string& location) {
  return arrow::Status::AlreadyExists("there is a folder ", location,
                                      " already, which is no checkpoint; give the checkpoint another name");
}

}  // namespace paceline::checkpoint
