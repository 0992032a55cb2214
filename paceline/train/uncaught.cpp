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
pid_t driver_process = 0;

// Not exit(): other threads may still run, and the guardian ends what this process has started.
[[noreturn]] void end_with(const std::string& text) {
  std::cout.flush();
  std::fflush(nullptr);
  if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
  ::_exit(EXIT_FAILURE);
}

[[noreturn]] void on_terminate() {
  const std::exception_ptr uncaught = std::current_exception();
  if (uncaught && ::getpid() == driver_process) {  // a forked worker's end tells more by its signal
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
  if (std::get_terminate() == on_terminate) return;
  driver_process = ::getpid();
  earlier_handler = std::set_terminate(on_terminate);
}

}  // namespace paceline::train
