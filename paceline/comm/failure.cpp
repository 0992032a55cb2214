#include "paceline/comm/failure.h"

#include <c10/util/Exception.h>

#include <gloo/common/error.h>
#include <algorithm>

#include "paceline/comm/failure_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {

bool is_collateral(const std::exception& error) {
  if (const auto* own = dynamic_cast<const CollectiveError*>(&error)) return own->cause() != CollectiveCause::this_rank;
  return dynamic_cast<const c10::DistError*>(&error) != nullptr ||
         dynamic_cast<const gloo::Exception*>(&error) != nullptr;
}

std::string cause_of(const std::exception& failure) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&failure);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : failure.what();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void FailureReporter::run(const std::string& operation, const std::function<void()>& body) const {
  try {
    body();
  } catch (const CollectiveError& failure) {
    if (failure.cause() == CollectiveCause::stopped) throw_if_stopped(operation);
    const bool is_collateral = failure.cause() != CollectiveCause::this_rank;
    if (thrown_as_ == ThrownAs::torch_error && is_collateral) C10_THROW_ERROR(DistBackendError, failure.what());
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& failure) {
    throw_if_stopped(operation);
    fail(operation, cause_of(failure) +
                        ". Another rank may have failed first: see the logs of the other ranks. If they are only slow, "
                        "raise TorchConfig.timeout_s");
  }
}

std::exception_ptr FailureReporter::as_thrown(const std::string& operation, const std::exception_ptr& failure) const {
  try {
    run(operation, [&] { std::rethrow_exception(failure); });
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

std::exception_ptr FailureReporter::failure_of(const std::function<void()>& body, const std::string& operation) const {
  try {
    body();
  } catch (const std::exception& failure) {
    return std::make_exception_ptr(CollectiveError(operation + " failed on rank " + std::to_string(rank_) + " of " +
                                                       std::to_string(world_size_) + ": " + cause_of(failure),
                                                   CollectiveCause::this_rank));
  }
  return nullptr;
}

void FailureReporter::throw_if_stopped(const std::string& operation) const {
  if (stopped_) fail(operation, "aborted: this rank was told to stop");
}

void FailureReporter::fail(const std::string& operation, const std::string& cause) const {
  const std::string text =
      operation + " failed on rank " + std::to_string(rank_) + " of " + std::to_string(world_size_) + ": " + cause;
  if (thrown_as_ == ThrownAs::torch_error) C10_THROW_ERROR(DistBackendError, text);
  throw CollectiveError(text, stopped_ ? CollectiveCause::stopped : CollectiveCause::other_rank);
}

}  // namespace paceline::comm
