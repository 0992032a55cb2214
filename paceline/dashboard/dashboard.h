// Dashboard: the server that `paceline dashboard` is: wires what answers with what listens.
//
// Reads the user's run store and run folders, and asks the drivers of live runs; keeps nothing itself but tokens and a
// log of what was done from it, in the state directory. Not thread-safe; its threads are its own.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/dashboard/http_server.h"

namespace paceline::dashboard {

/// Where it listens if nothing else is said, as long as nobody else does.
inline constexpr uint16_t kUsualPort = 8265;

struct DashboardOptions {
  /// Another than one of the loopback needs `insecure_no_tls`, and gets a token: DashboardOptions::token_file.
  std::string address = "127.0.0.1";
  /// Others on the network may see what goes over it: this server has no TLS.
  bool insecure_no_tls = false;
  /// The file with a token that opens sessions, as codes do, and lasts; made where it is not there. "": at the loopback
  /// there is none, else it is dashboard_token in the state directory.
  std::string token_file;
  /// Nothing: kUsualPort, or where that is taken any that is free; 0: any that is free.
  std::optional<uint16_t> port;
  /// Absolute paths or URIs: only runs in these; empty: all that the run store knows.
  std::vector<std::string> storage_paths;
  bool read_only = false;
  /// Where browsers have it behind a reverse proxy on this machine (site.h); "": nowhere else.
  std::string external_url;
  /// The folder with the files of the page; "": those in the program.
  std::string web_root;
  /// Told what a user at the terminal should see: what was done, and the address with the next code. On any thread.
  std::function<void(const std::string& line)> tell = {};
  /// Told of that address instead, where it is given.
  std::function<void(const std::string& url)> tell_next = {};
  HttpLimits limits = {};
  /// Whether runs find it, and say so (track::DashboardAddress).
  bool is_announced = true;
};

class Dashboard {
 public:
  /// Listens and answers from now on. IOError where the port is taken; Invalid where an option is wrong.
  static arrow::Result<std::unique_ptr<Dashboard>> start(DashboardOptions options);
  virtual ~Dashboard() = default;

  /// "http://127.0.0.1:8265/#code=…", or at the external URL: opens one session.
  virtual std::string url() const = 0;
  /// The same with another code, beside those that nobody has used.
  virtual std::string another_url() = 0;
  virtual uint16_t port() const = 0;
  /// The file with the token for /metrics; "" where it could not be written.
  virtual const std::string& metrics_token_file() const = 0;
  /// The file with the token that opens sessions; "" where there is none.
  virtual const std::string& token_file() const = 0;
  /// Says goodbye to pages and stops; waits for what is being done.
  virtual void stop() = 0;
};

}  // namespace paceline::dashboard
