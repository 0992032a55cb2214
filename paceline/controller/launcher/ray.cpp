#include "paceline/controller/launcher/ray.h"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>

#include "paceline/core/posix/socket_pair.h"

namespace paceline::controller {
namespace {

constexpr const char* kHow =
    "ScalingConfig.engine is \"ray\": a C++ program gets nodes of a Ray cluster when it is started with `paceline run "
    "--engine ray --address http://HEAD:8265 -- PROGRAM`; a Python program after paceline.init(address=…)";

bool is_taken = false;

// Of this process, for good. Nobody that it starts gets it.
RayLink* own_link() {
  static const std::unique_ptr<RayLink> link = []() -> std::unique_ptr<RayLink> {
    const char* const text = std::getenv(kRayVariable);
    if (text == nullptr) return nullptr;
    int number = -1;
    const char* const end = text + std::strlen(text);
    const auto [rest, problem] = std::from_chars(text, end, number);
    const bool is_open = problem == std::errc() && rest == end && ::fcntl(number, F_SETFD, FD_CLOEXEC) == 0;
    ::unsetenv(kRayVariable);
    is_taken = is_open;
    return is_open ? std::make_unique<RayLink>(Descriptor(number)) : nullptr;
  }();
  return link.get();
}

arrow::Status gone() {
  return arrow::Status::IOError("the program that reserves machines of the Ray cluster for this one has gone");
}

Json request_of(const ScalingConfig& scaling, const FailureConfig& failure) {
  return {{"reserve", scaling}, {"start_timeout_s", failure.start_timeout_s}};
}

void take_settings(const Json& settings, ScalingConfig& scaling) {
  scaling.engine = "ray";
  scaling.nodes = settings.at("nodes").get<int64_t>();
  scaling.listen = settings.at("listen").get<std::string>();
  scaling.token_file = settings.at("token_file").get<std::string>();
  scaling.resources_per_worker = settings.at("resources_per_worker").get<Resources>();
  scaling.label_selector = {};
  scaling.accelerator_type = std::nullopt;
}

}  // namespace

arrow::Status RayLink::send(const Json& message) {
  const std::string line = encode_json(message) + "\n";
  for (auto rest = std::as_bytes(std::span(line)); !rest.empty();) {
    const auto sent = send_some(socket_.get(), rest, {});
    if (!sent.ok()) return gone();
    rest = rest.subspan(*sent);
  }
  return arrow::Status::OK();
}

arrow::Result<Json> RayLink::receive(int stop) {
  while (true) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return decode_json(line);
    }
    std::array<pollfd, 2> waited{{{socket_.get(), POLLIN, 0}, {stop, POLLIN, 0}}};
    if (::poll(waited.data(), waited.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return errno_status("cannot wait for the Ray cluster");
    }
    if (waited[1].revents != 0) {
      return arrow::Status::Cancelled("stopped while the run waited for machines of the Ray cluster");
    }
    std::array<std::byte, 4096> bytes;
    const auto received = receive_some(socket_.get(), bytes);
    if (!received.ok() || received->closed) return gone();
    received_.append(reinterpret_cast<const char*>(bytes.data()), received->bytes);
  }
}

bool RayMachines::are_offered() {
  return is_taken || std::getenv(kRayVariable) != nullptr;
}

arrow::Result<std::unique_ptr<RayMachines>> RayMachines::reserve(ScalingConfig& scaling, const FailureConfig& failure,
                                                                 const StopSignal& stop) {
  if (own_link() == nullptr) return arrow::Status::Invalid(kHow);
  return reserve(*own_link(), scaling, failure, stop);
}

arrow::Result<std::unique_ptr<RayMachines>> RayMachines::reserve(RayLink& link, ScalingConfig& scaling,
                                                                 const FailureConfig& failure, const StopSignal& stop) {
  ARROW_RETURN_NOT_OK(link.send(request_of(scaling, failure)));
  auto answer = link.receive(stop.descriptor());
  if (answer.status().IsCancelled()) {
    ARROW_RETURN_NOT_OK(link.send({{"release", true}}));
    ARROW_RETURN_NOT_OK(link.receive(-1).status());  // to what was asked first
    ARROW_RETURN_NOT_OK(link.receive(-1).status());
  }
  ARROW_RETURN_NOT_OK(answer.status());
  try {
    if (answer->contains("error")) return arrow::Status::Invalid(answer->at("error").get<std::string>());
    take_settings(answer->at("settings"), scaling);
  } catch (const Json::exception& problem) {
    return arrow::Status::Invalid("the package paceline on the cluster answers what this program cannot read (",
                                  problem.what(), "); install there the version that this program was built with");
  }
  return std::unique_ptr<RayMachines>(new RayMachines(link));
}

RayMachines::~RayMachines() {
  // Where the other side has gone, so has what it held.
  if (link_.send({{"release", true}}).ok()) (void)link_.receive(-1);
}

}  // namespace paceline::controller
