#include "paceline/transport/trust.h"

#include <sys/random.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "paceline/core/posix/descriptor.h"
#include "paceline/transport/crypto_internal.h"

namespace paceline::transport {
namespace {

constexpr long kDay = 24 * 60 * 60;

// The functions; whoever calls it has asked crypto() whether they are there.
const Crypto& ssl() {
  return *crypto();
}

struct Free {
  void operator()(EVP_PKEY* key) const { ssl().EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { ssl().X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { ssl().X509_EXTENSION_free(extension); }
  void operator()(BIGNUM* number) const { ssl().BN_free(number); }
  void operator()(BIO* memory) const { ssl().BIO_free(memory); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Memory = std::unique_ptr<BIO, Free>;

arrow::Status crypto_error(const char* what) {
  const unsigned long code = ssl().ERR_get_error();
  const char* const reason = code == 0 ? nullptr : ssl().ERR_reason_error_string(code);
  ssl().ERR_clear_error();
  return arrow::Status::IOError("OpenSSL cannot ", what, ": ", reason == nullptr ? "no reason given" : reason);
}

arrow::Status fill_randomly(std::span<unsigned char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return errno_status("getrandom");
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return arrow::Status::OK();
}

arrow::Result<std::string> make_token() {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<unsigned char, 32> bytes;
  ARROW_RETURN_NOT_OK(fill_randomly(bytes));
  std::string token;
  unsigned bits = 0, count = 0;
  for (const unsigned char byte : bytes) {
    bits = (bits << 8) | byte;
    for (count += 8; count >= 6; count -= 6) token.push_back(kDigits[(bits >> (count - 6)) & 63]);
  }
  token.push_back(kDigits[(bits << (6 - count)) & 63]);
  ::explicit_bzero(bytes.data(), bytes.size());
  return token;
}

arrow::Status add_extension(X509& certificate, X509& issuer, int kind, const char* value) {
  X509V3_CTX context;
  ssl().X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free> extension(ssl().X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  if (!extension || ssl().X509_add_ext(&certificate, extension.get(), -1) != 1) {
    return crypto_error("extend a certificate");
  }
  return arrow::Status::OK();
}

struct Extension {
  int kind;
  const char* value;
};

// A certificate of `key` for `name`, signed by the issuer; by itself where there is none.
arrow::Result<Certificate> make_certificate(const char* name, EVP_PKEY& key, X509* issuer, EVP_PKEY& issuer_key,
                                            std::span<const Extension> extensions) {
  Certificate certificate(ssl().X509_new());
  if (!certificate) return crypto_error("make a certificate");
  std::array<unsigned char, 16> serial;
  ARROW_RETURN_NOT_OK(fill_randomly(serial));
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Free> number(ssl().BN_bin2bn(serial.data(), serial.size(), nullptr));
  X509_NAME* const subject = ssl().X509_get_subject_name(certificate.get());
  const bool is_named =
      ssl().X509_set_version(certificate.get(), 2) == 1 && number &&
      ssl().BN_to_ASN1_INTEGER(number.get(), ssl().X509_get_serialNumber(certificate.get())) != nullptr &&
      ssl().X509_gmtime_adj(ssl().X509_getm_notBefore(certificate.get()), -kDay) != nullptr &&
      ssl().X509_gmtime_adj(ssl().X509_getm_notAfter(certificate.get()), 366 * kDay) != nullptr &&
      ssl().X509_set_pubkey(certificate.get(), &key) == 1 &&
      ssl().X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1,
                                       -1, 0) == 1;
  X509* const signer = issuer == nullptr ? certificate.get() : issuer;
  if (!is_named || ssl().X509_set_issuer_name(certificate.get(), ssl().X509_get_subject_name(signer)) != 1) {
    return crypto_error("make a certificate");
  }
  for (const Extension& extension : extensions) {
    ARROW_RETURN_NOT_OK(add_extension(*certificate, *signer, extension.kind, extension.value));
  }
  if (ssl().X509_sign(certificate.get(), &issuer_key, ssl().EVP_sha256()) == 0)
    return crypto_error("sign a certificate");
  return certificate;
}

template <class Write>
arrow::Result<std::string> as_pem(Write write) {
  const Memory memory(ssl().BIO_new(ssl().BIO_s_mem()));
  if (!memory || write(memory.get()) != 1) return crypto_error("write PEM");
  char* text = nullptr;
  const long size = ssl().BIO_ctrl(memory.get(), BIO_CTRL_INFO, 0, &text);
  std::string pem(text, static_cast<size_t>(size));
  ::explicit_bzero(text, static_cast<size_t>(size));
  return pem;
}

arrow::Result<std::string> as_pem(X509& certificate) {
  return as_pem([&](BIO* out) { return ssl().PEM_write_bio_X509(out, &certificate); });
}

arrow::Result<std::string> as_pem(EVP_PKEY& key) {
  return as_pem(
      [&](BIO* out) { return ssl().PEM_write_bio_PrivateKey(out, &key, nullptr, nullptr, 0, nullptr, nullptr); });
}

}  // namespace

arrow::Result<Trust> make_trust() {
  ARROW_RETURN_NOT_OK(crypto());
  const auto make_key = [] { return Key(ssl().EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")); };
  const Key authority_key = make_key(), controller_key = make_key(), agent_key = make_key();
  if (!authority_key || !controller_key || !agent_key) return crypto_error("make a key");

  static constexpr Extension kAuthority[] = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                             {NID_key_usage, "critical,keyCertSign"},
                                             {NID_subject_key_identifier, "hash"}};
  static constexpr Extension kController[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                              {NID_key_usage, "critical,digitalSignature"},
                                              {NID_ext_key_usage, "serverAuth"},
                                              {NID_subject_alt_name, "DNS:paceline-controller"},
                                              {NID_authority_key_identifier, "keyid"}};
  static constexpr Extension kAgent[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                         {NID_key_usage, "critical,digitalSignature"},
                                         {NID_ext_key_usage, "clientAuth"},
                                         {NID_subject_alt_name, "DNS:paceline-agent"},
                                         {NID_authority_key_identifier, "keyid"}};
  ARROW_ASSIGN_OR_RAISE(const Certificate authority,
                        make_certificate("Paceline run", *authority_key, nullptr, *authority_key, kAuthority));
  ARROW_ASSIGN_OR_RAISE(const Certificate controller, make_certificate(kControllerName, *controller_key,
                                                                       authority.get(), *authority_key, kController));
  ARROW_ASSIGN_OR_RAISE(const Certificate agent,
                        make_certificate("paceline-agent", *agent_key, authority.get(), *authority_key, kAgent));

  Trust trust;
  ARROW_ASSIGN_OR_RAISE(trust.controller.token, make_token());
  ARROW_ASSIGN_OR_RAISE(trust.controller.authority, as_pem(*authority));
  trust.agent = trust.controller;
  ARROW_ASSIGN_OR_RAISE(trust.controller.certificate, as_pem(*controller));
  ARROW_ASSIGN_OR_RAISE(trust.controller.key, as_pem(*controller_key));
  ARROW_ASSIGN_OR_RAISE(trust.agent.certificate, as_pem(*agent));
  ARROW_ASSIGN_OR_RAISE(trust.agent.key, as_pem(*agent_key));
  return trust;
}

bool is_same_token(const std::string& one, const std::string& other) {
  if (one.size() != other.size()) return false;
  volatile unsigned char difference = 0;  // so that no compiler ends the loop early
  for (size_t i = 0; i < one.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (one[i] ^ other[i]));
  }
  return difference == 0;
}

arrow::Result<std::string> random_id() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, 16> bytes;
  ARROW_RETURN_NOT_OK(fill_randomly(bytes));
  std::string id;
  for (const unsigned char byte : bytes) {
    id.push_back(kDigits[byte >> 4]);
    id.push_back(kDigits[byte & 15]);
  }
  return id;
}

}  // namespace paceline::transport
