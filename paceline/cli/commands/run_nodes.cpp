#include "paceline/cli/commands/run_nodes.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "paceline/agent/guardian.h"
#include "paceline/cli/agent_program.h"
#include "paceline/cli/command.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/network_interface.h"
#include "paceline/core/state_directory.h"
#include "paceline/launch/launch.h"

namespace paceline::cli {
namespace {

bool is_ipv6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

std::string with_port(const std::string& host, int64_t port) {
  return (is_ipv6(host) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string file_stem(const RunFlags& flags) {
  const bool has_id = !flags.run_id.empty() && flags.run_id != "none";
  std::string stem = has_id ? flags.run_id : flags.nodes.host + "_" + std::to_string(flags.nodes.port);
  std::ranges::replace_if(
      stem, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-' && c != '_'; }, '_');
  return stem.substr(0, 100);
}

bool contains(const std::vector<std::string>& list, const std::string& one) {
  return std::ranges::find(list, one) != list.end();
}

arrow::Result<bool> is_this_machine(const std::string& host) {
  if (host == host_name()) return true;
  ARROW_ASSIGN_OR_RAISE(const auto addresses, addresses_of(host));
  const auto own = own_addresses();
  return std::ranges::any_of(addresses,
                             [&own](const std::string& one) { return is_loopback(one) || contains(own, one); });
}

// A name that one process of this machine has at a time, and that goes with it. Nothing when another has it.
arrow::Result<Descriptor> claim(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("cannot make a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) return socket;
  if (errno == EADDRINUSE) return Descriptor();
  return errno_status("cannot tell which process of this machine holds the controller");
}

// As torchrun: what the flags say, else the machine that the endpoint is; of several processes there the first to come.
arrow::Result<bool> is_first(const RunFlags& flags, Descriptor& claimed) {
  if (flags.nodes.is_host) return *flags.nodes.is_host;
  if (flags.nodes.rank) return *flags.nodes.rank == 0;
  ARROW_ASSIGN_OR_RAISE(const bool is_here, is_this_machine(flags.nodes.host));
  if (!is_here) return false;
  ARROW_ASSIGN_OR_RAISE(claimed, claim("paceline-first-node-" + std::to_string(::getuid()) + "-" +
                                       std::to_string(flags.nodes.port) + "-" + file_stem(flags)));
  return static_cast<bool>(claimed);
}

// Listens at the address that the others were given, if it is one of this machine's that leads here from there; at all
// addresses otherwise, which is told.
arrow::Status choose_address(const NodeFlags& flags, NodePart& part) {
  ARROW_ASSIGN_OR_RAISE(auto wanted, addresses_of(flags.host));
  std::ranges::stable_sort(wanted, {}, is_ipv6);
  const auto own = own_addresses();
  const bool is_local_name = flags.host == "localhost" || is_loopback(flags.host);
  const auto reached = std::ranges::find_if(wanted, [&](const std::string& one) {
    const bool is_here = contains(own, one) || one.starts_with("127.");
    return is_here && (is_local_name || !is_loopback(one));
  });
  std::string address = own.empty() ? "127.0.0.1" : own.front();
  if (reached != wanted.end()) {
    address = *reached;
    part.listen = with_port(address, flags.port);
  } else {
    part.listen = with_port(is_ipv6(wanted.front()) ? "::" : "0.0.0.0", flags.port);
    part.notes.push_back(flags.host + " is " + wanted.front() +
                         " here, which is no address at which other machines reach this one: listening at all of its "
                         "addresses. If this is not the first node, it needs another --node-rank");
  }
  if (part.node.address.empty()) part.node.address = address;
  return arrow::Status::OK();
}

// For its owner alone.
arrow::Status make_private_folder(const std::filesystem::path& folder) {
  for (const auto& one : {folder.parent_path(), folder}) {
    if (::mkdir(one.c_str(), 0700) != 0 && errno != EEXIST) return errno_status("cannot make " + one.string());
  }
  return arrow::Status::OK();
}

}  // namespace

std::string default_token_file(const RunFlags& flags, const std::string& home) {
  return home + "/.paceline/rendezvous/" + file_stem(flags) + ".token";
}

arrow::Result<NodePart> find_part(const RunFlags& flags) {
  const NodeFlags& nodes = flags.nodes;
  NodePart part{.node = {.address = nodes.local_address,
                         .rank = nodes.rank.value_or(-1),
                         .workers = flags.num_workers.value_or(1)}};
  ARROW_ASSIGN_OR_RAISE(part.is_first, is_first(flags, part.claim));
  if (nodes.has_default_host) {
    part.notes.push_back(
        "no --master-addr: all nodes are on this machine; elsewhere each needs the first one's address");
  }
  if (!nodes.token_file.empty()) {
    part.token_file = std::filesystem::absolute(nodes.token_file).lexically_normal();
  } else {
    const std::string home = home_directory();
    if (home.empty()) {
      return arrow::Status::Invalid(
          "this user has no home for the token file of several nodes; name one with --token-file");
    }
    part.token_file = default_token_file(flags, home);
    ARROW_RETURN_NOT_OK(make_private_folder(std::filesystem::path(part.token_file).parent_path()));
  }
  if (!part.is_first) {
    if (nodes.port != 0) part.join = {with_port(nodes.host, nodes.port)};
    return part;
  }
  if (part.node.rank < 0) part.node.rank = 0;
  ARROW_RETURN_NOT_OK(choose_address(nodes, part));
  const std::string where = nodes.port == 0 ? "" : " at " + part.listen;
  part.notes.push_back("the first of " + std::to_string(nodes.most) + " nodes waits for the others" + where +
                       "; they find it by " + part.token_file);
  return part;
}

arrow::Result<int> serve_node(const RunFlags& flags, const NodePart& part, const rpc::Strings& command) {
  ARROW_ASSIGN_OR_RAISE(const agent::Guardian guardian, agent::Guardian::fork_now());
  const auto say = [](const std::string& text) { std::fprintf(stderr, "paceline: %s\n", text.c_str()); };
  AgentProgram program(
      {.token_file = part.token_file,
       .file_hint = "; --token-file, or the variable PACELINE_TOKEN_FILE, names another that all nodes see",
       .join = part.join,
       .agent = {.node = part.node,
                 .program = launch::worker_command(command),
                 .directory = std::filesystem::current_path()},
       .patience = std::chrono::duration<double>(flags.nodes.join_timeout_s),
       .interrupts_stop_run = true,
       .grace_s = flags.shutdown_timeout_s,
       .tell = [say, quiet = flags.quiet](const std::string& text) { quiet ? void() : say(text); },
       .signals = flags.signals},
      guardian);
  const AgentEnd end = program.serve();
  if (end.dismissal) {
    if (!end.dismissal->reason.empty()) say(end.dismissal->reason);
    return static_cast<int>(end.dismissal->exit_code);
  }
  if (end.signal != 0) return 128 + end.signal;
  if (!end.status.ok() && !end.status.IsIOError()) return end.status;
  say(end.status.ok() ? "the first node has left without a word on how the run has ended" : end.status.message());
  return kTryAgain;
}

}  // namespace paceline::cli
