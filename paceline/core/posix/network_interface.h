// The network interfaces of this machine, as far as addresses of theirs are looked for.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

namespace paceline {

/// The host of "HOST:PORT" or "[IPV6]:PORT", without brackets.
std::string host_of(const std::string& address);

/// The addresses of `host`, a name or an address, in numbers. IOError: there is no such host.
arrow::Result<std::vector<std::string>> addresses_of(const std::string& host);

/// Those of this machine's interfaces that work, in numbers: IPv4 first, and loopback last. `interface`: of that one
/// only.
std::vector<std::string> own_addresses(const std::string& interface = "");

/// Whether the address, in numbers, leads from a machine to itself.
bool is_loopback(const std::string& address);

/// Name of the interface that has `address`, an IPv4 or IPv6 address in numbers; "" where none has.
std::string interface_of(const std::string& address);

/// The address, in numbers, from which this machine reaches `host`, a name or an address. IOError: there is no such
/// host, or no way to it.
arrow::Result<std::string> address_towards(const std::string& host);

}  // namespace paceline
