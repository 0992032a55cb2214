#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "paceline/comm/failure_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

std::mutex last_failure_mutex;
std::string last_failure;

}  // namespace

std::string cause_of(const std::exception& failure) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&failure);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : failure.what();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void throw_failure(const std::string& operation, int64_t rank, int64_t world_size, const std::string& cause) {
  const bool stopping = cause.find(kToldToStop) != std::string::npos;
  const std::string text =
      operation + " failed on rank " + std::to_string(rank) + " of " + std::to_string(world_size) + ": " + cause +
      (stopping ? ""
                : ". Another rank may have failed first: see the logs of the other ranks. If they are "
                  "only slow, raise TorchConfig.timeout_s");
  {
    const std::lock_guard lock(last_failure_mutex);
    last_failure = text;
  }
  throw CollectiveError(text);
}

bool tells_last_failure(const std::string& text) {
  const std::lock_guard lock(last_failure_mutex);
  return !last_failure.empty() && text.find(last_failure) != std::string::npos;
}

void report_failures(const std::string& operation, int64_t rank, int64_t world_size,
                     const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw_failure(operation, rank, world_size, cause_of(failure));
  }
}

}  // namespace paceline::comm
