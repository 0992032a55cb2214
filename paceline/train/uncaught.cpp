#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "paceline/core/error.h"
#include "paceline/policy/failure_text.h"
#include "paceline/train/result.h"
#include "paceline/train/uncaught_internal.h"

namespace paceline::train {
namespace {

std::terminate_handler earlier_handler = nullptr;

// Not exit(): other threads may still run, and the guardian ends what this process has started.
[[noreturn]] void end_with(const std::string& text) {
  std::cout.flush();
  std::fflush(nullptr);
  if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
  ::_exit(EXIT_FAILURE);
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr uncaught = std::current_exception()) {
    try {
      std::rethrow_exception(uncaught);
    } catch (const TrainingFailedError& error) {
      end_with(policy::beyond_cause_line(error.what()));
    } catch (const Error& error) {
      end_with(std::string("error: ") + error.what());
    } catch (...) {  // not ours
    }
  }
  if (earlier_handler != nullptr) earlier_handler();
  std::abort();
}

}  // namespace

void tell_uncaught_errors() {
  earlier_handler = std::set_terminate(on_terminate);
}

}  // namespace paceline::train
