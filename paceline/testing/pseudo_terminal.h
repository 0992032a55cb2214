// A program on a pseudo terminal of its own, which a test types into. Killed when the test leaves it behind.
#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace paceline::testing {

class PseudoTerminal {
 public:
  explicit PseudoTerminal(std::vector<std::string> command) {
    pid_ = ::forkpty(&master_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    ::setenv("TERM", "xterm", 1);  // tests may themselves run without a terminal
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~PseudoTerminal() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(master_);
  }

  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  /// Reads until `text` has come, behind what was expected before; a failure of the test when the program ends without.
  void expect(const std::string& text) {
    while (seen_.find(text, at_) == std::string::npos) {
      if (!read_more()) {
        ADD_FAILURE() << "wanted " << text << ", got:\n" << seen_;
        return;
      }
    }
    at_ = seen_.find(text, at_) + text.size();
  }
  void type(const std::string& text) {
    EXPECT_EQ(::write(master_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// Waits for the program's end; -1 when a signal ended it.
  int exit_code() {
    while (read_more()) {
    }
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// All that the program has written and the terminal has echoed so far.
  const std::string& seen() const { return seen_; }

 private:
  bool read_more() {
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(master_, buffer.data(), buffer.size());
    if (count > 0) seen_.append(buffer.data(), static_cast<size_t>(count));
    return count > 0;
  }

  int master_ = -1;
  pid_t pid_ = 0;
  std::string seen_;
  size_t at_ = 0;
};

}  // namespace paceline::testing
