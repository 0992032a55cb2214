#include "paceline/storage/secrets.h"

#include <gtest/gtest.h>

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

TEST(Secrets, WhatOtherNamesHaveStays) {
  const Json config = {{"max_tokens", 512},    {"tokenizer", "bert-base-uncased"},
                       {"pad_token", "<pad>"}, {"eos_token", "[EOS]"},
                       {"password", ""},       {"key", "image"},
                       {"token", 3},           {"text", "a = b, 1=2 and x://y z=w"},
                       {"lr", nullptr}};
  EXPECT_EQ(without_secrets(config), config);
  for (const char* text : {"", "=", "://", "a://", "=://=", "Bearer ", "--", "token=", "https://@/", "a=\"", "…"}) {
    EXPECT_EQ(shown(text).empty(), std::string(text).empty()) << text;
  }
}

}  // namespace
}  // namespace paceline::storage
