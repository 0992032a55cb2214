#include "paceline/run/status_watch.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "paceline/core/json_change.h"
#include "paceline/core/posix/thread.h"
#include "paceline/rpc/socket_channel.h"
#include "paceline/rpc/watch_messages.h"
#include "paceline/run/control_client.h"
#include "paceline/run/control_connection_internal.h"

namespace paceline::run {
namespace {

namespace asio = boost::asio;
using SteadyClock = std::chrono::steady_clock;

// A driver that has told nothing for longer is in the user's code, is stopped, or is of a version that tells nothing.
constexpr std::chrono::milliseconds kSilence{static_cast<int>(rpc::kLongestSilence * 1'500)};

class Watching final : public StatusWatch {
 public:
  explicit Watching(Options options) : options_(std::move(options)) {
    thread_ = start_thread([this] { loop_.run(); });
  }
  ~Watching() override {
    loop_.stop();
    thread_.join();
    watched_.clear();  // before the loop, whose their channels are
  }

  arrow::Result<Json> status(const std::string& run_folder, std::chrono::milliseconds patience) override {
    std::unique_lock lock(mutex_);
    if (!watched_.contains(run_folder)) ARROW_RETURN_NOT_OK(begin(run_folder, patience));
    const auto is_settled = [&] {
      const auto found = watched_.find(run_folder);
      return found == watched_.end() || found->second.has_told || SteadyClock::now() - found->second.begun > patience;
    };
    changed_.wait_for(lock, patience, is_settled);
    if (const auto found = watched_.find(run_folder); found != watched_.end()) {
      Watched& watched = found->second;
      watched.asked = SteadyClock::now();
      if (watched.has_told && SteadyClock::now() - watched.told < kSilence) return watched.status;
    }
    lock.unlock();
    return request_status(run_folder, patience);
  }

 private:
  struct Watched {
    std::unique_ptr<rpc::Channel> channel;
    std::unique_ptr<asio::steady_timer> end;
    Json status = Json::object();
    bool has_told = false;
    SteadyClock::time_point begun, told, asked;
  };

  // With the lock.
  arrow::Status begin(const std::string& run_folder, std::chrono::milliseconds patience) {
    ARROW_ASSIGN_OR_RAISE(Descriptor socket, connect_to_run(run_folder, patience));
    Watched& watched = watched_[run_folder];
    watched.begun = watched.asked = SteadyClock::now();
    watched.channel = rpc::make_socket_channel(loop_, std::move(socket));
    watched.end = std::make_unique<asio::steady_timer>(loop_);
    watched.channel->start({.on_message = [this, run_folder](const rpc::Envelope& news) { take(run_folder, news); },
                            .on_close = [this, run_folder](const arrow::Status&) { forget(run_folder); }});
    rpc::Envelope wish = rpc::pack(rpc::WatchRun{});
    wish.request = 1;
    (void)watched.channel->send(std::move(wish));  // one that is gone says so by its end
    end_later(run_folder, *watched.end, options_.linger);
    return arrow::Status::OK();
  }

  void take(const std::string& run_folder, const rpc::Envelope& envelope) {
    auto news = rpc::unpack<rpc::RunChanged>(envelope);
    if (!news.ok() || !news->set.is_object()) return;
    const JsonChange change{.set = std::move(news->set), .removed = std::move(news->removed)};
    {
      const std::lock_guard lock(mutex_);
      const auto found = watched_.find(run_folder);
      if (found == watched_.end()) return;
      apply_change(change, found->second.status);
      found->second.has_told = true;
      found->second.told = SteadyClock::now();
      changed_.notify_all();
    }
    if (!change.is_empty()) tell(run_folder);
  }

  // A channel is not destroyed within its own handler.
  void forget(const std::string& run_folder) {
    asio::post(loop_, [this, run_folder] {
      {
        const std::lock_guard lock(mutex_);
        watched_.erase(run_folder);
        changed_.notify_all();
      }
      tell(run_folder);
    });
  }

  void end_later(const std::string& run_folder, asio::steady_timer& timer, SteadyClock::duration wait) {
    timer.expires_after(wait);
    timer.async_wait([this, run_folder](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      const std::lock_guard lock(mutex_);
      const auto found = watched_.find(run_folder);
      if (found == watched_.end()) return;
      const auto rest = found->second.asked + options_.linger - SteadyClock::now();
      if (rest > SteadyClock::duration::zero()) return end_later(run_folder, *found->second.end, rest);
      watched_.erase(found);
    });
  }

  void tell(const std::string& run_folder) const {
    if (options_.on_change) options_.on_change(run_folder);
  }

  const Options options_;
  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Watched> watched_;  // by run folder
  std::thread thread_;
};

}  // namespace

std::unique_ptr<StatusWatch> StatusWatch::start(Options options) {
  return std::make_unique<Watching>(std::move(options));
}

}  // namespace paceline::run
