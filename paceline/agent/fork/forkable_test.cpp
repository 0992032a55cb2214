#include "paceline/agent/fork/forkable.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/thread.h"

namespace paceline::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Forkable, NamesWhatTheProgramHasOpened) {
  EXPECT_EQ(why_not_forkable(), "");
  const Descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(why_not_forkable(),
              AllOf(HasSubstr("had opened descriptor " + std::to_string(file.get())), HasSubstr("agent_test")));
}

TEST(Forkable, NamesTheThreads) {
  std::promise<void> begun, done;
  std::thread reader([&] {
    ::pthread_setname_np(::pthread_self(), "reader");
    begun.set_value();
    done.get_future().wait();
  });
  begun.get_future().wait();
  const std::string why = why_not_forkable();
  done.set_value();
  reader.join();
  EXPECT_THAT(why, AllOf(HasSubstr("had 2 threads"), HasSubstr("reader")));
}

TEST(Forkable, AThreadThatBlocksEverySignalCountsToo) {
  std::promise<void> begun, done;
  std::thread worker = start_thread([&] {
    begun.set_value();
    done.get_future().wait();
  });
  begun.get_future().wait();
  const std::string why = why_not_forkable();
  done.set_value();
  worker.join();
  EXPECT_THAT(why, HasSubstr("had 2 threads"));
}

TEST(Forkable, KnowsWhatTheProgramHasSetUpOfItsSignals) {
  std::signal(SIGUSR1, SIG_IGN);
  const SignalSetup setup = own_signal_setup();
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(setup.dispositions[SIGUSR1].sa_handler, SIG_IGN);
  EXPECT_EQ(setup.dispositions[SIGUSR2].sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace paceline::agent
