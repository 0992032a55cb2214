#include "paceline/storage/objects/scheme.h"

#include <gmock/gmock.h>

#include <set>

#include "paceline/storage/location.h"
#include "paceline/storage/objects/arrow_storage.h"
#include "paceline/storage/storage.h"

namespace paceline::storage {
namespace {

using ::testing::HasSubstr;

TEST(Scheme, EveryRowIsComplete) {
  std::set<std::string_view> names;
  for (const Scheme& scheme : schemes()) {
    ASSERT_FALSE(scheme.names.empty());
    EXPECT_TRUE(scheme.written.starts_with(scheme.names.front())) << scheme.written;
    EXPECT_FALSE(scheme.service.empty() || scheme.credentials.empty() || scheme.open == nullptr) << scheme.written;
    for (const std::string_view name : scheme.names) {
      EXPECT_TRUE(names.insert(name).second) << name << " is in two rows";
      const std::string location = std::string(name) + "://bucket/folder";
      EXPECT_EQ(scheme_of(location), &scheme);
      EXPECT_TRUE(is_uri(location));
      EXPECT_EQ(resolve_location(location, "/").ValueOrDie(), location);
    }
  }
}

TEST(Scheme, WhatIsRefusedNamesEveryScheme) {
  EXPECT_EQ(scheme_of("ftp://host/x"), nullptr);
  EXPECT_EQ(scheme_of("/local"), nullptr);
  const std::string message = resolve_location("ftp://host/x", "/").status().message();
  for (const Scheme& scheme : schemes()) {
    if (scheme.is_custom) continue;  // which nobody can write
    EXPECT_THAT(message, HasSubstr(std::string(scheme.written)));
  }
}

// The wheel's Arrow has all three; a URI that makes no sense comes back with the location and no secret.
TEST(Scheme, OpensWhatIsBuiltIn) {
  for (const Scheme& scheme : schemes()) {
    if (!scheme.is_built_in) continue;
    const auto opened = open_object_storage(std::string(scheme.names.front()) + "://bucket/a?no_such_option=secret");
    EXPECT_THAT(opened.status().message(), HasSubstr("opening " + std::string(scheme.names.front()) + "://bucket/a"));
    EXPECT_THAT(opened.status().message(), HasSubstr("no_such_option=…"));
  }
}

}  // namespace
}  // namespace paceline::storage
