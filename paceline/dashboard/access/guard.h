// The first look at a request, before anything is read for it: may a browser's page, or a program, ask this here at
// all?
//
// Against DNS rebinding the Host must be a name of this machine's loopback, or that of the proxy, or, where it listens
// on the network, the machine's name or the address that was asked, which no name of another can pretend; against pages
// of other sites, what the browser says of where a request comes from (Origin, Sec-Fetch-Site) must be this site; and
// what changes anything needs a header that no form can send. Everything that is not listed is refused. Pure.
#pragma once

#include <optional>

#include "paceline/dashboard/access/site.h"
#include "paceline/dashboard/message.h"

namespace paceline::dashboard {

/// With any value, on every POST but the one that opens a session.
inline constexpr const char* kOwnHeader = "x-paceline";

/// The refusal of any request whose method or host is not allowed: 405, 400, 403.
std::optional<Response> refuse_stranger(const Request& request, const Site& site = {});
/// The refusal of one that a page of another site makes: 403.
std::optional<Response> refuse_other_site(const Request& request, const Site& site = {});
/// The refusal of a POST without kOwnHeader: 403.
std::optional<Response> refuse_form(const Request& request);

/// Whether a Host header names this dashboard: its loopback, or what the site has beside that.
bool is_own_host(std::string_view host, const Request& request, const Site& site);
/// Whether a Host header names this machine's loopback, with any port: a tunnel has another than the server.
bool is_loopback_host(std::string_view host);

inline constexpr const char* kPolicyHeader = "Content-Security-Policy";
/// For speedscope (web/build.mjs), which makes its styles in scripts and has WebAssembly in one: so those may be.
/// Scripts in the page may not, and it too asks nobody but this server.
inline constexpr const char* kViewerPolicy =
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// Of every answer: what a browser must not do with it. One that has a policy keeps it.
void add_security_headers(Response& response);

}  // namespace paceline::dashboard
