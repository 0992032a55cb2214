// Object stores (S3, Google Cloud Storage, Azure Blob Storage) through Arrow's file systems.
//
// A file is one object. Large ones go up in parts, of which several are under way at once; the object appears when the
// last is there. Reading takes aligned blocks, several at once, and keeps the last few, so that small neighbouring
// reads are one request. Single requests to S3 are tried again a few times; the rest is retrying_storage.h's. Errors
// that cannot pass by themselves say what to do. Arrow's S3 is loaded, and its threads started, with the first s3://
// URI of the process; it is finalized at exit().
#pragma once

#include "paceline/storage/storage.h"

namespace paceline::storage {

/// The storage at the URI. Invalid or IOError for a URI that Arrow does not take, or a library that cannot be loaded.
arrow::Result<std::shared_ptr<Storage>> open_object_storage(const std::string& uri);

}  // namespace paceline::storage
