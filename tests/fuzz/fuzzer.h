// Fuzzer: calls a parser with the files of a corpus and with mutations of them, for a set time.
//
// It needs no compiler of its own: what makes it find anything are the sanitizers of the preset `asan`, under which a
// parser gets FUZZ_SECONDS; elsewhere a fraction of one, so that the suite knows that the corpus is read. Seeded: the
// same program makes the same inputs in the same order. What is being parsed stands in the file `fuzz_input_NAME` of
// the working directory, also after a crash or a hang; it becomes a file of the corpus, whose name says what it did.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::testing {

class Fuzzer {
 public:
  /// `name`: the parser's, and its folder's in the corpus.
  explicit Fuzzer(std::string name);

  /// Calls `parse` until the time is over or a test has failed. What it throws is a failure.
  void run(const std::function<void(std::string_view)>& parse);

 private:
  std::string next();
  void mutate(std::string& input);
  size_t below(size_t count) { return random_() % count; }
  const std::string& one_of(const std::vector<std::string>& texts) { return texts[below(texts.size())]; }

  std::string name_;
  std::vector<std::string> corpus_;
  std::mt19937 random_{1};  // NOLINT(bugprone-random-generator-seed): the same inputs every time
};

}  // namespace paceline::testing
