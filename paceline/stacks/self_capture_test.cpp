#include "paceline/stacks/self_capture.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/stacks/symbols.h"

namespace paceline::stacks {

[[gnu::noinline]] void write_through(int* pointer) {
  *pointer = 1;
}
[[gnu::noipa]] void read_digit() {
  throw std::runtime_error("no such digit");
}
[[gnu::noinline]] int recurse(int depth) {
  volatile char space[4096] = {};
  return depth == 0 ? space[0] : recurse(depth - 1) + space[1];
}

namespace {

using ::testing::HasSubstr;

struct End {
  int status = 0;
  std::optional<Crash> crash;
};

// Runs `work` in a child that notes its crash.
End end_of(void (*work)()) {
  auto [ours, theirs] = make_socket_pair().ValueOrDie();
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const int fatal : {SIGSEGV, SIGBUS, SIGFPE}) ::signal(fatal, SIG_DFL);  // a sanitizer's would exit with a code
    const Descriptor memory = note_crashes().ValueOrDie();
    const std::byte one[] = {std::byte{1}};
    const int passed[] = {memory.get()};
    if (!send_some(theirs.get(), one, passed).ok()) ::_exit(9);
    work();
    ::_exit(0);
  }
  End end;
  ::waitpid(pid, &end.status, 0);
  std::byte byte[1];
  auto received = receive_some(ours.get(), byte).ValueOrDie();
  end.crash = read_crash(std::move(received.descriptors.at(0))).ValueOrDie();
  return end;
}

std::string named(const Crash& crash) {
  Symbols symbols;
  return to_text(symbols.name(crash.snapshot));
}

TEST(SelfCapture, NotesWhereAndAtWhichAddress) {
  const End end = end_of([] { write_through(reinterpret_cast<int*>(0x10)); });
  EXPECT_EQ(WTERMSIG(end.status), SIGSEGV);
  ASSERT_TRUE(end.crash);
  EXPECT_EQ(end.crash->signal, SIGSEGV);
  EXPECT_EQ(end.crash->address, 0x10u);
  EXPECT_EQ(end.crash->place, "");
  EXPECT_THAT(named(*end.crash), HasSubstr("write_through(int*) (self_capture_test.cpp:"));
}

TEST(SelfCapture, NotesTheFileBehindTheAddress) {
  const End end = end_of([] {
    const int file = ::memfd_create("batch", 0);
    write_through(static_cast<int*>(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, file, 0)));  // no page of it is there
  });
  EXPECT_EQ(WTERMSIG(end.status), SIGBUS);
  ASSERT_TRUE(end.crash);
  EXPECT_THAT(end.crash->place, HasSubstr("/memfd:batch"));
}

TEST(SelfCapture, NotesTheExceptionThatNobodyCaught) {
  const End end = end_of([]() noexcept { read_digit(); });
  EXPECT_EQ(WTERMSIG(end.status), SIGABRT);
  ASSERT_TRUE(end.crash);
  EXPECT_EQ(end.crash->what, "no such digit");
  EXPECT_THAT(named(*end.crash), HasSubstr("self_capture_test.cpp:"));
}

TEST(SelfCapture, NotesAStackOverflowOfTheMainThread) {
  const End end = end_of([] { recurse(1 << 30); });
  EXPECT_EQ(WTERMSIG(end.status), SIGSEGV);
  ASSERT_TRUE(end.crash);
  EXPECT_THAT(named(*end.crash), HasSubstr("recurse(int)"));
}

TEST(SelfCapture, ACallThroughANullPointerShowsTheCaller) {
  const End end = end_of([] {
    void (*volatile nowhere)() = nullptr;
    nowhere();
  });
  ASSERT_TRUE(end.crash);
  EXPECT_THAT(named(*end.crash), HasSubstr("self_capture_test.cpp:"));
}

TEST(SelfCapture, ASignalThatWasSentEndsTheProcessToo) {
  const End end = end_of([] { ::raise(SIGFPE); });
  EXPECT_EQ(WTERMSIG(end.status), SIGFPE);
  ASSERT_TRUE(end.crash);
  EXPECT_LE(end.crash->code, 0);
}

TEST(SelfCapture, ChildrenAndGoodEndsNoteNothing) {
  const End end = end_of([] {
    if (::fork() == 0) ::raise(SIGSEGV);
    ::wait(nullptr);
  });
  EXPECT_EQ(end.status, 0);
  EXPECT_FALSE(end.crash);
}

}  // namespace
}  // namespace paceline::stacks
