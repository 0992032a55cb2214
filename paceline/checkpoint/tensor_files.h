// The tensors of safetensors files that a checkpoint holds as files of the user's own: those of Python's
// Checkpoint.from_dict() and of libraries that save a model so. Errors: IOError for a file that is missing, damaged or
// none of its kind, naming it.
#pragma once

#include <arrow/result.h>

#include "paceline/checkpoint/manifest.h"
#include "paceline/storage/storage.h"

namespace paceline::checkpoint {

/// Enters the tensors of every safetensors file of `manifest`, a checkpoint in `folder`, as merge() enters those that
/// Paceline has written. Reads the files once, to sum them. Of two tensors of one name the first file's is entered.
///
/// A dictionary's (docs/architecture/checkpoint_format.md) keep their names, which are the keys joined with "/"; those
/// of `model.safetensors` and of `model-00001-of-00002.safetensors` are "model/…". So `{"model": state_dict}` of Python
/// is what C++ has saved as "model".
arrow::Status add_tensors_of_files(Manifest& manifest, const storage::Storage& folder);

}  // namespace paceline::checkpoint
