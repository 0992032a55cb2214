#include "paceline/run/folder_lease.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "paceline/core/posix/host_name.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/local_storage.h"

namespace paceline::run {
namespace {

// statfs(2). Those that linux/magic.h lacks are their projects' own.
constexpr std::array<uint32_t, 12> kShared = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                              CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,  CODA_SUPER_MAGIC, OCFS2_SUPER_MAGIC,
                                              V9FS_MAGIC,       FUSE_SUPER_MAGIC,
                                              0x0bd00bd0,   // Lustre
                                              0x47504653};  // GPFS

}  // namespace

bool may_be_shared(const std::string& folder) {
  struct statfs about{};
  if (::statfs(folder.c_str(), &about) != 0) return false;
  return std::ranges::find(kShared, static_cast<uint32_t>(about.f_type)) != kShared.end();
}

bool may_be_leased(const std::string& folder) {
  std::error_code error;
  return may_be_shared(folder) || std::filesystem::exists(folder + "/" + run_layout::kClaims, error);
}

arrow::Result<std::unique_ptr<storage::Lease>> lease_folder(const std::string& folder, storage::LeaseOptions options) {
  const std::string memory = folder + "/" + run_layout::kClaims + "_" + host_name();
  return storage::Lease::acquire(std::make_shared<storage::LocalStorage>(folder), memory, std::move(options));
}

}  // namespace paceline::run
