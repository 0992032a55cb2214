// How Group's factories make groups from a c10d store.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "paceline/comm/backend_internal.h"
#include "paceline/comm/group.h"

namespace c10d {
class Store;
}

namespace paceline::comm {

/// `options` with the backend's name. CollectiveError for a backend that is not in this build, and for a place that
/// cannot be.
GroupOptions checked(GroupOptions options);

/// The group of a world of one: every collective is the identity.
std::shared_ptr<Group> make_local_group();

/// What there is nothing to wait for.
std::shared_ptr<Work> finished_work();

/// Waits until all ranks have arrived at `store`, then connects. `address`: as in
/// BackendSettings.
std::shared_ptr<Group> make_c10d_group(const GroupOptions& options, c10::intrusive_ptr<c10d::Store> store,
                                       const std::string& address);

}  // namespace paceline::comm
