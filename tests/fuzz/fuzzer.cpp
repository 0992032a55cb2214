#include "tests/fuzz/fuzzer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace paceline::testing {
namespace {

constexpr size_t kLongest = 1 << 20;

// What parsers stumble over.
const std::vector<std::string>& pieces() {
  static const std::vector<std::string> pieces = [] {
    std::vector<std::string> made = {"\"",
                                     "\\",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     ":",
                                     ",",
                                     "\n",
                                     "\r\n",
                                     "/",
                                     "..",
                                     "../",
                                     "%",
                                     "%2",
                                     "%zz",
                                     "@",
                                     "?",
                                     "=",
                                     "&",
                                     "://",
                                     "~",
                                     "-",
                                     "--",
                                     "=",
                                     ".",
                                     "e",
                                     "1e400",
                                     "-1",
                                     "0",
                                     "9223372036854775807",
                                     "9223372036854775808",
                                     "-9223372036854775809",
                                     "18446744073709551615",
                                     "0.1",
                                     "NaN",
                                     "nan",
                                     "inf",
                                     "null",
                                     "true",
                                     "\"\"",
                                     "{}",
                                     "[]",
                                     "…",
                                     "\xff",
                                     "\xc3",
                                     "\xed\xa0\x80",
                                     "\\u0000",
                                     "\\ud800",
                                     "{\"$bytes\":\"0",
                                     "{\"$bytes\":\"00ff\"}",
                                     "{\"$number\":\"nan\"}"};
    made.emplace_back(1, '\0');
    made.emplace_back(8, '\xff');
    made.emplace_back(8, '\0');
    for (const size_t depth : {400UL, 600UL, 100'000UL}) {
      made.emplace_back(depth, '[');
      made.push_back(std::string(depth, '[') + std::string(depth, ']'));
      std::string objects;
      for (size_t level = 0; level < depth; ++level) objects += "{\"a\":";
      made.push_back(objects + "0" + std::string(depth, '}'));
    }
    return made;
  }();
  return pieces;
}

std::string read(const std::filesystem::path& path) {
  std::stringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

std::chrono::duration<double> budget() {
  const char* seconds = std::getenv("FUZZ_SECONDS");
  return std::chrono::duration<double>(seconds == nullptr ? FUZZ_SECONDS : std::strtod(seconds, nullptr));
}

// A file that has what was written last, whatever becomes of the process: no call is made for it.
class Remembered {
 public:
  explicit Remembered(std::string path) : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CREAT, 0600)) {
    if (::ftruncate(file_, kLongest) != 0) ADD_FAILURE() << "no room for " << path_;
    memory_ = static_cast<char*>(::mmap(nullptr, kLongest, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
  }
  Remembered(const Remembered&) = delete;
  Remembered& operator=(const Remembered&) = delete;
  ~Remembered() {
    ::munmap(memory_, kLongest);
    if (::testing::Test::HasFailure()) {
      (void)::ftruncate(file_, static_cast<off_t>(size_));
    } else {
      ::unlink(path_.c_str());
    }
    ::close(file_);
  }

  void set(std::string_view input) {
    if (size_ > input.size()) std::memset(memory_ + input.size(), 0, size_ - input.size());
    std::memcpy(memory_, input.data(), input.size());
    size_ = input.size();
  }

 private:
  std::string path_;
  int file_;
  char* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

Fuzzer::Fuzzer(std::string name) : name_(std::move(name)) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FUZZ_CORPUS) + "/" + name_)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::ranges::transform(files, std::back_inserter(corpus_), read);
}

void Fuzzer::run(const std::function<void(std::string_view)>& parse) {
  ASSERT_FALSE(corpus_.empty());
  Remembered last("fuzz_input_" + name_);
  const auto end = std::chrono::steady_clock::now() + budget();
  for (size_t tries = 0; tries < corpus_.size() || std::chrono::steady_clock::now() < end; ++tries) {
    const std::string input = tries < corpus_.size() ? corpus_[tries] : next();
    last.set(input);
    // At its own end, so that reading behind it is seen.
    const std::vector<char> exact(input.begin(), input.end());
    ASSERT_NO_THROW(parse({exact.data(), exact.size()})) << "the input is in fuzz_input_" << name_;
    if (::testing::Test::HasFailure()) return;
  }
}

std::string Fuzzer::next() {
  std::string input = one_of(corpus_);
  for (size_t times = 1 + below(4); times > 0; --times) mutate(input);
  input.resize(std::min(input.size(), kLongest));
  return input;
}

void Fuzzer::mutate(std::string& input) {
  const size_t at = input.empty() ? 0 : below(input.size());
  const size_t count = input.empty() ? 0 : 1 + below(std::min<size_t>(input.size() - at, 40));
  switch (input.empty() ? 4 : below(8)) {
    case 0:
      input[at] = static_cast<char>(random_());
      break;
    case 1:
      input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
      break;
    case 2:
      input.erase(at, count);
      break;
    case 3:
      input.insert(at, input.substr(at, count));
      break;
    case 4:
      input.insert(at, one_of(pieces()));
      break;
    case 5:
      input.replace(at, count, one_of(pieces()));
      break;
    case 6: {  // the end of another
      const std::string& other = one_of(corpus_);
      input.replace(at, std::string::npos, other.substr(std::min(at, other.size())));
      break;
    }
    default:
      input.resize(at);
  }
}

}  // namespace paceline::testing
