#include "paceline/agent/process_actions.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "paceline/agent/fork/fork_server.h"
#include "paceline/core/progress.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/messages.h"

namespace paceline::agent {
namespace {

using Arguments = std::vector<std::string>;

rpc::BlockingSocket& channel() {
  static rpc::BlockingSocket socket{Descriptor(std::stoi(std::getenv("PACELINE_CHANNEL")))};
  return socket;
}

void send(rpc::Envelope envelope) {
  const arrow::Status sent = channel().send(std::move(envelope));
  if (!sent.ok()) sent.Abort();
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written <= 0) std::abort();
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void print(const std::string& line) {
  write_all(STDOUT_FILENO, line + "\n");
}

[[noreturn]] void sleep_for_ever() {
  while (true) ::pause();
}

int wait_for_stop() {
  while (true) {
    auto envelope = channel().receive().ValueOrDie();
    if (!envelope || envelope->type == rpc::Stop::kType) return 0;
  }
}

// Each line goes to standard error if it begins with "!", else to standard output.
int print_lines(const Arguments& lines) {
  for (const std::string& line : lines) {
    const bool error = line.starts_with("!");
    write_all(error ? STDERR_FILENO : STDOUT_FILENO, line.substr(error ? 1 : 0) + "\n");
  }
  return 0;
}

// A "~" becomes a byte that is no UTF-8.
int write_raw(const Arguments& parts) {
  for (std::string part : parts) {
    std::replace(part.begin(), part.end(), '~', '\xff');
    write_all(STDOUT_FILENO, part);
  }
  return 0;
}

int spam(const Arguments& arguments) {
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) print("line " + std::to_string(i) + std::string(100, '.'));
  return 0;
}

// A child in a session of its own whose parent has ended: nothing but the subreaper ties it to us.
void make_daemon() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const pid_t grandchild = ::fork();
    if (grandchild == 0) sleep_for_ever();
    print(std::to_string(grandchild));
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

int daemon(const Arguments& arguments) {
  for (int i = 0; i < std::stoi(arguments.at(0)); ++i) make_daemon();
  print("ready");
  return wait_for_stop();
}

// A chain of processes, each in a session of its own, where every one also forks children as fast as it can for a
// while.
int bomb(const Arguments& arguments) {
  for (int level = 0; level < 3; ++level) {
    if (::fork() != 0) continue;
    ::setsid();
    for (int i = 0; i < std::stoi(arguments.at(0)); ++i) {
      if (::fork() == 0) {
        ::setsid();
        sleep_for_ever();
      }
    }
    sleep_for_ever();
  }
  return 0;
}

rpc::Envelope joined() {
  rpc::Envelope envelope = rpc::pack(rpc::Joined{.pid = ::getpid()});
  envelope.identity.worker = WorkerId{99};  // a lie
  return envelope;
}

// Never reads: its end of the socket pair is closed with a message unread.
int send_messages(const Arguments& arguments) {
  send(joined());
  for (int i = 1; i <= std::stoi(arguments.at(0)); ++i) {
    rpc::Envelope report = rpc::pack(rpc::Report{.index = i});
    report.bytes = std::string(1000, 'x');
    send(std::move(report));
  }
  send(rpc::pack(rpc::Finished{.reports = std::stoi(arguments.at(0))}));
  return 0;
}

int echo(const Arguments&) {
  while (true) {
    auto envelope = channel().receive().ValueOrDie();
    if (!envelope || envelope->type == rpc::Stop::kType) return 0;
    envelope->identity.worker = WorkerId{99};
    envelope->body["was"] = envelope->type;
    envelope->type = "echo";
    send(*std::move(envelope));
  }
}

rpc::Envelope joined_with(const Progress& progress) {
  rpc::Envelope envelope = joined();
  envelope.descriptors.push_back(progress.memory().descriptor().duplicate().ValueOrDie());
  return envelope;
}

// Joins, says that it is in a collective of step 7, sends one heartbeat and gives itself `signal`.
int note_progress(const Arguments& arguments) {
  const SystemClock clock;
  Progress progress = Progress::create(clock).ValueOrDie();
  send(joined_with(progress));
  progress.set_step(7);
  progress.set_phase(Phase::collective);
  send(rpc::pack(rpc::Heartbeat{}));
  ::raise(std::stoi(arguments.at(0)));
  return 0;
}

// Has failed by itself, and is told to stop before it has found out where: it needs another `milliseconds`.
int fail_slowly(const Arguments& arguments) {
  const SystemClock clock;
  Progress progress = Progress::create(clock).ValueOrDie();
  send(joined_with(progress));
  progress.set_phase(Phase::failing);
  print("ready");
  wait_for_stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(arguments.at(0))));
  send(rpc::pack(rpc::Failed{.kind = "std::runtime_error", .text = "slow"}));
  return 1;
}

// Prints what it was given: descriptors, signals, environment, folder, standard input.
int describe_itself(const Arguments&) {
  std::string descriptors;
  for (int number = 0; number < 1000; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) descriptors += std::to_string(number) + " ";
  }
  print("descriptors " + descriptors);
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  for (int signal = 1; signal < 32; ++signal) {
    struct sigaction action{};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) print("ignored " + std::to_string(signal));
    if (::sigismember(&blocked, signal)) print("blocked " + std::to_string(signal));
  }
  for (char** entry = environ; *entry != nullptr; ++entry) print(std::string("environment ") + *entry);
  print("directory " + std::filesystem::current_path().string());
  char byte;
  print("input " + std::to_string(::read(STDIN_FILENO, &byte, 1)));
  print("leads its group " + std::to_string(::getpgid(0) == ::getpid()));
  return 0;
}

// Forks processes that do what their variable DO says, in words; "threads" begins a thread first, "leave" says why and
// ends, "busy" rests until somebody writes into the pipe of that name.
int serve_forks(const Arguments& arguments) {
  if (arguments.at(0) == "leave") {
    std::fputs("there is no module\n", stderr);
    return 0;
  }
  if (arguments.at(0) == "threads") {
    std::promise<void> runs;
    std::thread([&runs] { runs.set_value(), sleep_for_ever(); }).detach();
    runs.get_future().wait();
  }
  auto server = ForkServer::connect().ValueOrDie();
  bool was_idle = false;
  const auto worker = server
                          .serve(::fork,
                                 [&] {
                                   if (arguments.at(0) == "busy")
                                     const Descriptor pipe(::open(arguments.at(1).c_str(), O_RDONLY));
                                   was_idle = true;
                                 })
                          .ValueOrDie();
  if (!worker) return 0;
  ::clearenv();
  if (was_idle) ::setenv("FORKED_AFTER_A_REST", "yes", 1);
  for (const auto& [name, value] : worker->environment) ::setenv(name.c_str(), value.c_str(), 1);
  return act_as_told();
}

}  // namespace

int act_as_told() {
  std::istringstream words(std::getenv("DO"));
  const Arguments all{std::istream_iterator<std::string>(words), {}};
  return act(all.front(), {all.begin() + 1, all.end()});
}

int act(const std::string& what, const Arguments& arguments) {
  const std::map<std::string, std::function<int(const Arguments&)>> actions = {
      {"exit", [](const Arguments& a) { return std::stoi(a.at(0)); }},
      {"signal", [](const Arguments& a) { return ::raise(std::stoi(a.at(0))); }},
      {"print", print_lines},
      {"write", write_raw},
      {"spam", spam},
      {"daemon", daemon},
      {"bomb", bomb},
      {"wait", [](const Arguments&) { return wait_for_stop(); }},
      {"sleep", [](const Arguments&) -> int { print("ready"), sleep_for_ever(); }},
      {"messages", send_messages},
      {"echo", echo},
      {"progress", note_progress},
      {"fail", fail_slowly},
      {"describe", describe_itself},
      {"serve_forks", serve_forks},
  };
  return actions.at(what)(arguments);
}

}  // namespace paceline::agent
