#include "paceline/storage/storage_proof.h"

#include <cstdio>
#include <random>

#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

arrow::Status check_at(const std::string& place, const arrow::Result<std::string>& got, const std::string& wanted) {
  if (got.ok() && *got == wanted) return arrow::Status::OK();
  const std::string found = got.ok() ? "holds another run's proof" : got.status().message();
  return arrow::Status::IOError("this worker does not see the run's storage that the driver writes: ", place, " ",
                                found,
                                "; use a storage path that every node sees as the same: a shared file system, "
                                "or an object store with credentials on every node");
}

}  // namespace

arrow::Result<std::string> write_storage_proof(const std::string& folder, Storage* objects) {
  std::random_device random;
  char text[17];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  ARROW_RETURN_NOT_OK(make_folders(folder));
  ARROW_RETURN_NOT_OK(write_atomically(folder + "/" + run_layout::kStorageProof, text));
  if (objects != nullptr) ARROW_RETURN_NOT_OK(objects->write(run_layout::kStorageProof, text));
  return std::string(text);
}

arrow::Status check_storage_proof(const std::string& folder, const Location& location, const std::string& wanted) {
  ARROW_RETURN_NOT_OK(check_folder_proof(folder, wanted));
  return location.is_uri() ? check_object_proof(location, wanted) : arrow::Status::OK();
}

arrow::Status check_folder_proof(const std::string& folder, const std::string& wanted) {
  const std::string file = folder + "/" + run_layout::kStorageProof;
  return check_at(file, read_file(file), wanted);
}

arrow::Status check_object_proof(const Location& uri, const std::string& wanted) {
  ARROW_ASSIGN_OR_RAISE(const auto objects, open_storage(uri));
  return check_at(objects->location(run_layout::kStorageProof).text(), read_whole(*objects, run_layout::kStorageProof),
                  wanted);
}

}  // namespace paceline::storage
