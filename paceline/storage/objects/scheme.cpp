#include "paceline/storage/objects/scheme.h"

#include <arrow/filesystem/filesystem.h>
#include <arrow/util/config.h>

#include <algorithm>

#include "paceline/storage/objects/custom_internal.h"
#include "paceline/storage/objects/s3_internal.h"
#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

#ifdef ARROW_S3
constexpr bool kHasS3 = true;
#else
constexpr bool kHasS3 = false;
#endif
#ifdef ARROW_GCS
constexpr bool kHasGoogle = true;
#else
constexpr bool kHasGoogle = false;
#endif
#ifdef ARROW_AZURE
constexpr bool kHasAzure = true;
#else
constexpr bool kHasAzure = false;
#endif

arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> open_as_arrow_does(const std::string& uri, std::string* path) {
  return arrow::fs::FileSystemFromUri(uri, path);
}

const std::vector<Scheme>& rows() {
  static const std::vector<Scheme> rows = {
      {.names = {"s3"},
       .arrow_type = "s3",
       .service = "S3",
       .written = "s3://BUCKET/FOLDER",
       .credentials = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws or an instance role",
       .open_options = {"region", "endpoint_override", "scheme", "allow_bucket_creation", "allow_bucket_deletion",
                        "tls_ca_file_path", "tls_ca_dir_path"},
       .is_built_in = kHasS3,
       .open = &open_s3},
      {.names = {"gs", "gcs"},
       .arrow_type = "gcs",
       .service = "Google Cloud Storage",
       .written = "gs://BUCKET/FOLDER",
       .credentials = "GOOGLE_APPLICATION_CREDENTIALS",
       .open_options = {"endpoint_override", "scheme", "retry_limit_seconds"},
       .is_built_in = kHasGoogle,
       .open = &open_as_arrow_does},
      {.names = {"abfs", "abfss"},
       .arrow_type = "abfs",
       .service = "Azure Blob Storage",
       .written = "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER",
       .credentials = "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET",
       .open_options = {"enable_tls", "blob_storage_authority", "dfs_storage_authority", "credential_kind"},
       .has_host = true,
       .is_built_in = kHasAzure,
       .open = &open_as_arrow_does},
      {.names = {kCustomScheme},
       .service = "a file system of the program's own",
       .written = "custom://TYPE/FOLDER",
       .credentials = "what the file system was made with",
       .is_custom = true,
       .is_built_in = true,
       .open = &open_custom},
  };
  return rows;
}

}  // namespace

std::span<const Scheme> schemes() {
  return rows();
}

const Scheme* scheme_of(std::string_view location) {
  const std::string name = scheme_name(location);
  const auto row = std::ranges::find_if(
      rows(), [&](const Scheme& scheme) { return std::ranges::find(scheme.names, name) != scheme.names.end(); });
  return row == rows().end() ? nullptr : &*row;
}

std::string written_forms() {
  std::vector<std::string_view> forms;
  for (const Scheme& scheme : rows()) {
    if (!scheme.is_custom) forms.push_back(scheme.written);
  }
  std::string text;
  for (const std::string_view& form : forms) {
    if (!text.empty()) text += &form == &forms.back() ? " or " : ", ";
    text += form;
  }
  return text;
}

}  // namespace paceline::storage
