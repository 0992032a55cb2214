#include "paceline/core/posix/process_title.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace paceline {

arrow::Status set_process_title(const std::string& title) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // proc(5): fields 48 and 49 are the first address and the last of the arguments; the name, field 2, may hold spaces.
  constexpr size_t kFirstAddress = 48;
  constexpr size_t kAfterName = 3;
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  if (fields.size() <= kFirstAddress + 1 - kAfterName) {
    return arrow::Status::IOError("/proc/self/stat does not say where the arguments are");
  }
  const auto address = [&](size_t field) { return std::strtoull(fields[field - kAfterName].c_str(), nullptr, 10); };
  const unsigned long long first = address(kFirstAddress), last = address(kFirstAddress + 1);
  if (first == 0 || last <= first)
    return arrow::Status::IOError("/proc/self/stat does not say where the arguments are");
  char* const arguments = reinterpret_cast<char*>(first);  // NOLINT(performance-no-int-to-ptr): the kernel's own words
  const size_t room = last - first;
  const size_t length = std::min(title.size(), room - 1);
  std::fill(std::copy_n(title.data(), length, arguments), arguments + room, '\0');
  ::prctl(PR_SET_NAME, title.c_str());
  return arrow::Status::OK();
}

}  // namespace paceline
