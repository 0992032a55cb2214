#include "paceline/core/posix/network_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "paceline/core/posix/descriptor.h"

namespace paceline {
namespace {

// "" for what is no IP address. That of a link has its interface behind a "%".
std::string number_of(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text;
  const bool known = ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text.data() : "";
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

arrow::Result<AddressList> look_up(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), "9", &wanted, &list);
  if (error != 0) return arrow::Status::IOError("there is no host \"", host, "\": ", ::gai_strerror(error));
  return AddressList(list);
}

}  // namespace

std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
}

arrow::Result<std::vector<std::string>> addresses_of(const std::string& host) {
  ARROW_ASSIGN_OR_RAISE(const AddressList list, look_up(host));
  std::vector<std::string> addresses;
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    addresses.push_back(number_of(one->ai_addr));
  }
  return addresses;
}

std::vector<std::string> own_addresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (!interface.empty() && interface != one->ifa_name) continue;
    const std::string address = (one->ifa_flags & IFF_UP) != 0 ? number_of(one->ifa_addr) : "";
    if (!address.empty()) addresses.push_back(address);
  }
  std::ranges::stable_sort(addresses, {}, [](const std::string& address) {
    return std::pair(is_loopback(address), address.find(':') != std::string::npos);
  });
  return addresses;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string interface_of(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (number_of(one->ifa_addr) == address) return one->ifa_name;
  }
  return "";
}

arrow::Result<std::string> address_towards(const std::string& host) {
  ARROW_ASSIGN_OR_RAISE(const AddressList list, look_up(host));
  arrow::Status problem = arrow::Status::IOError("there is no way to ", host);
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    // Nothing is sent: connecting a datagram socket asks the routes.
    const Descriptor socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (socket && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0) {
      return number_of(reinterpret_cast<const sockaddr*>(&own));
    }
    problem = errno_status("finding the way to " + host);
  }
  return problem;
}

}  // namespace paceline
