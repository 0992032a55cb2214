#include "paceline/run/control_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <filesystem>

#include "paceline/core/posix/unix_address.h"
#include "paceline/core/run_layout.h"
#include "paceline/policy/failure_text.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/messages.h"
#include "paceline/run/control_connection_internal.h"

namespace paceline::run {

using namespace policy;
namespace {

arrow::Status no_live_run(const std::string& run_folder) {
  return arrow::Status::IOError(
      "no live run in ", run_folder,
      ": its driver has ended; started again with the same run name and storage path it goes on");
}

arrow::Status not_asked(const std::string& run_folder) {
  return arrow::Status::Cancelled("given up before the run in ", run_folder, " was asked: its driver accepts nobody");
}

// Only profiles are given up.
arrow::Status goes_on_alone(const std::string& run_folder) {
  return arrow::Status::Cancelled("not waited for any more: the run takes the profile to its end, and keeps it in ",
                                  run_folder, "/", run_layout::kProfiles);
}

arrow::Result<rpc::Envelope> ask(const std::string& run_folder, rpc::Envelope request,
                                 std::chrono::milliseconds patience, const std::stop_token& given_up = {}) {
  ARROW_ASSIGN_OR_RAISE(Descriptor connected, connect_to_run(run_folder, patience, given_up));
  rpc::BlockingSocket socket(std::move(connected));
  request.request = 1;
  ARROW_RETURN_NOT_OK(socket.send(std::move(request)));
  const std::stop_callback end_wait(given_up, [&socket] { socket.shut_down(); });
  const arrow::Result<bool> answered = socket.wait(patience);
  if (!answered.ok() || !*answered) {
    if (given_up.stop_requested()) return goes_on_alone(run_folder);
    ARROW_RETURN_NOT_OK(answered.status());
    return no_answer(run_folder, patience);
  }
  ARROW_ASSIGN_OR_RAISE(auto reply, socket.receive());
  if (!reply && given_up.stop_requested()) return goes_on_alone(run_folder);
  if (!reply) return arrow::Status::IOError("the run in ", run_folder, " ended while it was asked");
  return *std::move(reply);
}

arrow::Result<Json> status_in(const arrow::Result<rpc::Envelope>& reply) {
  ARROW_RETURN_NOT_OK(reply.status());
  ARROW_ASSIGN_OR_RAISE(rpc::StatusReply status, rpc::unpack<rpc::StatusReply>(*reply));
  return std::move(status.status);
}

}  // namespace

arrow::Status no_answer(const std::string& run_folder, std::chrono::milliseconds patience) {
  return arrow::Status::Cancelled("the run in ", run_folder, " did not answer within ",
                                  seconds_text(std::chrono::duration<double>(patience).count()),
                                  ": its driver is stopped, or busy in a callback");
}

// The link is resolved here: a socket's own address is short, a run folder's path may not be.
arrow::Result<Descriptor> connect_to_run(const std::string& run_folder, std::chrono::milliseconds patience,
                                         const std::stop_token& given_up) {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(run_folder + "/" + run_layout::kControlSocket, error);
  if (error) return no_live_run(run_folder);
  ARROW_ASSIGN_OR_RAISE(const sockaddr_un address, unix_address(path));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("cannot make a socket");
  // For the case that nobody accepts: connect() waits for room in the queue then, which nothing but time ends.
  constexpr std::chrono::milliseconds kLook{200};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!given_up.stop_requested()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto wait = std::clamp(left, std::chrono::milliseconds(1), kLook);
    const timeval limit{0, wait.count() * 1000};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      const timeval unlimited{0, 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &unlimited, sizeof unlimited);
      return socket;
    }
    if (errno != EAGAIN && errno != EINTR) return no_live_run(run_folder);
    if (left <= wait) return no_answer(run_folder, patience);
  }
  return not_asked(run_folder);
}

arrow::Result<Json> request_status(const std::string& run_folder, std::chrono::milliseconds patience) {
  return status_in(ask(run_folder, rpc::pack(rpc::StatusRequest{}), patience));
}

arrow::Result<Json> request_stop(const std::string& run_folder, const std::string& reason,
                                 std::chrono::milliseconds patience) {
  return status_in(ask(run_folder, rpc::pack(rpc::StopRun{reason}), patience));
}

arrow::Result<std::vector<stacks::WorkerStacks>> request_stacks(const std::string& run_folder, int64_t rank,
                                                                std::chrono::milliseconds patience) {
  ARROW_ASSIGN_OR_RAISE(const auto reply, ask(run_folder, rpc::pack(rpc::RunStacksRequest{rank}), patience));
  ARROW_RETURN_NOT_OK(rpc::unpack<rpc::StacksReply>(reply).status());
  return stacks::decode_lines(reply.bytes);
}

arrow::Result<RunProfile> request_profile(const std::string& run_folder, const rpc::RunProfileRequest& wanted,
                                          const std::stop_token& given_up, std::chrono::milliseconds patience) {
  const auto taking = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(wanted.seconds));
  ARROW_ASSIGN_OR_RAISE(const auto reply, ask(run_folder, rpc::pack(wanted), taking + patience, given_up));
  ARROW_ASSIGN_OR_RAISE(auto said, rpc::unpack<rpc::ProfileReply>(reply));
  stacks::Profiles profiles = stacks::decode_profiles(reply.bytes);
  if (profiles.empty() && !said.problem.empty()) return arrow::Status::Invalid(said.problem);
  return RunProfile{
      .profiles = std::move(profiles), .folder = std::move(said.folder), .problem = std::move(said.problem)};
}

arrow::Status request_checkpoint(const std::string& run_folder, const std::string& who,
                                 std::chrono::milliseconds patience) {
  ARROW_ASSIGN_OR_RAISE(const auto reply, ask(run_folder, rpc::pack(rpc::RunCheckpointRequest{who}), patience));
  ARROW_ASSIGN_OR_RAISE(const auto said, rpc::unpack<rpc::RunCheckpointReply>(reply));
  return said.problem.empty() ? arrow::Status::OK() : arrow::Status::Invalid(said.problem);
}

arrow::Status request_collectives(const std::string& run_folder, std::chrono::milliseconds patience) {
  ARROW_ASSIGN_OR_RAISE(const auto reply, ask(run_folder, rpc::pack(rpc::CollectivesRequest{}), patience));
  return rpc::unpack<rpc::CollectivesReply>(reply).status();
}

}  // namespace paceline::run
