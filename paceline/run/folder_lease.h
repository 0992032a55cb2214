// A lease for a run in a folder that several machines share: NFS, SMB, Lustre, FUSE.
//
// flock() on such file systems may not reach other machines, depending on how each has mounted it. So the driver of a
// run there holds the lock and a lease (storage/objects/lease.h), whose claims are files below `.lease/` of the run's
// folder. Its error names the holder, as the lock's does.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <memory>
#include <string>

#include "paceline/storage/objects/lease.h"

namespace paceline::run {

/// Whether other machines may have the folder too; false when the system does not tell.
bool may_be_shared(const std::string& folder);

/// Whether drivers of the run in `folder` may hold leases: other machines may have it, or there are claims.
bool may_be_leased(const std::string& folder);

/// The lease of the run in `folder`, which the caller has locked. `note` says why it takes long; `on_lost` is called on
/// another thread. AlreadyExists when another driver holds the run.
arrow::Result<std::unique_ptr<storage::Lease>> lease_folder(const std::string& folder, storage::LeaseOptions options);

}  // namespace paceline::run
