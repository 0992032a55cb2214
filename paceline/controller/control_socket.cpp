#include "paceline/controller/control_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/thread.h"
#include "paceline/core/posix/unix_address.h"
#include "paceline/core/run_layout.h"
#include "paceline/rpc/messages.h"
#include "paceline/rpc/socket_channel.h"
#include "paceline/rpc/watch_messages.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/local/durable.h"

namespace paceline::controller {
namespace {

// Before the next try when this process has as many open files as it may have.
constexpr std::chrono::milliseconds kAcceptPause{100};
// Until a question is answered here if the controller's thread is in the user's code.
constexpr std::chrono::milliseconds kOwnAnswer{static_cast<int>(rpc::kOwnAnswer * 1000)};
constexpr int kIdleLooks = 3;

arrow::Result<Descriptor> listen_at(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const sockaddr_un address, unix_address(path));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_status("cannot make a socket");
  ::unlink(path.c_str());  // left by a driver that was killed: the run's lock is ours
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno_status("cannot bind " + path);
  }
  if (::listen(socket.get(), 16) != 0) return errno_status("cannot listen at " + path);
  return socket;
}

class ControlSocketThread final : public ControlSocket {
 public:
  ControlSocketThread(Descriptor listener, std::string path, std::string link, Inbox& inbox,
                      const Occupation& occupation)
      : path_(std::move(path)),
        link_(std::move(link)),
        inbox_(inbox),
        occupation_(occupation),
        listener_(loop_, listener.release()) {
    accept_next();
    thread_ = start_thread([this] { loop_.run(); });
  }

  ~ControlSocketThread() override {
    loop_.stop();
    thread_.join();
    inbox_.take();  // the clients in it must not outlive their event loop; nobody reads it any more
    clients_.clear();
    std::error_code error;
    const bool is_own = std::filesystem::read_symlink(link_, error) == path_;
    if (is_own) ::remove(link_.c_str());
    ::remove(path_.c_str());
    ::remove(std::filesystem::path(path_).parent_path().c_str());
  }

  std::vector<std::string> files() const override { return {link_, path_, std::filesystem::path(path_).parent_path()}; }

 private:
  void accept_next() {
    listener_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& e) {
      if (e) return;
      Descriptor peer(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
      const bool none_left = !peer && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
      if (peer && may_connect(peer.get())) serve(std::move(peer));
      if (!none_left) return accept_next();
      // The peer waits on, so the socket stays readable: trying at once would be a loop without end.
      accept_later_.expires_after(kAcceptPause);
      accept_later_.async_wait([this](const boost::system::error_code& cancelled) {
        if (!cancelled) accept_next();
      });
    });
  }

  void serve(Descriptor peer) {
    const int64_t number = ++last_client_;
    std::shared_ptr<rpc::Channel> client = rpc::make_socket_channel(loop_, std::move(peer));
    clients_[number] = client;
    std::weak_ptr<rpc::Channel> weak = client;
    client->start({.on_message =
                       [this, weak, number](rpc::Envelope request) {
                         auto alive = weak.lock();
                         if (alive == nullptr) return;
                         if (request.type == rpc::WatchRun::kType) watchers_.insert(number);
                         if (request.type == rpc::StatusRequest::kType) answer_later(weak, request.request);
                         inbox_.push(FromCommandLine{std::move(alive), std::move(request)});
                       },
                   .on_close =
                       [this, number](const arrow::Status&) {
                         // Not from within its own handler.
                         boost::asio::post(loop_, [this, number] {
                           const auto gone = clients_.extract(number);
                           const bool has_watched = watchers_.erase(number) > 0;
                           if (!gone.empty() && has_watched) inbox_.push(CommandLineGone{gone.mapped()});
                         });
                       }});
  }

  // Who has had the controller's own answer by then has left, or takes no second one. Again and again, while the
  // controller is in the user's code.
  void answer_later(const std::weak_ptr<rpc::Channel>& client, int64_t request, int idle = 0) {
    auto timer = std::make_shared<boost::asio::steady_timer>(loop_, kOwnAnswer);
    timer->async_wait([this, timer, client, request, idle](const boost::system::error_code& cancelled) {
      const auto alive = client.lock();
      if (cancelled || alive == nullptr) return;
      const std::string occupation = occupation_.text();
      if (occupation.empty()) {  // between two, perhaps
        if (idle < kIdleLooks) answer_later(client, request, idle + 1);
        return;
      }
      const Json known{{"waits_for", {"ranks wait for " + occupation}}};
      rpc::Envelope reply = rpc::pack(rpc::StatusReply{.status = known, .is_partial = true});
      reply.reply_to = request;
      if (alive->send(std::move(reply)).ok()) answer_later(client, request);
    });
  }

  const std::string path_;
  const std::string link_;
  Inbox& inbox_;
  const Occupation& occupation_;
  boost::asio::io_context loop_{1};
  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer accept_later_{loop_};
  std::map<int64_t, std::shared_ptr<rpc::Channel>> clients_;  // the loop's thread only
  std::set<int64_t> watchers_;                                // of these; likewise
  int64_t last_client_ = 0;
  std::thread thread_;
};

}  // namespace

arrow::Result<std::string> private_socket_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool has_runtime = runtime != nullptr && *runtime == '/' && ::access(runtime, W_OK | X_OK) == 0;
  std::string folder =
      has_runtime ? std::string(runtime) + "/paceline" : "/tmp/paceline-" + std::to_string(::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return errno_status("cannot make " + folder);
  struct stat status{};
  if (::lstat(folder.c_str(), &status) != 0) return errno_status("cannot examine " + folder);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) {
    return arrow::Status::IOError(folder, " must be a folder of the user's own with mode 0700; remove it");
  }
  return folder;
}

arrow::Result<std::unique_ptr<ControlSocket>> open_control_socket(const std::string& run_folder, Inbox& inbox,
                                                                  const Occupation& occupation) {
  // The machine's name too, so that the link shows whose it is where machines have the folder in common; and the
  // folder itself, since one that was moved away while its run goes on leaves its path to another run.
  ARROW_ASSIGN_OR_RAISE(const storage::FileId folder_id, storage::file_id(run_folder));
  const std::string whose =
      run_folder + "\n" + host_name() + "\n" + std::to_string(folder_id.device) + ":" + std::to_string(folder_id.inode);
  const std::string name = storage::checksum_of(std::as_bytes(std::span(whose))).substr(0, 16);
  std::string path;
  arrow::Result<Descriptor> listening = arrow::Status::IOError("not tried");
  // Another run that ends may remove the folder between the two steps.
  for (int tries = 0; tries < 5 && !listening.ok(); ++tries) {
    ARROW_ASSIGN_OR_RAISE(const std::string folder, private_socket_folder());
    path = folder + "/" + name + ".sock";
    listening = listen_at(path);
  }
  ARROW_ASSIGN_OR_RAISE(Descriptor listener, std::move(listening));
  const std::string link = run_folder + "/" + run_layout::kControlSocket;
  ::unlink(link.c_str());
  if (::symlink(path.c_str(), link.c_str()) != 0) return errno_status("cannot make " + link);
  return std::make_unique<ControlSocketThread>(std::move(listener), path, link, inbox, occupation);
}

}  // namespace paceline::controller
