#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "paceline/agent/fork/fork_servers_internal.h"
#include "paceline/core/posix/socket_pair.h"

namespace paceline::agent {
namespace {

constexpr size_t kMaxLastOutput = 4096;

// A server is asked for one process at a time, and what it is sent fits into the socket.
arrow::Status send_to(const Descriptor& channel, const rpc::Envelope& envelope, std::vector<int> descriptors) {
  ARROW_ASSIGN_OR_RAISE(const std::string frame, rpc::encode_frame_start(envelope));
  std::span<const std::byte> rest = std::as_bytes(std::span(frame));
  while (!rest.empty()) {
    ARROW_ASSIGN_OR_RAISE(const size_t sent, send_some(channel.get(), rest, descriptors));
    if (sent == 0) return arrow::Status::IOError("it reads nothing");
    rest = rest.subspan(sent);
    descriptors.clear();
  }
  return arrow::Status::OK();
}

arrow::Result<SpawnedProcess> adopt(const Forked& forked, ProcessEnds ends) {
  if (!forked.error.empty()) return arrow::Status::IOError(forked.error);
  return watch(static_cast<pid_t>(forked.pid), std::move(ends));
}

}  // namespace

void ForkServers::fork(const Spawn& request, const ForkOrder& order) {
  auto ends = make_process_ends();
  if (!ends.ok()) return on_answer_(order, ends.status());
  const auto server = server_for(request);
  if (!server.ok()) return on_answer_(order, server.status());
  auto& waiting = (*server)->second.waiting;
  waiting.push_back({order, {.environment = request.environment, .directory = request.directory}, *std::move(ends)});
  if (waiting.size() == 1) ask(*server);
}

arrow::Result<ForkServers::Servers::iterator> ForkServers::server_for(const Spawn& request) {
  std::string name = request.fork_server_key;
  for (const std::string& argument : request.fork_server) name += '\0' + argument;
  const auto found = servers_.find(name);
  if (found != servers_.end()) return found;
  ARROW_ASSIGN_OR_RAISE(SpawnedForkServer spawned, spawn_fork_server(request));
  ::fcntl(spawned.channel.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(spawned.output.get(), F_SETFL, O_NONBLOCK);
  Server server{.pid = spawned.pid, .channel = std::move(spawned.channel), .output = std::move(spawned.output)};
  return servers_.emplace(name, std::move(server)).first;
}

void ForkServers::ask(Servers::iterator server) {
  Waiting& next = server->second.waiting.front();
  rpc::Envelope envelope = rpc::pack(next.worker);
  const std::vector<int> descriptors = {next.ends.its_output.get(), next.ends.its_error_output.get(),
                                        next.ends.its_channel.get()};
  for (const int descriptor : descriptors) envelope.descriptors.emplace_back(::dup(descriptor));
  const arrow::Status sent = send_to(server->second.channel, envelope, descriptors);
  if (!sent.ok()) give_up(server, sent.message());
}

std::vector<int> ForkServers::descriptors() const {
  std::vector<int> all;
  for (const auto& [name, server] : servers_) {
    all.push_back(server.channel.get());
    if (server.output) all.push_back(server.output.get());
  }
  return all;
}

void ForkServers::receive(int descriptor) {
  const auto server = std::ranges::find_if(servers_, [descriptor](const auto& one) {
    return one.second.channel.get() == descriptor || one.second.output.get() == descriptor;
  });
  if (server == servers_.end()) return;
  if (server->second.output.get() == descriptor) return pass_output_on(server->second);
  std::array<std::byte, 4096> buffer;
  auto received = receive_some(descriptor, buffer);
  const bool fits = received.ok() && !received->closed &&
                    server->second.reader.feed({buffer.data(), received->bytes}, std::move(received->descriptors)).ok();
  fits ? take_answers(server) : give_up(server, "it has ended");
}

void ForkServers::take_answers(Servers::iterator server) {
  while (true) {
    const auto envelope = server->second.reader.next();
    if (!envelope.ok()) return give_up(server, envelope.status().message());
    if (!envelope->has_value()) return;
    auto& waiting = server->second.waiting;
    const auto forked = rpc::unpack<Forked>(**envelope);
    if (!forked.ok() || waiting.empty()) return give_up(server, "it has said what makes no sense");
    Waiting done = std::move(waiting.front());
    waiting.pop_front();
    on_answer_(done.order, adopt(*forked, std::move(done.ends)));
    if (!waiting.empty()) {
      ask(server);
    } else if (const arrow::Status sent = send_to(server->second.channel, rpc::pack(Idle{}), {}); !sent.ok()) {
      return give_up(server, sent.message());
    }
  }
}

bool ForkServers::contains(pid_t pid) const {
  const pid_t group = ::getpgid(pid);
  return std::ranges::any_of(servers_, [&](const auto& one) { return one.second.pid == group; });
}

void ForkServers::note_end(pid_t pid) {
  const auto server = std::ranges::find(servers_, pid, [](const auto& one) { return one.second.pid; });
  if (server != servers_.end()) give_up(server, "it has ended");
}

// All that is there.
void ForkServers::pass_output_on(Server& server) {
  std::array<char, 4096> part;
  while (server.output) {
    const ssize_t size = ::read(server.output.get(), part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return server.output.reset();
    const std::string_view text(part.data(), static_cast<size_t>(size));
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    server.last_output += text;
    if (server.last_output.size() > kMaxLastOutput) {
      server.last_output.erase(0, server.last_output.size() - kMaxLastOutput);
    }
  }
}

// The next order starts another.
void ForkServers::give_up(Servers::iterator server, const std::string& why) {
  Server gone = std::move(server->second);
  servers_.erase(server);
  ::kill(gone.pid, SIGKILL);
  pass_output_on(gone);
  while (gone.last_output.ends_with('\n')) gone.last_output.pop_back();
  const std::string said = gone.last_output.empty() ? ", without a word" : ". Its last words:\n" + gone.last_output;
  for (const Waiting& waiting : gone.waiting) {
    on_answer_(waiting.order, arrow::Status::IOError("the process that workers are forked from is gone: ", why, said));
  }
}

}  // namespace paceline::agent
