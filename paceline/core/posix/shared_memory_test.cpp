#include "paceline/core/posix/shared_memory.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(SharedMemory, TwoMappingsSeeTheSameBytes) {
  auto memory = SharedMemory::create("test", 64).ValueOrDie();
  auto other = SharedMemory::open(memory.descriptor().duplicate().ValueOrDie(), 64).ValueOrDie();
  EXPECT_EQ(memory.bytes()[5], std::byte{0});
  memory.bytes()[5] = std::byte{42};
  EXPECT_EQ(other.bytes()[5], std::byte{42});
}

TEST(SharedMemory, RefusesToMapMoreThanThereIs) {
  auto memory = SharedMemory::create("test", 64).ValueOrDie();
  EXPECT_TRUE(SharedMemory::open(memory.descriptor().duplicate().ValueOrDie(), 65).status().IsInvalid());
}

}  // namespace
}  // namespace paceline
