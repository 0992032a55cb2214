// What an agent needs to join a run: one text, handed over by a file or through standard input.
//
// The text is a secret. It goes neither into arguments nor environments nor logs; a file of it is its owner's alone,
// and one that others may read is refused. No error text quotes from it. Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/transport/trust.h"

namespace paceline::transport {

struct TrustFile {
  /// Id of the run.
  std::string run;
  /// Where the controller listens, "host:port" or "[IPv6]:port"; agents try them in turn.
  std::vector<std::string> addresses;
  /// Seconds without a sign of life after which either end gives the other up.
  double lease_s = 8;
  /// The agent's.
  Credentials credentials;
};

std::string encode_trust_file(const TrustFile& file);
/// Invalid, naming the field: not such a text.
arrow::Result<TrustFile> decode_trust_file(std::string_view text);

/// Writes it, whole or not at all, readable to its owner alone. The file is locked (flock) for as long as what is
/// returned stays open, and its forks with it. A file that was there is replaced, but AlreadyExists while another
/// process, or another descriptor of this one, holds it: its run goes on, and agents would leave it for this one.
arrow::Result<Descriptor> write_trust_file(const std::string& path, const TrustFile& file);
/// Invalid when others than its owner may read it, when it is somebody else's, or no such text.
arrow::Result<TrustFile> read_trust_file(const std::string& path);

}  // namespace paceline::transport
