#include "paceline/storage/secrets.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline::storage {
namespace {

std::string shown(const char* text) {
  return without_secrets(std::string_view(text));
}

TEST(Secrets, AreLeftOutOfUrisAnywhereInAText) {
  EXPECT_EQ(shown("s3://AK:SECRET@bucket/run"), "s3://AK:…@bucket/run");
  EXPECT_EQ(shown("--data=s3://AK:SECRET@b/c"), "--data=s3://AK:…@b/c");
  EXPECT_EQ(shown("s3://a/b,s3://AK:SECRET@b/c"), "s3://a/b,s3://AK:…@b/c");
  EXPECT_EQ(shown("reads\ns3://AK:SECRET@b/c and \"s3://AK:SECRET@d\""), "reads\ns3://AK:…@b/c and \"s3://AK:…@d\"");
  EXPECT_EQ(shown("DATABASE_URL=postgres://u:SECRET@h"), "DATABASE_URL=postgres://u:…@h");
  EXPECT_EQ(shown("https://TOKEN@github.com/a.git"), "https://…@github.com/a.git");
  EXPECT_EQ(shown("https://host/page#token=SECRETSECRET"), "https://host/page#token=…");
  EXPECT_EQ(shown("jdbc:mysql://h/db?password=SECRET"), "jdbc:mysql://h/db?password=…");
}

TEST(Secrets, AreLeftOutBehindTheirNames) {
  EXPECT_EQ(shown("--hf_token=hf_12345678 --epochs=3"), "--hf_token=… --epochs=3");
  EXPECT_EQ(shown("Driver=x;Uid=me;Pwd=SECRET12;"), "Driver=x;Uid=me;Pwd=…;");
  EXPECT_EQ(shown("AccountName=a;AccountKey=SECRET==;x=y"), "AccountName=a;AccountKey=…;x=y");
  EXPECT_EQ(shown("Authorization: Bearer SECRET"), "Authorization: Bearer …");
  const Json config = {{"api_key", "SECRET"},
                       {"nested", {{{"password", "SECRET"}, {"lr", 0.1}}}},
                       {"AWS_SECRET_ACCESS_KEY", "SECRET"},
                       {"command", {"train.py", "--hf-token", "hf_12345678", "--epochs", "3"}},
                       {"s3://AK:SECRET@b", 1}};
  const Json expected = {{"api_key", "…"},
                         {"nested", {{{"password", "…"}, {"lr", 0.1}}}},
                         {"AWS_SECRET_ACCESS_KEY", "…"},
                         {"command", {"train.py", "--hf-token", "…", "--epochs", "3"}},
                         {"s3://AK:…@b", 1}};
  EXPECT_EQ(without_secrets(config), expected);
}

TEST(Secrets, EndWhereTheirValuesEnd) {
  EXPECT_EQ(shown("--password=my,SECRET"), "--password=…");
  EXPECT_EQ(shown("--password=\"two SECRETS\" --lr=1"), "--password=\"…\" --lr=1");
  EXPECT_EQ(shown("user=u,password=SE,CRET,host=h"), "user=u,password=…,host=h");
  EXPECT_EQ(shown("Client(password=SECRET), next"), "Client(password=…), next");
  EXPECT_EQ(shown("train --hf-token hf_12345678 --lr 1"), "train --hf-token … --lr 1");
  EXPECT_EQ(shown("password: SECRET\nlr: 1"), "password: …\nlr: 1");
  EXPECT_EQ(shown(R"({"password": "SECRET", "lr": 1})"), R"({"password": "…", "lr": 1})");
  EXPECT_EQ(shown("Authorization: Basic SECRET=="), "Authorization: Basic …");
  EXPECT_EQ(shown("authorization: bearer SECRET"), "authorization: bearer …");
  EXPECT_EQ(shown("postgres://u:pa,SECRET@h/db"), "postgres://u:…@h/db");
  EXPECT_EQ(shown("git+https://TOKEN@github.com/a"), "git+https://…@github.com/a");
  EXPECT_EQ(shown("HTTPS://TOKEN@github.com/a"), "HTTPS://…@github.com/a");
}

TEST(Secrets, MayHaveAnyLetter) {
  EXPECT_EQ(shown("--password=ab&SECRET --lr=1"), "--password=… --lr=1");
  EXPECT_EQ(shown("--password=ab'SECRET"), "--password=…");
  EXPECT_EQ(shown("password=b'SECRET', lr=1"), "password=b'…', lr=1");
  EXPECT_EQ(shown("password=SecretStr('SECRET')"), "password=SecretStr('…')");
  EXPECT_EQ(shown(R"({"password": "ab\"SECRET", "lr": 1})"), R"({"password": "…", "lr": 1})");
  EXPECT_EQ(shown(R"(-d "{\"password\": \"SECRET\", \"lr\": 1}")"), R"(-d "{\"password\": \"…\", \"lr\": 1}")");
  EXPECT_EQ(shown("password => 'SECRET'"), "password => '…'");
  EXPECT_EQ(shown("client_secret: |\n  SECRET\n  SECRET\nlr: 1"), "client_secret: …\nlr: 1");
  EXPECT_EQ(shown("AccessSignature=sv=1&sig=SECRETSECRET&se=2"), "AccessSignature=…&sig=…&se=2");
  EXPECT_EQ(shown("-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\nx"),
            "-----BEGIN PRIVATE KEY-----…-----END PRIVATE KEY-----\nx");
  EXPECT_EQ(shown("[\"--password=SECRET\", \"--lr\"]"), "[\"--password=…\", \"--lr\"]");
  const Json config = {
      {"command", {"--passphrase=correct horse SECRET", "private_key=-----BEGIN KEY-----\nSECRET", "--lr=1"}},
      {"hf_tokens", {"hf_12345678"}},
      {"hf_token_2", "hf_12345678"},
      {"tokens", {{"hub", "hf_12345678"}}},
      {"db_pass", "SECRET"}};
  const Json expected = {{"command", {"--passphrase=…", "private_key=…", "--lr=1"}},
                         {"hf_tokens", "…"},
                         {"hf_token_2", "…"},
                         {"tokens", "…"},
                         {"db_pass", "…"}};
  EXPECT_EQ(without_secrets(config), expected);
}

TEST(Secrets, OfAnyKindAreLeftOut) {
  const Json config = {{"credentials", {{"user", "u"}, {"key", "SECRET"}}},
                       {"api_keys", {"sk-SECRET"}},
                       {"password", 12345678},
                       {"keys", {{"password_of_host", {"h", "SECRET"}}}},
                       {"headers", {{"Authorization", "Basic SECRET"}}}};
  const Json expected = {{"credentials", "…"},
                         {"api_keys", "…"},
                         {"password", "…"},
                         {"keys", {{"password_of_host", "…"}}},
                         {"headers", {{"Authorization", "…"}}}};
  EXPECT_EQ(without_secrets(config), expected);
}

// The linear share of a text of this size takes milliseconds, a quadratic one minutes.
TEST(Secrets, LongTextsTakeLittleTime) {
  for (const char* part : {"a=", "day=03/h=07/p=1.parquet:", "token=<", "pwd=/", "a,", "x://", "password", "--token ",
                           "secret=,", "password=\\", "secret: |\n ", "PRIVATE KEY-----", "password=b'"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += part;
    EXPECT_LE(without_secrets(std::string_view(text)).size(), 2 * text.size()) << part;
  }
}

TEST(Secrets, WhatOtherNamesHaveStays) {
  for (const char* text : {"api_key_count=3", "shared_key_frames=12", "no_password=True", "use_auth_token=True",
                           "PWD=/home/u/project", "stop_token=\n\nHuman:", "max_tokens=1000000000",
                           "forward_pass=twice", "the password is: none", "secret://bucket/path", "max_tokens=4096"}) {
    EXPECT_EQ(shown(text), text);
  }
  const Json config = {{"max_tokens", 512},
                       {"tokenizer", "bert-base-uncased"},
                       {"pad_token", "<pad>"},
                       {"eos_token", "[EOS]"},
                       {"password", ""},
                       {"key", "image"},
                       {"mask_token", "__MASK__"},
                       {"sep_token", "separator"},
                       {"loss_per_token", "mean_over_batch"},
                       {"pwd", "/home/u/project"},
                       {"secret_layers", {1, 2}},
                       {"has_password", true},
                       {"token", 3},
                       {"text", "a = b, 1=2 and x://y z=w"},
                       {"lr", nullptr}};
  EXPECT_EQ(without_secrets(config), config);
  for (const char* text : {"", "=", "://", "a://", "=://=", "Bearer ", "--", "token=", "https://@/", "a=\"", "…"}) {
    EXPECT_EQ(shown(text).empty(), std::string(text).empty()) << text;
  }
}

}  // namespace
}  // namespace paceline::storage
