#include "paceline/dashboard/dashboard.h"

#include <filesystem>
#include <utility>

#include "paceline/core/log.h"
#include "paceline/core/state_directory.h"
#include "paceline/dashboard/api.h"
#include "paceline/dashboard/assets.h"
#include "paceline/dashboard/router.h"
#include "paceline/track/character_width.h"
#include "paceline/track/dashboard_address.h"

namespace paceline::dashboard {
namespace {

class RunningDashboard final : public Dashboard {
 public:
  RunningDashboard(DashboardOptions options, const std::string& state)
      : options_(std::move(options)),
        state_(state),
        log_(state + "/dashboard.log", nullptr, LogLevel::error),
        token_file_(state + "/metrics_token"),
        runs_(options_.storage_paths) {}
  ~RunningDashboard() override { stop(); }

  arrow::Status open() {
    ARROW_ASSIGN_OR_RAISE(const std::string token, metrics_token(token_file_));
    assets_ = embedded_assets();
    if (!options_.web_root.empty()) {
      ARROW_ASSIGN_OR_RAISE(assets_, folder_assets(options_.web_root));
    }
    if (!options_.external_url.empty()) {
      ARROW_ASSIGN_OR_RAISE(site_, parse_site(options_.external_url));
    }
    ARROW_ASSIGN_OR_RAISE(sessions_, Sessions::create([this](const std::string& code) {
                            tell("opened; to open it once more: " + address(code));
                          }));
    api_ = std::make_unique<Api>(
        runs_, *sessions_,
        Api::Options{.read_only = options_.read_only, .site = site_, .record = [this](const std::string& what) {
                       log_.info(track::printable(what));
                       tell(track::printable(what));
                     }});
    router_ = std::make_unique<Router>(*api_, *sessions_, *assets_, token, site_);
    feed_ = std::make_unique<Feed>([this](const std::string& topic) { return api_->look(topic); });
    ARROW_RETURN_NOT_OK(listen());
    sessions_->name_cookie(server_->port());
    log_.info("listens at " + options_.address + ":" + std::to_string(server_->port()));
    ARROW_ASSIGN_OR_RAISE(announced_, track::DashboardAddress::announce(state_, base()));
    server_->start([this](const Request& request) { return router_->answer(request); });
    return arrow::Status::OK();
  }

  std::string url() const override { return address(sessions_->code()); }
  uint16_t port() const override { return server_->port(); }
  const std::string& token_file() const override { return token_file_; }

  void stop() override {
    if (feed_) feed_->stop();
    if (api_) api_->give_up();
    if (server_) server_->stop();
    announced_.reset();
  }

 private:
  arrow::Status listen() {
    auto server = HttpServer::listen(options_.address, options_.port.value_or(kUsualPort), *feed_, options_.limits);
    if (server.status().IsIOError() && !options_.port) {
      server = HttpServer::listen(options_.address, 0, *feed_, options_.limits);
    }
    if (server.status().IsIOError()) {
      return arrow::Status::IOError(server.status().message(),
                                    "; give another port, or none: then a free one is chosen");
    }
    ARROW_ASSIGN_OR_RAISE(server_, std::move(server));
    return arrow::Status::OK();
  }
  std::string address(const std::string& code) const { return base() + "#code=" + code; }
  std::string base() const {
    if (site_.is_given()) return site_.origin + site_.path;
    const bool is_version_6 = options_.address.find(':') != std::string::npos;
    const std::string host = is_version_6 ? "[" + options_.address + "]" : options_.address;
    return "http://" + host + ":" + std::to_string(server_->port()) + "/";
  }
  void tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  DashboardOptions options_;
  const std::string state_;
  Log log_;
  std::string token_file_;
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
