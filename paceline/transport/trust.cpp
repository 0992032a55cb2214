#include "paceline/transport/trust.h"

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/random.h>

#include <array>
#include <memory>
#include <span>

#include "paceline/core/posix/descriptor.h"

namespace paceline::transport {
namespace {

constexpr long kDay = 24 * 60 * 60;

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free>>;

arrow::Status crypto_error(const char* what) {
  const unsigned long code = ERR_get_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
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
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return token;
}

arrow::Status add_extension(X509& certificate, X509& issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  if (!extension || X509_add_ext(&certificate, extension.get(), -1) != 1) {
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
  Certificate certificate(X509_new());
  if (!certificate) return crypto_error("make a certificate");
  std::array<unsigned char, 16> serial;
  ARROW_RETURN_NOT_OK(fill_randomly(serial));
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Free<BN_free>> number(BN_bin2bn(serial.data(), serial.size(), nullptr));
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const bool is_named = X509_set_version(certificate.get(), 2) == 1 && number &&
                        BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr &&
                        X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDay) != nullptr &&
                        X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 366 * kDay) != nullptr &&
                        X509_set_pubkey(certificate.get(), &key) == 1 &&
                        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                   reinterpret_cast<const unsigned char*>(name), -1, -1, 0) == 1;
  X509* const signer = issuer == nullptr ? certificate.get() : issuer;
  if (!is_named || X509_set_issuer_name(certificate.get(), X509_get_subject_name(signer)) != 1) {
    return crypto_error("make a certificate");
  }
  for (const Extension& extension : extensions) {
    ARROW_RETURN_NOT_OK(add_extension(*certificate, *signer, extension.kind, extension.value));
  }
  if (X509_sign(certificate.get(), &issuer_key, EVP_sha256()) == 0) return crypto_error("sign a certificate");
  return certificate;
}

template <class Write>
arrow::Result<std::string> as_pem(Write write) {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (!memory || write(memory.get()) != 1) return crypto_error("write PEM");
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  std::string pem(text, static_cast<size_t>(size));
  OPENSSL_cleanse(text, static_cast<size_t>(size));
  return pem;
}

arrow::Result<std::string> as_pem(X509& certificate) {
  return as_pem([&](BIO* out) { return PEM_write_bio_X509(out, &certificate); });
}

arrow::Result<std::string> as_pem(EVP_PKEY& key) {
  return as_pem([&](BIO* out) { return PEM_write_bio_PrivateKey(out, &key, nullptr, nullptr, 0, nullptr, nullptr); });
}

}  // namespace

arrow::Result<Trust> make_trust() {
  const auto make_key = [] { return Key(EVP_EC_gen("P-256")); };
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
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
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
