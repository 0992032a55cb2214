// The network interfaces of this machine, as far as addresses of theirs are looked for.
#pragma once

#include <arrow/result.h>

#include <string>

namespace paceline {

/// Name of the interface that has `address`, an IPv4 or IPv6 address in numbers; "" where none has.
std::string interface_of(const std::string& address);

/// The address, in numbers, from which this machine reaches `host`, a name or an address. IOError: there is no such
/// host, or no way to it.
arrow::Result<std::string> address_towards(const std::string& host);

}  // namespace paceline
