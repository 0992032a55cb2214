#include "paceline/checkpoint/damage.h"

#include <memory>

namespace paceline::checkpoint {
namespace {

class Damage final : public arrow::StatusDetail {
 public:
  static constexpr char kType[] = "paceline::checkpoint::Damage";
  const char* type_id() const override { return kType; }
  std::string ToString() const override { return "damage"; }
};

template <class... Parts>
arrow::Status damage(const Parts&... parts) {
  static const auto detail = std::make_shared<Damage>();
  return arrow::Status::IOError(parts...).WithDetail(detail);
}

}  // namespace

arrow::Status missing_file(const std::string& file, int64_t wanted_bytes) {
  return damage("checkpoint file ", file, " is missing; wanted ", wanted_bytes, " bytes");
}

arrow::Status wrong_size(const std::string& file, int64_t got, int64_t wanted) {
  return damage("checkpoint file ", file, " has ", got, " bytes; wanted ", wanted);
}

arrow::Status wrong_checksum(const std::string& file, const std::string& got, const std::string& wanted) {
  return damage("checkpoint file ", file, " is damaged: its checksum is ", got, ", wanted ", wanted);
}

arrow::Status is_link(const std::string& file) {
  return damage("checkpoint file ", file, " is a link, which a checkpoint has none of: it is not followed");
}

arrow::Status no_manifest(const std::string& message) {
  return damage(message);
}

bool is_damage(const arrow::Status& status) {
  return status.detail() != nullptr && status.detail()->type_id() == Damage::kType;
}

}  // namespace paceline::checkpoint
