// What controller and agents of one run prove to each other with, made anew for each run.
//
// A certificate authority signs one certificate for the controller and one for the agents; both ends ask for the
// other's (mutual TLS), and agents show a token besides. The controller's certificate is for a name, kControllerName,
// and for no address: agents reach it under whatever address works for them. Certificates are valid from a day before
// to a year after, so that clocks that differ by hours do no harm. The authority's own key is forgotten once it has
// signed. Thread-safe: no state. No error text holds a token or a key.
#pragma once

#include <arrow/result.h>

#include <string>

namespace paceline::transport {

inline constexpr const char* kControllerName = "paceline-controller";

/// What one end has. Certificates and key as PEM.
struct Credentials {
  /// 256 random bits, base64url. Of the run, the same at both ends.
  std::string token;
  /// The certificate by which the other end's is checked.
  std::string authority;
  std::string certificate;
  std::string key;
};

struct Trust {
  Credentials controller;
  /// For all agents of the run.
  Credentials agent;
};

arrow::Result<Trust> make_trust();

/// Whether both are the same, in a time that does not tell where they differ.
bool is_same_token(const std::string& one, const std::string& other);

/// 128 random bits as 32 hexadecimal digits.
arrow::Result<std::string> random_id();

}  // namespace paceline::transport
