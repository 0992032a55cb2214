#include "paceline/controller/launcher/agents.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "paceline/core/posix/host_name.h"
#include "paceline/transport/trust_file.h"

namespace paceline::controller {
namespace {

arrow::Status missing(const LaunchParts& parts, const char* setting, const std::string& what) {
  return arrow::Status::Invalid("ScalingConfig.", setting, " is \"\"; engine \"", parts.scaling.engine, "\" needs ",
                                what);
}

// Whoever listens on all interfaces is reached by the machine's name.
std::string reachable(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  return host == "0.0.0.0" || host == "[::]" ? host_name() + address.substr(colon) : address;
}

}  // namespace

arrow::Result<std::unique_ptr<AgentsLauncher>> AgentsLauncher::make(const LaunchParts& parts) {
  if (parts.scaling.listen.empty())
    return missing(parts, "listen", "the address at which agents reach this machine, HOST:PORT");
  if (parts.scaling.token_file.empty())
    return missing(parts, "token_file", "the path of a file that it writes and agents read");
  return std::make_unique<AgentsLauncher>(Options{.listen = parts.scaling.listen,
                                                  .token_file = parts.scaling.token_file,
                                                  .nodes = parts.scaling.nodes.value_or(1),
                                                  .lease_s = parts.failure.node_timeout_s,
                                                  .on_name = {}});
}

AgentsLauncher::~AgentsLauncher() {
  close();
  struct stat own{};
  struct stat there{};
  const bool is_own = token_file_ && ::fstat(token_file_.get(), &own) == 0 &&
                      ::stat(options_.token_file.c_str(), &there) == 0 && own.st_dev == there.st_dev &&
                      own.st_ino == there.st_ino;
  if (is_own) ::unlink(options_.token_file.c_str());
}

arrow::Result<Launch> AgentsLauncher::launch(LaunchEvents events) {
  if (listener_ != nullptr) return arrow::Status::Invalid("an AgentsLauncher launches once");
  {
    const std::lock_guard lock(mutex_);
    events_ = std::move(events);
  }
  ARROW_ASSIGN_OR_RAISE(const transport::Trust trust, transport::make_trust());
  ARROW_ASSIGN_OR_RAISE(const std::string run, transport::random_id());
  ARROW_ASSIGN_OR_RAISE(
      listener_, transport::Listener::open(
                     {.address = options_.listen,
                      .run = run,
                      .credentials = trust.controller,
                      .lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options_.lease_s)),
                      .on_peer = [this](std::unique_ptr<rpc::Channel> agent, const transport::Listener::Peer& peer) {
                        take(std::move(agent), peer.name);
                      }}));
  const transport::TrustFile file{.run = run,
                                  .addresses = {reachable(listener_->address())},
                                  .lease_s = options_.lease_s,
                                  .credentials = trust.agent};
  trust_text_ = transport::encode_trust_file(file);
  if (!options_.token_file.empty()) {
    ARROW_ASSIGN_OR_RAISE(token_file_, transport::write_trust_file(options_.token_file, file));
  }
  return Launch{.agents = options_.nodes, .others_may_come = true};
}

void AgentsLauncher::close() {
  const std::lock_guard lock(mutex_);
  events_ = {};
}

void AgentsLauncher::take(std::unique_ptr<rpc::Channel> agent, const std::string& name) {
  if (options_.on_name) options_.on_name(name);
  const std::lock_guard lock(mutex_);
  if (events_.on_agent) events_.on_agent(std::move(agent));
}

}  // namespace paceline::controller
