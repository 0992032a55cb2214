// How a backend is made that counts, and that abort_backends() reaches: for the files of comm/ that give one.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/torch_distributed.h"

namespace paceline::comm {

/// `of_backend`: BackendSettings.options.
c10::intrusive_ptr<c10d::Backend> make_counted(const Backend& backend, const c10::intrusive_ptr<c10d::Store>& store,
                                               const BackendOptions& options,
                                               const c10::intrusive_ptr<c10d::Backend::Options>& of_backend = {});

}  // namespace paceline::comm
