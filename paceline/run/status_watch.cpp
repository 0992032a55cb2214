#include "paceline/run/status_watch.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
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
constexpr std::chrono::milliseconds kShortest{1};
constexpr int64_t kWish = 1, kQuestion = 2;  // numbers of what is asked of a driver

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
    const auto deadline = SteadyClock::now() + patience;
    std::unique_lock lock(mutex_);
    if (!watched_.contains(run_folder)) {
      lock.unlock();
      ARROW_ASSIGN_OR_RAISE(Descriptor socket, connect_to_run(run_folder, std::max(patience, kShortest)));
      lock.lock();
      if (!watched_.contains(run_folder)) begin(run_folder, std::move(socket));
    }
    Watched& watched = watched_.at(run_folder);
    watched.wanted = SteadyClock::now();
    if (watched.is_fresh()) return watched.status;
    ask(watched);
    // What it told last counts while it may still answer.
    if (watched.may_still_answer(options_.own_answer)) return watched.status;
    // Who has not answered for so long before will not be waited for again.
    const auto until = std::min(deadline, watched.asked + patience);
    const bool has_heard = changed_.wait_until(lock, until, [&] {
      const auto found = watched_.find(run_folder);
      return found == watched_.end() || found->second.is_fresh();
    });
    if (!has_heard) return no_answer(run_folder, patience);
    if (const auto found = watched_.find(run_folder); found != watched_.end()) return found->second.status;
    lock.unlock();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    return request_status(run_folder, std::max(left, kShortest));  // whether it has ended
  }

 private:
  struct Watched {
    std::unique_ptr<rpc::Channel> channel;
    std::unique_ptr<asio::steady_timer> end;
    Json status = Json::object();  // as it is shown
    Json told_by_news = Json::object();
    bool has_news = false;
    bool is_answer_shown = false;    // in place of the last news
    bool is_asked = false;           // and has not answered
    SteadyClock::time_point asked;   // for its status
    SteadyClock::time_point wanted;  // by who calls status()
    std::optional<SteadyClock::time_point> told;

    bool is_fresh() const { return told && SteadyClock::now() - *told < kSilence; }
    bool may_still_answer(std::chrono::milliseconds patience) const {
      return told && is_asked && SteadyClock::now() - asked < patience;
    }
  };

  // With the lock.
  void begin(const std::string& run_folder, Descriptor socket) {
    Watched& watched = watched_[run_folder];
    watched.wanted = SteadyClock::now();
    watched.channel = rpc::make_socket_channel(loop_, std::move(socket));
    watched.end = std::make_unique<asio::steady_timer>(loop_);
    watched.channel->start({.on_message = [this, run_folder](const rpc::Envelope& news) { take(run_folder, news); },
                            .on_close = [this, run_folder](const arrow::Status&) { forget(run_folder); }});
    rpc::Envelope wish = rpc::pack(rpc::WatchRun{});
    wish.request = kWish;
    (void)watched.channel->send(std::move(wish));  // one that is gone says so by its end
    end_later(run_folder, *watched.end, options_.linger);
  }

  // With the lock. For the driver that tells nothing by itself.
  static void ask(Watched& watched) {
    if (watched.is_asked) return;
    watched.is_asked = true;
    watched.asked = SteadyClock::now();
    rpc::Envelope question = rpc::pack(rpc::StatusRequest{});
    question.request = kQuestion;
    (void)watched.channel->send(std::move(question));
  }

  void take(const std::string& run_folder, const rpc::Envelope& envelope) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = watched_.find(run_folder);
      if (found == watched_.end()) return;
      Watched& watched = found->second;
      const bool was_fresh = watched.is_fresh();
      const std::optional<bool> is_new = take(watched, envelope);
      if (!is_new) return;
      watched.told = SteadyClock::now();
      changed_.notify_all();
      if (was_fresh && !*is_new) return;
    }
    tell(run_folder);
  }

  // Whether the status has changed; not set where the driver has told nothing of it. With the lock.
  static std::optional<bool> take(Watched& watched, const rpc::Envelope& envelope) {
    if (auto news = rpc::unpack<rpc::RunChanged>(envelope); news.ok() && news->set.is_object()) {
      JsonChange change{.set = std::move(news->set), .removed = std::move(news->removed)};
      apply_change(change, watched.told_by_news);
      // What it answered in between is not what the news are differences to. The first ones are the whole.
      const bool is_whole = !std::exchange(watched.has_news, true) || watched.is_answer_shown;
      watched.is_answer_shown = false;
      if (is_whole) change = change_of(watched.status, watched.told_by_news);
      apply_change(change, watched.status);
      return !change.is_empty();
    }
    const bool is_question = envelope.reply_to == kQuestion;
    const auto answer = rpc::unpack<rpc::StatusReply>(envelope);
    if (!answer.ok() || !answer->status.is_object()) {
      if (is_question) watched.is_asked = false;
      return std::nullopt;
    }
    if (!watched.is_asked) return std::nullopt;  // its socket took it for busy, but it has answered
    JsonChange change;
    if (answer->is_partial) {
      change.set = answer->status;
    } else {
      watched.is_asked = false;
      change = change_of(watched.status, answer->status);
    }
    apply_change(change, watched.status);
    watched.is_answer_shown = true;
    return !change.is_empty();
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
      // One that is still to answer would have more and more to accept.
      const auto rest =
          found->second.is_asked ? options_.linger : found->second.wanted + options_.linger - SteadyClock::now();
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
