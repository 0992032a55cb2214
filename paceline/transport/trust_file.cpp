#include "paceline/transport/trust_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "paceline/core/json.h"
#include "paceline/core/record.h"

namespace paceline::transport {
namespace {

constexpr int64_t kFormat = 1;
constexpr size_t kMaxTextBytes = size_t{64} << 10;

using Strings = std::vector<std::string>;

#define PACELINE_TRUST_TEXT_FIELDS(FIELD)                         \
  FIELD(int64_t, paceline_trust, 0) /* the format of this text */ \
  FIELD(std::string, run, "")                                     \
  FIELD(Strings, addresses, {})                                   \
  FIELD(double, lease_s, 0.0)                                     \
  FIELD(std::string, token, "")                                   \
  FIELD(std::string, authority, "")                               \
  FIELD(std::string, certificate, "")                             \
  FIELD(std::string, key, "")
PACELINE_RECORD(TrustText, PACELINE_TRUST_TEXT_FIELDS);

arrow::Status wrong_field(const char* field) {
  return arrow::Status::Invalid("not a Paceline trust file: the field ", field, " is missing or wrong");
}

bool is_token(const std::string& text) {
  return !text.empty() && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
                              std::string::npos;
}

arrow::Status write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return ::fsync(file) == 0 ? arrow::Status::OK() : errno_status("fsync");
}

// Of the open file, so that nobody can exchange it in between.
arrow::Status check_is_private(int file, const std::string& path) {
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return errno_status("cannot look at " + path);
  if (!S_ISREG(facts.st_mode)) return arrow::Status::Invalid(path, " is not a file");
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0) {
    return arrow::Status::Invalid(path, " belongs to another user, who could replace it");
  }
  if ((facts.st_mode & 077) != 0) {
    return arrow::Status::Invalid("others may read or write ", path, ", which holds a secret: chmod 600 ", path);
  }
  return arrow::Status::OK();
}

// File systems without locks say nothing of who holds a file. Open for writing: NFS locks no other.
arrow::Status check_is_free(const std::string& path) {
  const Descriptor there(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!there || ::flock(there.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return arrow::Status::OK();
  const auto file = read_trust_file(path);
  return arrow::Status::AlreadyExists("the token file ", path, " is in use: ", file.ok() ? "run " + file->run : "a run",
                                      " that wrote it still goes on", file.ok() ? " at " + file->addresses.front() : "",
                                      ". Name another token file for this run, or end that one first");
}

}  // namespace

std::string encode_trust_file(const TrustFile& file) {
  const TrustText text{.paceline_trust = kFormat,
                       .run = file.run,
                       .addresses = file.addresses,
                       .lease_s = file.lease_s,
                       .token = file.credentials.token,
                       .authority = file.credentials.authority,
                       .certificate = file.credentials.certificate,
                       .key = file.credentials.key};
  return encode_json(Json(text)) + "\n";
}

arrow::Result<TrustFile> decode_trust_file(std::string_view text) {
  // Errors of the JSON parser quote the text, which is a secret.
  const auto json = decode_json(text);
  if (!json.ok() || !json->is_object()) return arrow::Status::Invalid("not a Paceline trust file: no JSON object");
  TrustText read;
  try {
    read = json->get<TrustText>();
  } catch (const Json::exception&) {
    return arrow::Status::Invalid("not a Paceline trust file: a field is of another type");
  }
  if (read.paceline_trust != kFormat) {
    return arrow::Status::Invalid("a Paceline trust file of another format: wanted ", kFormat, ", got ",
                                  read.paceline_trust);
  }
  if (read.run.empty()) return wrong_field("run");
  if (read.addresses.empty()) return wrong_field("addresses");
  if (!(read.lease_s > 0)) return wrong_field("lease_s");
  if (!is_token(read.token)) return wrong_field("token");
  if (!read.authority.starts_with("-----BEGIN CERTIFICATE-----")) return wrong_field("authority");
  if (!read.certificate.starts_with("-----BEGIN CERTIFICATE-----")) return wrong_field("certificate");
  if (!read.key.starts_with("-----BEGIN")) return wrong_field("key");
  return TrustFile{
      .run = read.run,
      .addresses = read.addresses,
      .lease_s = read.lease_s,
      .credentials = {
          .token = read.token, .authority = read.authority, .certificate = read.certificate, .key = read.key}};
}

arrow::Result<Descriptor> write_trust_file(const std::string& path, const TrustFile& file) {
  ARROW_RETURN_NOT_OK(check_is_free(path));
  ARROW_ASSIGN_OR_RAISE(const std::string id, random_id());
  const std::string unfinished = path + "." + id;
  Descriptor out(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!out) return errno_status("cannot make " + unfinished);
  (void)::flock(out.get(), LOCK_EX | LOCK_NB);  // before anybody else can
  arrow::Status status = write_all(out.get(), encode_trust_file(file));
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) status = errno_status("cannot make " + path);
  if (status.ok()) return out;
  ::unlink(unfinished.c_str());
  return status;
}

arrow::Result<TrustFile> read_trust_file(const std::string& path) {
  // O_NONBLOCK: a pipe in its place is refused, not waited for.
  const Descriptor in(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!in) return errno_status("cannot open " + path);
  ARROW_RETURN_NOT_OK(check_is_private(in.get(), path));
  std::string text(kMaxTextBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(in.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status("cannot read " + path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  if (size > kMaxTextBytes) return arrow::Status::Invalid(path, ": not a Paceline trust file: it is too large");
  auto file = decode_trust_file(text);
  if (!file.ok()) return file.status().WithMessage(path, ": ", file.status().message());
  return file;
}

}  // namespace paceline::transport
