#include "paceline/storage/objects/transience.h"

#include <arrow/util/io_util.h>

#include <algorithm>
#include <span>

namespace paceline::storage {
namespace {

// Arrow hands on what the SDKs of AWS, Google and Azure say as text.
constexpr const char* kNoBucket[] = {"NO_SUCH_BUCKET",        "NoSuchBucket",     "ContainerNotFound",
                                     "bucket does not exist", "Bucket not found", "notFound: The specified bucket"};
constexpr const char* kNoPermission[] = {"ACCESS_DENIED",
                                         "AccessDenied",
                                         "INVALID_ACCESS_KEY_ID",
                                         "SIGNATURE_DOES_NOT_MATCH",
                                         "UNRECOGNIZED_CLIENT",
                                         "EXPIRED_TOKEN",
                                         "ExpiredToken",
                                         "INVALID_CLIENT_TOKEN_ID",
                                         "MISSING_AUTHENTICATION_TOKEN",
                                         "PERMISSION_DENIED",
                                         "UNAUTHENTICATED",
                                         "AuthenticationFailed",
                                         "AuthorizationFailure",
                                         "AuthorizationPermissionMismatch",
                                         "NoAuthenticationInformation",
                                         "InvalidAuthenticationInfo",
                                         "HTTP status 401",
                                         "HTTP status 403",
                                         "CredentialUnavailable"};
constexpr const char* kNoHost = "Could not resolve host";
constexpr const char* kPermanent[] = {"HTTP status 400",   "HTTP status 404",  "HTTP status 405", "HTTP status 409",
                                      "HTTP status 412",   "INVALID_ARGUMENT", "NOT_FOUND",       "RESOURCE_NOT_FOUND",
                                      "InvalidBucketName", "HTTP status 301",  kNoHost,           "SSL"};

bool contains_any(const std::string& text, std::span<const char* const> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace

bool is_transient(const arrow::Status& status) {
  if (!status.IsIOError()) return false;
  if (arrow::internal::ErrnoFromStatus(status) != 0) return false;  // of this machine
  const std::string text = status.ToString();
  return !contains_any(text, kNoBucket) && !contains_any(text, kNoPermission) && !contains_any(text, kPermanent);
}

std::string remedy(const arrow::Status& status, std::string_view credentials) {
  const std::string text = status.ToString();
  if (contains_any(text, kNoBucket) || text.find("NOT_FOUND") != std::string::npos) {
    return "; make the bucket, or correct its name in the storage path";
  }
  if (contains_any(text, kNoPermission)) {
    return "; give credentials that may read, write, list and delete there: " + std::string(credentials);
  }
  if (text.find(kNoHost) != std::string::npos) {
    return "; correct the host's name (endpoint_override), or this machine's name resolution";
  }
  return "";
}

}  // namespace paceline::storage
