#include "paceline/dashboard/dashboard.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "paceline/core/log.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/state_directory.h"
#include "paceline/dashboard/access/token_file.h"
#include "paceline/dashboard/api.h"
#include "paceline/dashboard/assets.h"
#include "paceline/dashboard/router.h"
#include "paceline/track/character_width.h"
#include "paceline/track/dashboard_address.h"
#include "paceline/transport/trust.h"

namespace paceline::dashboard {
namespace {

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

class RunningDashboard final : public Dashboard {
 public:
  RunningDashboard(DashboardOptions options, const std::string& state)
      : options_(std::move(options)),
        state_(state),
        log_(state + "/dashboard.log", nullptr, LogLevel::error),
        metrics_token_file_(state + "/metrics_token"),
        runs_(options_.storage_paths) {}
  ~RunningDashboard() override { stop(); }

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(const std::string metrics_token, find_metrics_token());
    ARROW_ASSIGN_OR_RAISE(const Reach reach, reach_of(options_.address));
    if (!reach.is_loopback && !options_.insecure_no_tls) return refuse_network();
    assets_ = embedded_assets();
    if (!options_.web_root.empty()) {
      ARROW_ASSIGN_OR_RAISE(assets_, folder_assets(options_.web_root));
    }
    if (!options_.external_url.empty()) {
      ARROW_ASSIGN_OR_RAISE(site_, parse_site(options_.external_url, options_.insecure_no_tls));
    }
    std::string token;
    token_file_ = options_.token_file;
    if (!reach.is_loopback && token_file_.empty()) token_file_ = state_ + "/dashboard_token";
    if (!token_file_.empty()) {
      ARROW_ASSIGN_OR_RAISE(token, token_in_file(token_file_, "the token that opens the dashboard"));
    }
    if (!reach.is_loopback) {
      site_.is_on_network = true;
      site_.names = {in_small_letters(host_name())};
    }
    own_host_ = reach.is_any ? host_name() : options_.address;
    ARROW_ASSIGN_OR_RAISE(sessions_,
                          Sessions::create([this](const std::string& code) { tell_next(address(code)); }, token));
    api_ = std::make_unique<Api>(
        runs_, *sessions_,
        Api::Options{.read_only = options_.read_only, .site = site_, .record = [this](const std::string& what) {
                       log_.info(track::printable(what));
                       tell(track::printable(what));
                     }});
    router_ = std::make_unique<Router>(*api_, *sessions_, *assets_, metrics_token, site_);
    feed_ = std::make_unique<Feed>([this](const std::string& topic) { return api_->look(topic); });
    api_->watch_runs([this](const std::string& topic) { feed_->note_change(topic); });
    ARROW_RETURN_NOT_OK(listen());
    sessions_->name_cookie(server_->port());
    log_.info("listens at " + options_.address + ":" + std::to_string(server_->port()));
    if (options_.is_announced) announce();
    server_->start([this](const Request& request) { return router_->answer(request); });
    return arrow::Status::OK();
  }

  std::string url() const override { return address(sessions_->code()); }
  std::string another_url() override { return address(sessions_->another_code()); }
  uint16_t port() const override { return server_->port(); }
  const std::string& metrics_token_file() const override { return metrics_token_file_; }
  const std::string& token_file() const override { return token_file_; }

  void stop() override {
    if (feed_) feed_->stop();
    if (api_) api_->give_up();
    if (server_) server_->stop();
    if (api_) api_->end_watch();
    announced_.reset();
  }

 private:
  arrow::Status refuse_network() const {
    return arrow::Status::Invalid(
        options_.address,
        " can be reached from other machines, and this server has no encryption: who sees what goes over the network "
        "has your session. Wanted an address of the loopback, 127.0.0.1 or ::1, with a tunnel (ssh -L 8265:127.0.0.1:",
        options_.port.value_or(kUsualPort),
        " HOST) or a proxy with TLS before it; or --insecure-no-tls, on a network that you trust");
  }
  // Where it cannot be kept nobody has it.
  arrow::Result<std::string> find_metrics_token() {
    auto token = token_in_file(metrics_token_file_, "the token for /metrics");
    if (!token.status().IsIOError()) return token;
    tell("nobody can read /metrics: " + token.status().message());
    metrics_token_file_.clear();
    return transport::random_id();
  }
  // Without that it can be used all the same: on a full disk, or one without locks.
  void announce() {
    auto address = track::DashboardAddress::announce(state_, base(), options_.storage_paths);
    if (address.ok()) {
      announced_.emplace(*std::move(address));
    } else {
      tell("runs that begin will not name this dashboard: " + address.status().message());
    }
  }
  arrow::Status listen() {
    auto server = HttpServer::listen(options_.address, options_.port.value_or(kUsualPort), *feed_, options_.limits);
    if (server.status().IsIOError() && !options_.port) {
      server = HttpServer::listen(options_.address, 0, *feed_, options_.limits);
    }
    if (server.status().IsIOError()) {
      const bool is_port = options_.port && *options_.port != 0;
      return server.status().WithMessage(server.status().message(),
                                         is_port ? "; give another port, or none: then a free one is chosen"
                                                 : "; is it an address of this machine (--host)?");
    }
    ARROW_ASSIGN_OR_RAISE(server_, std::move(server));
    return arrow::Status::OK();
  }
  std::string address(const std::string& code) const { return base() + "#code=" + code; }
  std::string base() const {
    if (site_.is_given()) return site_.origin + site_.path;
    const bool is_version_6 = own_host_.find(':') != std::string::npos;
    const std::string host = is_version_6 ? "[" + own_host_ + "]" : own_host_;
    return "http://" + host + ":" + std::to_string(server_->port()) + "/";
  }
  void tell_next(const std::string& url) const {
    options_.tell_next ? options_.tell_next(url) : tell("opened; to open it once more: " + url);
  }
  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  DashboardOptions options_;
  const std::string state_;
  Log log_;
  std::string metrics_token_file_;
  std::string token_file_;
  std::string own_host_;  // in addresses
  RunBook runs_;
  Site site_;
  std::unique_ptr<Assets> assets_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<HttpServer> server_;
  std::optional<track::DashboardAddress> announced_;
};

}  // namespace

arrow::Result<std::unique_ptr<Dashboard>> Dashboard::start(DashboardOptions options) {
  ARROW_ASSIGN_OR_RAISE(const std::string state, state_directory());
  std::error_code error;
  std::filesystem::create_directories(state, error);
  if (error) return arrow::Status::IOError("cannot make the state directory ", state, ": ", error.message());
  auto dashboard = std::make_unique<RunningDashboard>(std::move(options), state);
  ARROW_RETURN_NOT_OK(dashboard->open());
  return dashboard;
}

}  // namespace paceline::dashboard
