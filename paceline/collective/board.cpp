#include "paceline/collective/board.h"

#include "paceline/core/bytes_text.h"

namespace paceline::collective {

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "all_reduce";
    case Kind::reduce:
      return "reduce";
    case Kind::broadcast:
      return "broadcast";
    case Kind::all_gather:
      return "all_gather";
    case Kind::gather:
      return "gather";
    case Kind::scatter:
      return "scatter";
    case Kind::reduce_scatter:
      return "reduce_scatter";
    case Kind::all_to_all:
      return "all_to_all";
    case Kind::barrier:
      return "barrier";
  }
  return "unknown";
}

std::string Fingerprint::text() const {
  std::string text = to_string(kind);
  const bool reduces = kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
  if (reduces) text += "(" + std::string(to_string(what.reduction)) + ")";
  if (kind == Kind::all_to_all) {  // of which each rank gives as many as it likes
    text += " of " + std::string(to_string(what.element));
  } else if (kind != Kind::barrier) {
    text += " of " + std::to_string(elements) + " " + to_string(what.element) + " (" +
            bytes_text(static_cast<int64_t>(elements * size_of(what.element))) + ")";
  }
  if (shapes != 0) text += " in several parts";
  if (root >= 0) text += " with root " + std::to_string(root);
  return text;
}

std::string Announcement::text() const {
  std::string text = whole.text();
  if (whole.kind == Kind::all_to_all) text += ", " + bytes_text(static_cast<int64_t>(bytes)) + " of it here";
  return text;
}

}  // namespace paceline::collective
