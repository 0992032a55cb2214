#include "paceline/transport/trust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "paceline/core/json.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/transport/trust_file.h"

namespace paceline::transport {
namespace {

using ::paceline::testing::TemporaryFolder;
using ::paceline::testing::write_file;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<X509> certificate_in(const std::string& pem) {
  const std::shared_ptr<BIO> memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  return {PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr), X509_free};
}

// Whether `certificate` may be a server (or client), `seconds` from now, by `authority`.
bool is_valid(const std::string& certificate, const std::string& authority, int purpose, long seconds = 0) {
  const std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  const auto root = certificate_in(authority), leaf = certificate_in(certificate);
  X509_STORE_add_cert(store.get(), root.get());
  const std::shared_ptr<X509_STORE_CTX> context(X509_STORE_CTX_new(), X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_STORE_CTX_set_time(context.get(), 0, std::time(nullptr) + seconds);
  return X509_verify_cert(context.get()) == 1;
}

TEST(Trust, CertificatesAreForTheirEndAndTheirRunOnly) {
  const Trust trust = *make_trust(), other = *make_trust();
  EXPECT_TRUE(is_valid(trust.controller.certificate, trust.agent.authority, X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(is_valid(trust.agent.certificate, trust.controller.authority, X509_PURPOSE_SSL_CLIENT));
  EXPECT_FALSE(is_valid(trust.agent.certificate, trust.agent.authority, X509_PURPOSE_SSL_SERVER))
      << "an agent cannot play the controller";
  EXPECT_FALSE(is_valid(trust.controller.certificate, trust.agent.authority, X509_PURPOSE_SSL_CLIENT));
  EXPECT_FALSE(is_valid(other.controller.certificate, trust.agent.authority, X509_PURPOSE_SSL_SERVER));
  EXPECT_FALSE(is_valid(other.agent.certificate, trust.controller.authority, X509_PURPOSE_SSL_CLIENT));
  EXPECT_EQ(X509_check_host(certificate_in(trust.controller.certificate).get(), kControllerName, 0, 0, nullptr), 1);
}

TEST(Trust, ClocksMayDifferByHours) {
  const Trust trust = *make_trust();
  constexpr long kHour = 3600, kDay = 24 * kHour;
  for (const long seconds : {-23 * kHour, 23 * kHour, 360 * kDay}) {
    EXPECT_TRUE(is_valid(trust.controller.certificate, trust.agent.authority, X509_PURPOSE_SSL_SERVER, seconds));
  }
  EXPECT_FALSE(is_valid(trust.controller.certificate, trust.agent.authority, X509_PURPOSE_SSL_SERVER, 400 * kDay));
}

TEST(Trust, TokensAreTheRunsAndNothingElseIsShared) {
  const Trust trust = *make_trust(), other = *make_trust();
  EXPECT_EQ(trust.controller.token.size(), 43u) << "256 bits, six a character";
  EXPECT_EQ(trust.controller.token, trust.agent.token);
  EXPECT_NE(trust.controller.key, trust.agent.key);
  EXPECT_FALSE(is_same_token(trust.agent.token, other.agent.token));
  EXPECT_FALSE(is_same_token(trust.agent.token, ""));
  EXPECT_FALSE(is_same_token(trust.agent.token, trust.agent.token.substr(1)));
  EXPECT_TRUE(is_same_token(trust.agent.token, trust.controller.token));
  EXPECT_EQ(random_id()->size(), 32u);
  EXPECT_NE(*random_id(), *random_id());
}

class TrustFileTest : public ::testing::Test {
 protected:
  TrustFile file_{.run = "run-1", .addresses = {"10.0.0.1:4100", "[fd00::1]:4100"}, .credentials = make_trust()->agent};
  TemporaryFolder folder_;
  std::string path_ = folder_ / "trust";

  // Whatever goes wrong, the message must not give the secret away.
  void expect_no_secret(const arrow::Status& status) const {
    EXPECT_THAT(status.ToString(), Not(HasSubstr(file_.credentials.token)));
    // A line of the key, as the whole would not be quoted on one.
    EXPECT_THAT(status.ToString(), Not(HasSubstr(file_.credentials.key.substr(40, 30))));
  }
};

TEST_F(TrustFileTest, ComesBackAsItWasWrittenAndIsItsOwnersAlone) {
  ASSERT_TRUE(write_trust_file(path_, file_).ok());
  struct stat facts{};
  ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  const auto read = read_trust_file(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(encode_trust_file(*read), encode_trust_file(file_));
  ASSERT_TRUE(write_trust_file(path_, file_).ok()) << "again, over it";
  EXPECT_EQ(paceline::testing::names_in(folder_.path()), std::vector<std::string>{"trust"});
}

TEST_F(TrustFileTest, IsNotReplacedWhileItsWriterHoldsIt) {
  auto held = write_trust_file(path_, file_).ValueOrDie();
  const arrow::Status second = write_trust_file(path_, file_).status();
  EXPECT_TRUE(second.IsAlreadyExists()) << second;
  EXPECT_THAT(second.message(), HasSubstr(path_ + " is in use: run " + file_.run));
  expect_no_secret(second);
  EXPECT_EQ(paceline::testing::names_in(folder_.path()), std::vector<std::string>{"trust"});
  held.reset();
  EXPECT_TRUE(write_trust_file(path_, file_).ok());
}

TEST_F(TrustFileTest, OneThatOthersMayReadIsRefused) {
  ASSERT_TRUE(write_trust_file(path_, file_).ok());
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  const auto read = read_trust_file(path_);
  EXPECT_TRUE(read.status().IsInvalid());
  EXPECT_THAT(read.status().message(), HasSubstr("chmod 600 " + path_));
}

TEST_F(TrustFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(read_trust_file(path_).status().IsInvalid());
  EXPECT_TRUE(read_trust_file(folder_.path()).status().IsInvalid());
  EXPECT_TRUE(read_trust_file(folder_ / "missing").status().IsIOError());
}

TEST_F(TrustFileTest, NoErrorQuotesFromTheText) {
  const std::string good = encode_trust_file(file_);
  for (size_t size = 0; size + 1 < good.size(); size += 7) {
    const auto read = decode_trust_file(good.substr(0, size));
    ASSERT_TRUE(read.status().IsInvalid());
    expect_no_secret(read.status());
  }
  for (const char* field : {"run", "addresses", "token", "authority", "certificate", "key", "paceline_trust"}) {
    Json text = *decode_json(good);
    text.erase(field);
    EXPECT_THAT(decode_trust_file(encode_json(text)).status().message(),
                ::testing::AnyOf(HasSubstr(field), HasSubstr("format")));
    text[field] = Json::array({file_.credentials.token, 7});
    const auto read = decode_trust_file(encode_json(text));
    EXPECT_TRUE(read.status().IsInvalid()) << field;
    expect_no_secret(read.status());
  }
  write_file(path_, good + good);
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  expect_no_secret(read_trust_file(path_).status());
  EXPECT_THAT(read_trust_file(path_).status().message(), HasSubstr(path_));
}

}  // namespace
}  // namespace paceline::transport
