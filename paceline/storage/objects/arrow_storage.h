// Object stores through Arrow's file systems: the kinds of them are in scheme.h.
//
// A file is one object. Large ones go up in parts, of which several are under way at once; the object appears when the
// last is there. Reading takes aligned blocks, several at once, and keeps the last few, so that small neighbouring
// reads are one request. Errors that cannot pass by themselves say what to do; those that can are retrying_storage.h's.
#pragma once

#include "paceline/storage/storage.h"

namespace paceline::storage {

/// The storage at the URI. Invalid or IOError for a URI that Arrow does not take, a kind of store that is not built in,
/// or a library that cannot be loaded.
arrow::Result<std::shared_ptr<Storage>> open_object_storage(const Location& uri);

}  // namespace paceline::storage
