#include <c10/util/Exception.h>

#include <exception>
#include <typeinfo>

#include "paceline/comm/failure.h"
#include "paceline/core/type_name.h"
#include "paceline/train/session.h"
#include "paceline/train/worker/failure_internal.h"
#include "paceline/train/worker/language_runtime.h"
#include "paceline/train/worker/user_frames.h"

namespace paceline::train {
namespace {

std::string text_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

// Fills in what one exception says and goes on to the one nested in it, whose type and frames win.
void describe(const std::exception_ptr& exception, rpc::Failed& failed) {
  std::exception_ptr cause;
  std::vector<std::string> frames = frames_of(exception);
  try {
    std::rethrow_exception(exception);
  } catch (const LanguageException& error) {
    const rpc::Failed& said = error.failed();
    failed.kind = said.kind;
    if (failed.text.empty()) failed.text = said.text;
    failed.stopped = failed.stopped || said.stopped;
    failed.collateral = failed.collateral || said.collateral;
    frames = said.frames;
  } catch (const std::exception& error) {
    failed.kind = type_name(typeid(error));
    if (failed.text.empty()) failed.text = text_of(error);
    failed.stopped = failed.stopped || dynamic_cast<const Stopped*>(&error) != nullptr;
    failed.collateral = failed.collateral || comm::is_collateral(error);
    if (const auto* nested = dynamic_cast<const std::nested_exception*>(&error)) cause = nested->nested_ptr();
  } catch (...) {
    failed.kind = "unknown";
    if (failed.text.empty()) failed.text = "the train loop threw something that is not a std::exception";
  }
  if (!frames.empty()) failed.frames = std::move(frames);
  if (cause) describe(cause, failed);
}

}  // namespace

rpc::Failed failure_of(const std::exception_ptr& exception) {
  rpc::Failed failed;
  describe(exception, failed);
  return failed;
}

}  // namespace paceline::train
