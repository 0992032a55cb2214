#include "paceline/controller/control_client.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>

#include "paceline/controller/control_socket.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/messages.h"

namespace paceline::controller {
namespace {

// The link is resolved here: a socket's own address is short, a run folder's path may not be.
arrow::Result<Descriptor> connect_to(const std::string& run_folder) {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(run_folder + "/" + kControlLink, error);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (error || path.size() >= sizeof address.sun_path) return arrow::Status::IOError("no live run in ", run_folder);
  path.copy(address.sun_path, path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("cannot make a socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return arrow::Status::IOError("no live run in ", run_folder);
  }
  return socket;
}

arrow::Result<Json> ask(const std::string& run_folder, rpc::Envelope request) {
  ARROW_ASSIGN_OR_RAISE(Descriptor connected, connect_to(run_folder));
  rpc::BlockingSocket socket(std::move(connected));
  request.request = 1;
  ARROW_RETURN_NOT_OK(socket.send(std::move(request)));
  ARROW_ASSIGN_OR_RAISE(const auto reply, socket.receive());
  if (!reply) return arrow::Status::IOError("the run in ", run_folder, " ended while it was asked");
  ARROW_ASSIGN_OR_RAISE(rpc::StatusReply status, rpc::unpack<rpc::StatusReply>(*reply));
  return std::move(status.status);
}

}  // namespace

arrow::Result<Json> request_status(const std::string& run_folder) {
  return ask(run_folder, rpc::pack(rpc::StatusRequest{}));
}

arrow::Result<Json> request_stop(const std::string& run_folder, const std::string& reason) {
  return ask(run_folder, rpc::pack(rpc::StopRun{reason}));
}

}  // namespace paceline::controller
