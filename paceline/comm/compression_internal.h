// Gradient compression as a communication hook of c10d::Reducer.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "paceline/comm/reducer.h"

namespace c10d {
class CommHookInterface;
}

namespace paceline::comm {

/// For Compression::bf16 and fp16.
std::unique_ptr<c10d::CommHookInterface> make_compression_hook(c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                                                               Compression compression);

}  // namespace paceline::comm
