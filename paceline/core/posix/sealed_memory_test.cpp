#include "paceline/core/posix/sealed_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "paceline/core/posix/shared_memory.h"

namespace paceline {
namespace {

TEST(SealedMemory, HoldsThePartsForEverybodyWhoHasTheDescriptor) {
  const Descriptor descriptor = SealedMemory::create("test", {"config", std::string_view("\0bytes", 6)}).ValueOrDie();
  const SealedMemory one = SealedMemory::open(descriptor).ValueOrDie();
  const SealedMemory other = SealedMemory::open(descriptor).ValueOrDie();
  EXPECT_EQ(one.bytes(), std::string_view("config\0bytes", 12));
  EXPECT_EQ(other.bytes(), one.bytes());
}

TEST(SealedMemory, MayBeEmpty) {
  const Descriptor descriptor = SealedMemory::create("test", {}).ValueOrDie();
  EXPECT_EQ(SealedMemory::open(descriptor)->bytes(), "");
}

TEST(SealedMemory, CannotBeChangedOrTakenAway) {
  const Descriptor descriptor = SealedMemory::create("test", {"bytes"}).ValueOrDie();
  EXPECT_EQ(::pwrite(descriptor.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(descriptor.get(), 0), -1);
}

TEST(SealedMemory, WhatCouldStillChangeIsRefused) {
  const auto memory = SharedMemory::create("test", 64).ValueOrDie();
  EXPECT_TRUE(SealedMemory::open(memory.descriptor()).status().IsInvalid());
}

}  // namespace
}  // namespace paceline
