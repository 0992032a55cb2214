// The functions of OpenSSL's libcrypto that make certificates (core/crypto_library.h). Thread-safe.
#pragma once

#include <arrow/result.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace paceline::transport {

#define PACELINE_CRYPTO_FUNCTIONS(FUNCTION) \
  FUNCTION(BIO_ctrl)                        \
  FUNCTION(BIO_free)                        \
  FUNCTION(BIO_new)                         \
  FUNCTION(BIO_s_mem)                       \
  FUNCTION(BN_bin2bn)                       \
  FUNCTION(BN_free)                         \
  FUNCTION(BN_to_ASN1_INTEGER)              \
  FUNCTION(ERR_clear_error)                 \
  FUNCTION(ERR_get_error)                   \
  FUNCTION(ERR_reason_error_string)         \
  FUNCTION(EVP_PKEY_Q_keygen)               \
  FUNCTION(EVP_PKEY_free)                   \
  FUNCTION(EVP_sha256)                      \
  FUNCTION(PEM_write_bio_PrivateKey)        \
  FUNCTION(PEM_write_bio_X509)              \
  FUNCTION(X509V3_EXT_conf_nid)             \
  FUNCTION(X509V3_set_ctx)                  \
  FUNCTION(X509_EXTENSION_free)             \
  FUNCTION(X509_NAME_add_entry_by_txt)      \
  FUNCTION(X509_add_ext)                    \
  FUNCTION(X509_free)                       \
  FUNCTION(X509_get_serialNumber)           \
  FUNCTION(X509_get_subject_name)           \
  FUNCTION(X509_getm_notAfter)              \
  FUNCTION(X509_getm_notBefore)             \
  FUNCTION(X509_gmtime_adj)                 \
  FUNCTION(X509_new)                        \
  FUNCTION(X509_set_issuer_name)            \
  FUNCTION(X509_set_pubkey)                 \
  FUNCTION(X509_set_version)                \
  FUNCTION(X509_sign)

/// Members are named like the functions that they point to.
struct Crypto {
#define PACELINE_CRYPTO_MEMBER_(name) decltype(&::name) name = nullptr;
  PACELINE_CRYPTO_FUNCTIONS(PACELINE_CRYPTO_MEMBER_)
#undef PACELINE_CRYPTO_MEMBER_
};

/// Of the whole process, for ever. IOError where libcrypto.so.3 is not there, or lacks one of them.
const arrow::Result<Crypto>& crypto();

}  // namespace paceline::transport
