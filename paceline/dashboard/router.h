// Router: the answer to any request: what may be asked by whom, the interface, and the files of the web page.
//
// All of it without sockets. Thread-safe; blocks as the Api does.
#pragma once

#include <memory>
#include <string>

#include "paceline/dashboard/access/sessions.h"
#include "paceline/dashboard/access/site.h"
#include "paceline/dashboard/api.h"
#include "paceline/dashboard/assets.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

class Router {
 public:
  /// All must outlive it. `token`: what reads /metrics without a session. `site`: where browsers have it behind a
  /// proxy.
  Router(Api& api, Sessions& sessions, const Assets& assets, std::string token, Site site = {})
      : api_(api), sessions_(sessions), assets_(assets), token_(std::move(token)), site_(std::move(site)) {}

  /// Never throws. An answer to HEAD has its body still: who sends it leaves that out.
  Response answer(const Request& request) const;

 private:
  Response answer_unguarded(const Request& request) const;
  Response answer_interface(const Request& request, const Target& target) const;
  Response answer_page(const Request& request, const Target& target) const;
  std::optional<Response> refuse_without(Needs needs, const Request& request, std::string& who) const;

  Api& api_;
  Sessions& sessions_;
  const Assets& assets_;
  std::string token_;
  Site site_;
};

}  // namespace paceline::dashboard
