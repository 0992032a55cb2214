#include "paceline/controller/launcher/agents.h"

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
  return std::unique_ptr<AgentsLauncher>(new AgentsLauncher(parts));
}

AgentsLauncher::AgentsLauncher(const LaunchParts& parts)
    : listen_(parts.scaling.listen),
      token_file_(parts.scaling.token_file),
      nodes_(parts.scaling.nodes),
      lease_s_(parts.failure.node_timeout_s) {}

AgentsLauncher::~AgentsLauncher() {
  close();
  if (run_.empty()) return;
  const auto file = transport::read_trust_file(token_file_);
  if (file.ok() && file->run == run_) ::unlink(token_file_.c_str());
}

arrow::Result<Launch> AgentsLauncher::launch(OnAgent on_agent) {
  if (listener_ != nullptr) return arrow::Status::Invalid("an AgentsLauncher launches once");
  {
    const std::lock_guard lock(mutex_);
    on_agent_ = std::move(on_agent);
  }
  ARROW_ASSIGN_OR_RAISE(const transport::Trust trust, transport::make_trust());
  ARROW_ASSIGN_OR_RAISE(const std::string run, transport::random_id());
  ARROW_ASSIGN_OR_RAISE(
      listener_,
      transport::Listener::open(
          {.address = listen_,
           .run = run,
           .credentials = trust.controller,
           .lease = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(lease_s_)),
           .on_peer = [this](std::unique_ptr<rpc::Channel> agent, const auto&) { take(std::move(agent)); }}));
  ARROW_RETURN_NOT_OK(transport::write_trust_file(
      token_file_,
      {.run = run, .addresses = {reachable(listener_->address())}, .lease_s = lease_s_, .credentials = trust.agent}));
  run_ = run;
  return Launch{.agents = nodes_, .others_may_come = true};
}

void AgentsLauncher::close() {
  const std::lock_guard lock(mutex_);
  on_agent_ = nullptr;
}

void AgentsLauncher::take(std::unique_ptr<rpc::Channel> agent) {
  const std::lock_guard lock(mutex_);
  if (on_agent_) on_agent_(std::move(agent));
}

}  // namespace paceline::controller
