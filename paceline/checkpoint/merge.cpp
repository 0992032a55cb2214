// One manifest from those of the ranks.
#include <algorithm>

#include "paceline/checkpoint/manifest.h"
#include "paceline/checkpoint/overlap_internal.h"

namespace paceline::checkpoint {
namespace {

std::string words(const TensorEntry& tensor) {
  return tensor.dtype + " " + to_string(tensor.shape);
}

int64_t rank_of(const Slice& slice, const FileEntries& files) {
  return files.at(slice.file).rank;
}

// The rank that a part is from; parts without files have no slices either.
std::string rank_words(const Manifest& part) {
  return part.files.empty() ? "a rank" : "rank " + std::to_string(part.files.begin()->second.rank);
}

// Slices inside the tensor cover it exactly when none overlap and their elements are as many as the tensor's.
arrow::Status check_cover(const std::string& name, const TensorEntry& tensor, const FileEntries& files) {
  std::vector<const Slice*> slices;
  int64_t covered = 0;
  for (const Slice& slice : tensor.slices) {
    ARROW_ASSIGN_OR_RAISE(const int64_t count, element_count(slice.shape));
    if (count > 0) slices.push_back(&slice);
    covered += count;
  }
  std::ranges::sort(slices, {}, &Slice::start);
  if (const auto found = find_overlap(slices)) {
    const auto& [a, b] = *found;
    return arrow::Status::Invalid("slices of tensor \"", name, "\" overlap: rank ", rank_of(*a, files), " wrote ",
                                  to_string(a->shape), " at ", to_string(a->start), ", rank ", rank_of(*b, files),
                                  " wrote ", to_string(b->shape), " at ", to_string(b->start));
  }
  ARROW_ASSIGN_OR_RAISE(const int64_t wanted, element_count(tensor.shape));
  if (covered == wanted) return arrow::Status::OK();
  std::string ranks;
  for (const Slice* slice : slices) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank_of(*slice, files));
  return arrow::Status::Invalid("slices of tensor \"", name, "\" leave a gap: ranks ", ranks.empty() ? "(none)" : ranks,
                                " wrote ", covered, " elements; wanted ", wanted, " for ", words(tensor));
}

}  // namespace

arrow::Result<Manifest> merge(const std::vector<Manifest>& parts) {
  if (parts.empty()) return arrow::Status::Invalid("a checkpoint needs the part of at least one rank");
  Manifest merged = parts.front();
  merged.files.clear();
  merged.tensors.clear();
  std::map<std::string, const Manifest*> file_from;
  std::map<std::string, const Manifest*> tensor_from;
  for (const Manifest& part : parts) {
    for (const auto& [name, file] : part.files) {
      if (merged.files.emplace(name, file).second) file_from[name] = &part;
    }
    for (const auto& [item, value] : part.values.items()) merged.values.emplace(item, value);
    for (const auto& [name, tensor] : part.tensors) {
      const auto first = tensor_from.emplace(name, &part).first;
      TensorEntry& target = merged.tensors[name];
      if (first->second == &part) {
        target.dtype = tensor.dtype;
        target.shape = tensor.shape;
      } else if (target.dtype != tensor.dtype || target.shape != tensor.shape) {
        return arrow::Status::Invalid("ranks disagree about tensor \"", name, "\": ", rank_words(*first->second),
                                      " has ", words(target), ", ", rank_words(part), " has ", words(tensor));
      }
      for (const Slice& slice : tensor.slices) {
        const auto owner = file_from.find(slice.file);
        if (owner == file_from.end()) return arrow::Status::Invalid("tensor \"", name, "\" is in no file");
        if (owner->second == &part) target.slices.push_back(slice);
      }
    }
  }
  for (const auto& [name, tensor] : merged.tensors) ARROW_RETURN_NOT_OK(check_cover(name, tensor, merged.files));
  return merged;
}

}  // namespace paceline::checkpoint
