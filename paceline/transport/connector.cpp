#include "paceline/transport/connector.h"

#include <arrow/flight/types.h>

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <condition_variable>
#include <mutex>
#include <random>

#include "paceline/core/posix/thread.h"
#include "paceline/transport/flight_link.h"
#include "paceline/transport/hello.h"
#include "paceline/transport/resumable_channel.h"

namespace paceline::transport {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{1000};

// How long one attempt may take: to connect, and then until the controller answers.
milliseconds patience_of_attempt(Duration lease) {
  return std::clamp(std::chrono::ceil<milliseconds>(lease / 4), milliseconds(500), milliseconds(5000));
}

// The controller does not want this agent: no attempt will go better.
bool is_final(const arrow::Status& status) {
  const auto detail = arrow::flight::FlightStatusDetail::UnwrapStatus(status);
  return detail && (detail->code() == arrow::flight::FlightStatusCode::Unauthenticated ||
                    detail->code() == arrow::flight::FlightStatusCode::Unauthorized);
}

// By OpenSSL's words, which are others where only the clocks differ.
bool has_no_certificate_of_the_run(const arrow::Status& status) {
  const auto says = [&](const char* words) { return status.message().find(words) != std::string::npos; };
  return says("certificate verify failed") && !says("not yet valid") && !says("has expired");
}

// Breaks a link off when its time is over.
class Watch final : public Timed {
 public:
  /// False when everything is over: the link is closed at once.
  bool begin(std::shared_ptr<Link> link, Time deadline) {
    const std::lock_guard lock(mutex_);
    link_ = std::move(link);
    deadline_ = deadline;
    if (stopped_) link_->close();
    return !stopped_;
  }
  /// The link has been answered; now only stop() breaks it off.
  void answered() {
    const std::lock_guard lock(mutex_);
    deadline_.reset();
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    link_.reset();
    deadline_.reset();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (link_) link_->close();
  }
  std::optional<Time> look(Time now) override {
    const std::lock_guard lock(mutex_);
    if (!link_ || !deadline_) return std::nullopt;
    if (now < *deadline_) return deadline_;
    link_->close();
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  bool stopped_ = false;
  std::shared_ptr<Link> link_;
  std::optional<Time> deadline_;
};

class ConnectedChannel final : public rpc::Channel {
 public:
  ConnectedChannel(ConnectOptions options, std::string id)
      : options_(std::move(options)),
        id_(std::move(id)),
        has_own_threads_(options_.threads == nullptr),
        threads_(has_own_threads_ ? std::make_shared<SharedThreads>() : options_.threads),
        session_(Session::make(threads_, {.peer = "the controller of run " + options_.run, .lease = options_.lease})),
        channel_(std::make_unique<ResumableChannel>(session_)),
        failures_(options_.addresses.size()),
        thread_(start_thread([this] { stay_connected(); })) {}

  ~ConnectedChannel() override {
    channel_->close();
    if (is_connected()) session_->wait_ended(options_.linger);
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    session_->end(arrow::Status::Cancelled("the channel is gone"));
    watch_->stop();
    thread_.join();
    channel_.reset();
    if (has_own_threads_) threads_->stop();
  }

  void start(Handlers handlers) override { channel_->start(std::move(handlers)); }
  arrow::Status send(rpc::Envelope envelope) override { return channel_->send(std::move(envelope)); }
  void close() override { channel_->close(); }
  bool carries_descriptors() const override { return false; }

  arrow::Status wait_connected(const std::stop_token& stop) {
    const std::stop_callback wakes(stop, [this] { wake(); });
    const auto deadline = std::chrono::steady_clock::now() + options_.patience;
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return connected_ || !final_.ok() || stop.stop_requested(); });
    if (connected_) return arrow::Status::OK();
    if (stop.stop_requested()) return arrow::Status::Cancelled("connecting to run ", options_.run, " was cancelled");
    if (!final_.ok()) return final_;
    std::string text;
    for (size_t i = 0; i < failures_.size(); ++i) {
      const bool is_known = !failures_[i].ok();
      text += "; " + options_.addresses[i] + ": " + (is_known ? failures_[i].message() : "no answer");
    }
    return arrow::Status::IOError("the controller of run ", options_.run, " was not reached", text);
  }

 private:
  void wake() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  // Whether the controller has answered once.
  bool is_connected() {
    const std::lock_guard lock(mutex_);
    return connected_;
  }

  bool is_over() {
    if (session_->has_ended()) return true;
    const std::lock_guard lock(mutex_);
    return stopping_ || !final_.ok();
  }

  // Waits between attempts, a random time up to `pause` and half of it at least: agents that lost their connections
  // together do not come back together.
  void pause(milliseconds pause) {
    const std::chrono::duration<double, std::milli> random(std::uniform_real_distribution<double>(0.5, 1.0)(random_) *
                                                           static_cast<double>(pause.count()));
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, random, [this] { return stopping_; });
  }

  void stay_connected() {
    milliseconds next_pause = kFirstPause;
    size_t first = 0;  // the address that worked last
    while (!is_over()) {
      bool was_connected = false;
      for (size_t i = 0; i < options_.addresses.size() && !was_connected && !is_over(); ++i) {
        const size_t at = (first + i) % options_.addresses.size();
        const arrow::Status failure = attempt(options_.addresses[at], was_connected);
        if (was_connected) first = at;
        const std::lock_guard lock(mutex_);
        failures_[at] = failure;
      }
      if (is_over()) break;
      if (!is_connected() && leads_to_others()) {
        (void)give_up(arrow::Status::IOError("who answers at ", boost::algorithm::join(options_.addresses, ", "),
                                             " has no certificate of run ", options_.run,
                                             ": that run is over, or its controller is elsewhere"));
      }
      next_pause = was_connected ? kFirstPause : next_pause;
      pause(next_pause);
      next_pause = was_connected ? kFirstPause : std::min(2 * next_pause, kLongestPause);
    }
  }

  // Before there is a session only: one that lives outlasts whoever has its controller's address for a while.
  bool leads_to_others() {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(failures_, has_no_certificate_of_the_run);
  }

  // One connection, from its beginning to its end.
  arrow::Status attempt(const std::string& address, bool& was_connected) {
    const milliseconds patience = patience_of_attempt(options_.lease);
    const Session::Resumption here = session_->prepare();
    const Hello hello{.run = options_.run,
                      .peer = id_,
                      .name = options_.name,
                      .received = here.received,
                      .resumed = session_->was_connected()};
    auto opened = open_flight_link(address, options_.credentials, encode_hello(hello), patience);
    if (!opened.ok()) return check_final(address, opened.status());
    const std::shared_ptr<Link>& link = *opened;
    const Time deadline = threads_->now() + patience;
    if (!watch_->begin(link, deadline)) return arrow::Status::Cancelled("the channel is gone");
    threads_->watch(watch_, deadline);
    const arrow::Status served = serve(address, link, here, was_connected);
    watch_->forget();
    link->close();
    return served;
  }

  arrow::Status serve(const std::string& address, const std::shared_ptr<Link>& link, Session::Resumption here,
                      bool& was_connected) {
    const auto first = link->read();
    if (!first.ok()) return check_final(address, first.status());
    if (!*first) return arrow::Status::IOError("whoever answered there is not the controller of this run");
    ARROW_ASSIGN_OR_RAISE(const HelloAnswer answer, decode_hello_answer(std::string_view(**first)));
    if (!answer.refused.empty()) {
      return give_up(arrow::Status::IOError("the controller at ", address, " refused this agent: ", answer.refused));
    }
    watch_->answered();
    const arrow::Status resumable = session_->can_resume(answer.received);
    if (!resumable.ok()) return give_up(resumable);
    was_connected = true;
    {
      const std::lock_guard lock(mutex_);
      connected_ = true;
      changed_.notify_all();
    }
    return session_->serve(here, link, answer.received);
  }

  arrow::Status check_final(const std::string& address, const arrow::Status& status) {
    if (!is_final(status)) return status;
    return give_up(arrow::Status::IOError("the controller at ", address,
                                          " did not accept the token: this agent belongs to another run"));
  }

  arrow::Status give_up(const arrow::Status& why) {
    {
      const std::lock_guard lock(mutex_);
      final_ = why;
      changed_.notify_all();
    }
    session_->end(why);
    return why;
  }

  const ConnectOptions options_;
  const std::string id_;
  const bool has_own_threads_;
  const std::shared_ptr<SharedThreads> threads_;
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool connected_ = false;
  arrow::Status final_;

  const std::shared_ptr<Session> session_;
  std::unique_ptr<ResumableChannel> channel_;
  std::vector<arrow::Status> failures_;  // of each address, the last
  std::minstd_rand random_{std::random_device{}()};
  std::thread thread_;
};

}  // namespace

arrow::Result<std::unique_ptr<rpc::Channel>> connect(ConnectOptions options, const std::stop_token& stop) {
  if (options.addresses.empty()) return arrow::Status::Invalid("no address of the controller was given");
  for (const std::string& address : options.addresses) ARROW_RETURN_NOT_OK(parse_address(address));
  ARROW_ASSIGN_OR_RAISE(std::string id, random_id());
  auto channel = std::make_unique<ConnectedChannel>(std::move(options), std::move(id));
  ARROW_RETURN_NOT_OK(channel->wait_connected(stop));
  return channel;
}

}  // namespace paceline::transport
