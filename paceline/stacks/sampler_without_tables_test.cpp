// Samples of code of which no table says who has called it.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <utility>

#include "paceline/core/posix/descriptor.h"
#include "paceline/stacks/sampler_fixture.h"

// As kernels of MKL are: nothing tells an unwinder about it. Counts down.
asm(R"(
  .text
  .type paceline_spin_without_table, @function
paceline_spin_without_table:
  push %rbx
  sub $512, %rsp
1:
  dec %rdi
  jnz 1b
  add $512, %rsp
  pop %rbx
  ret
  .size paceline_spin_without_table, . - paceline_spin_without_table
  .type paceline_spin_below_a_word, @function
paceline_spin_below_a_word:
  sub $520, %rsp
  mov %rdi, %rdx
  mov $65, %rcx
  xor %eax, %eax
  mov %rsp, %rdi
  rep stosq
  mov %rsi, (%rsp)
1:
  dec %rdx
  jnz 1b
  add $520, %rsp
  ret
  .size paceline_spin_below_a_word, . - paceline_spin_below_a_word
  .type paceline_jump_to_spin_without_table, @function
paceline_jump_to_spin_without_table:
  .cfi_startproc
  jmp paceline_spin_without_table
  .cfi_endproc
  .size paceline_jump_to_spin_without_table, . - paceline_jump_to_spin_without_table
  .type paceline_place_behind_a_call, @function
paceline_place_behind_a_call:
  .cfi_startproc
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call 1f
  .cfi_adjust_cfa_offset 8
1:
  pop %rax
  .cfi_adjust_cfa_offset -8
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size paceline_place_behind_a_call, . - paceline_place_behind_a_call
)");
extern "C" void paceline_spin_without_table(uint64_t turns);
extern "C" void paceline_jump_to_spin_without_table(uint64_t turns);
// With the word, and zeros, where earlier calls may have left something.
extern "C" void paceline_spin_below_a_word(uint64_t turns, void* word);
// Of a function whose caller is found from the stack's pointer, in builds with frame pointers too: with one, an
// unwinder that takes this word for a return address would be back on the stack at the next step.
extern "C" void* paceline_place_behind_a_call();

namespace paceline::stacks {

using Generated = void (*)(uint64_t turns);
[[gnu::noipa]] int call_generated(Generated spin, double seconds) {
  int calls = 0;
  for (; !has_used(seconds); ++calls) spin(1'000'000);
  return calls;
}
[[gnu::noipa]] int call_what_has_no_table(double seconds) {
  int calls = 0;
  for (; !has_used(seconds); ++calls) paceline_spin_without_table(1'000'000);
  return calls;
}
[[gnu::noipa]] int call_what_jumps_there(double seconds) {
  int calls = 0;
  for (; !has_used(seconds); ++calls) paceline_jump_to_spin_without_table(1'000'000);
  return calls;
}

[[gnu::noipa]] int call_above_a_word(double seconds) {
  void (*const volatile spin)(uint64_t, void*) = paceline_spin_below_a_word;
  void* const word = paceline_place_behind_a_call();
  int calls = 0;
  for (; !has_used(seconds); ++calls) spin(1'000'000, word);
  return calls;
}

namespace {

using ::testing::HasSubstr;

class SamplerWithoutTables : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the sanitizer keeps signals back until this code has returned";
#endif
  }
  // The samples of a thread that does this.
  static std::string folded(std::function<void()> work) {
    Spinner spinner(std::move(work));
    auto sampler = Sampler::start({.length = kLong}).ValueOrDie();
    spinner.begin();
    spinner.join();
    sampler->stop();
    return to_folded({named(reader_of(*sampler))});
  }
};

TEST_F(SamplerWithoutTables, TheCallerOfCodeWithoutTablesIsFound) {
  EXPECT_THAT(folded([] { call_what_has_no_table(0.3); }),
              HasSubstr("call_what_has_no_table(double) (sampler_without_tables_test.cpp);paceline_spin_without_table "
                        "(stacks_test) "));
}

// Although farther out somebody calls through a pointer, who might have called anything.
TEST_F(SamplerWithoutTables, TheCallerOfCodeThatWasJumpedToIsFound) {
  EXPECT_THAT(folded([] { call_what_jumps_there(0.3); }),
              HasSubstr("call_what_jumps_there(double) (sampler_without_tables_test.cpp);paceline_spin_without_table "
                        "(stacks_test) "));
}

TEST_F(SamplerWithoutTables, WhatAnEarlierCallHasLeftIsNotTakenForTheCaller) {
  EXPECT_THAT(
      folded([] { call_above_a_word(0.3); }),
      HasSubstr(
          "call_above_a_word(double) (sampler_without_tables_test.cpp);paceline_spin_below_a_word (stacks_test) "));
}

// As oneDNN generates kernels, in memory that happens to lie between two mappings of one file.
TEST_F(SamplerWithoutTables, GeneratedCodeIsNotTakenForAFileAroundIt) {
  constexpr size_t kPage = 4096;
  const Descriptor file(::memfd_create("data_of_the_test", 0));
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  auto* const pages = static_cast<std::byte*>(
      ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (std::byte* const page : {pages, pages + 2 * kPage}) {
    ASSERT_EQ(::mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0), page);
  }
  constexpr unsigned char kCode[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};  // 1: dec %rdi; jnz 1b; ret
  std::memcpy(pages + kPage, kCode, sizeof kCode);
  EXPECT_THAT(
      folded([&] { call_generated(reinterpret_cast<Generated>(pages + kPage), 0.3); }),
      HasSubstr(
          "call_generated(void (*)(unsigned long), double) (sampler_without_tables_test.cpp);? (generated code) "));
  ::munmap(pages, 3 * kPage);
}

}  // namespace
}  // namespace paceline::stacks
