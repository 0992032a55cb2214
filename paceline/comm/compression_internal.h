// Gradient compression as a communication hook of c10d::Reducer.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>

#include "paceline/comm/reducer.h"

namespace c10d {
class CommHookInterface;
class ProcessGroup;
}  // namespace c10d

namespace paceline::comm {

/// Gives the group that a reducer works with now.
using GroupOfTheMoment = std::function<c10::intrusive_ptr<c10d::ProcessGroup>()>;

/// For Compression::bf16 and fp16.
std::unique_ptr<c10d::CommHookInterface> make_compression_hook(GroupOfTheMoment process_group, Compression compression);

}  // namespace paceline::comm
