#include <algorithm>
#include <span>

#include "paceline/checkpoint/overlap_internal.h"

namespace paceline::checkpoint {
namespace {

using SliceSpan = std::span<const Slice*>;
using Overlap = std::optional<std::pair<const Slice*, const Slice*>>;

bool have_common_elements(const Slice& a, const Slice& b) {
  for (size_t dim = 0; dim < a.start.size(); ++dim) {
    if (a.start[dim] + a.shape[dim] <= b.start[dim] || b.start[dim] + b.shape[dim] <= a.start[dim]) return false;
  }
  return true;
}

// The slices in the order of `dim`, in groups between which it can be cut: no slice of one reaches into another.
std::vector<SliceSpan> cut_along(SliceSpan slices, size_t dim) {
  std::ranges::stable_sort(slices, {}, [dim](const Slice* slice) { return slice->start[dim]; });
  std::vector<SliceSpan> groups;
  size_t begin = 0;
  int64_t reach = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = *slices[i];
    if (i > begin && slice.start[dim] >= reach) {
      groups.push_back(slices.subspan(begin, i - begin));
      begin = i;
    }
    reach = std::max(reach, slice.start[dim] + slice.shape[dim]);
  }
  groups.push_back(slices.subspan(begin));
  return groups;
}

Overlap compare_all(SliceSpan slices, int64_t* compared) {
  for (size_t i = 0; i < slices.size(); ++i) {
    for (size_t j = i + 1; j < slices.size(); ++j) {
      if (compared != nullptr) ++*compared;
      if (have_common_elements(*slices[i], *slices[j])) return std::pair(slices[i], slices[j]);
    }
  }
  return std::nullopt;
}

// `uncut`: so many dimensions before `dim` have not parted these slices.
Overlap find_among(SliceSpan slices, size_t dim, size_t uncut, int64_t* compared) {
  const size_t dims = slices.empty() ? 0 : slices.front()->start.size();
  if (slices.size() < 2) return std::nullopt;
  if (uncut == dims) return compare_all(slices, compared);
  const std::vector<SliceSpan> groups = cut_along(slices, dim);
  const size_t still_uncut = groups.size() == 1 ? uncut + 1 : 1;
  for (const SliceSpan group : groups) {
    if (auto found = find_among(group, (dim + 1) % dims, still_uncut, compared)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::pair<const Slice*, const Slice*>> find_overlap(const std::vector<const Slice*>& slices,
                                                                  int64_t* compared) {
  std::vector<const Slice*> ordered = slices;
  return find_among(ordered, 0, 0, compared);
}

}  // namespace paceline::checkpoint
