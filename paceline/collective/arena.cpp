#include "paceline/collective/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "paceline/core/bytes_text.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/memory_limit.h"

namespace paceline::collective {
namespace {

constexpr uint64_t kPage = 4096;

constexpr uint64_t to_page(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

constexpr uint64_t kSlots = to_page(sizeof(Board));
constexpr uint64_t kStagingArea = kSlots + kWindow * kSlotBytes;
constexpr uint64_t kMail = kStagingArea + kStagings * kStagingBytes;
constexpr uint64_t kHeap = kMail + kMostRanks * kMailBytes;

// The kernel is asked for so much at a time: a signal, such as a profiler's, undoes all of one request. What is left is
// looked at before each, since other ranks are given memory at the same time; and so much stays, which as many of them
// may ask for between this rank's look and its request.
constexpr uint64_t kRequest = uint64_t{4} << 20;
constexpr int64_t kMargin = int64_t{32} << 20;
// Pages of freed blocks of all ranks together are at most this part of what were left without them.
constexpr uint64_t kKeptPart = 4;
// Without looking at what is left.
constexpr uint64_t kKeptAnyway = uint64_t{1} << 20;

uint64_t memory_of_machine() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// UINT64_MAX: there is none.
uint64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

uint64_t address_space_left() {
  constexpr uint64_t kAddressSpace = uint64_t{1} << 47;
  const uint64_t used = std::strtoull(read_kernel_file("/proc/self/statm").c_str(), nullptr, 10) *
                        static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t all = std::min(limit_of(RLIMIT_AS), kAddressSpace);
  return all - std::min(all, used);
}

// The arenas of this process: for its forks, which must not write to what their parent's ranks share, and for the pages
// that they keep together.
class OwnArenas {
 public:
  static OwnArenas& instance() {
    static auto* const arenas = new OwnArenas;  // forks may come after the statics
    return *arenas;
  }
  void add(Arena& arena, uint64_t ranks) {
    const std::lock_guard lock(mutex_);
    arenas_.push_back(&arena);
    ranks_ = std::max(ranks_.load(), ranks);
  }
  void remove(Arena& arena) {
    const std::lock_guard lock(mutex_);
    std::erase(arenas_, &arena);
  }
  /// While it is held, no fork is made.
  std::mutex& mutex() { return mutex_; }

  void note_kept(int64_t bytes) { kept_ += bytes; }
  uint64_t kept() const { return static_cast<uint64_t>(std::max<int64_t>(kept_, 0)); }
  /// Of the largest group: so many processes of the node may keep pages.
  uint64_t ranks() const { return ranks_; }
  /// Those of the others; not of one that is in use at this moment. `own` is locked.
  void give_back_kept_beside(const Arena& own) {
    const std::lock_guard lock(mutex_);
    for (Arena* const arena : arenas_) {
      if (arena != &own) arena->give_back_kept_if_idle();
    }
  }

 private:
  OwnArenas() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       instance().detach();
                       instance().mutex_.unlock();
                     });
  }
  void detach() {
    for (const Arena* arena : arenas_) arena->detach_fork();
    arenas_.clear();
    kept_ = 0;
  }

  std::mutex mutex_;
  std::vector<Arena*> arenas_;
  std::atomic<int64_t> kept_ = 0;
  std::atomic<uint64_t> ranks_ = 1;
};

}  // namespace

std::byte* ArenaView::slot(uint64_t operation) const {
  return data() + kSlots + operation % kWindow * kSlotBytes;
}

std::byte* ArenaView::staging(uint64_t piece) const {
  return data() + kStagingArea + piece % kStagings * kStagingBytes;
}

std::byte* ArenaView::mail_to(int rank) const {
  return data() + kMail + static_cast<uint64_t>(rank) * kMailBytes;
}

std::optional<uint64_t> ArenaView::offset_of(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  if (byte < data() + kHeap || byte >= data() + memory_.bytes().size()) return std::nullopt;
  return static_cast<uint64_t>(byte - data());
}

uint64_t heap_bytes(int ranks) {
  constexpr uint64_t kPart = 8;
  const uint64_t file = limit_of(RLIMIT_FSIZE);
  const uint64_t most = std::min({memory_of_machine(), address_space_left() / (kPart * static_cast<uint64_t>(ranks)),
                                  file - std::min(file, kHeap)});
  return most / kPage * kPage;
}

arrow::Result<std::shared_ptr<Arena>> Arena::create(uint64_t bytes, int ranks) {
  if (const uint64_t limit = limit_of(RLIMIT_FSIZE); to_page(kHeap + bytes) > limit) {  // which would end the process
    return arrow::Status::IOError("no memory to share: wanted a file of ", to_page(kHeap + bytes),
                                  " bytes, got the limit ", limit, " (ulimit -f)");
  }
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::create("paceline-collective", to_page(kHeap + bytes)));
  return std::make_shared<Arena>(std::move(memory), ranks);
}

arrow::Result<ArenaView> Arena::open(Descriptor memory) {
  struct stat status{};
  if (::fstat(memory.get(), &status) != 0) return errno_status("looking at a rank's shared memory");
  if (static_cast<uint64_t>(status.st_size) < kHeap) {
    return arrow::Status::Invalid("a rank's shared memory is too small: wanted ", kHeap, " bytes, got ",
                                  status.st_size);
  }
  ARROW_ASSIGN_OR_RAISE(SharedMemory mapped,
                        SharedMemory::open(std::move(memory), static_cast<size_t>(status.st_size)));
  ArenaView view(std::move(mapped));
  const uint32_t version = view.board().version;
  if (version != kBoardVersion) {
    return arrow::Status::Invalid("a rank's shared memory is of another version of Paceline: wanted ", kBoardVersion,
                                  ", got ", version);
  }
  return view;
}

Arena::Arena(SharedMemory memory, int ranks) : ArenaView(std::move(memory)) {
  board().version = kBoardVersion;
  free_.add(kHeap, memory_.bytes().size() - kHeap);
  OwnArenas::instance().add(*this, static_cast<uint64_t>(std::max(ranks, 1)));
}

Arena::~Arena() {
  if (!home_.is_here()) return;
  OwnArenas::instance().remove(*this);
  OwnArenas::instance().note_kept(-static_cast<int64_t>(kept_.bytes()));
}

arrow::Result<void*> Arena::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (!home_.is_here()) {
    return arrow::Status::Invalid("a process that was forked from a rank's has no memory of the rank's to give");
  }
  const uint64_t wanted = to_page(bytes);
  const std::lock_guard lock(mutex_);
  std::optional<uint64_t> offset = kept_.take(wanted);
  if (offset) {
    OwnArenas::instance().note_kept(-static_cast<int64_t>(wanted));
  } else {
    ARROW_RETURN_NOT_OK(check_left(wanted, 0));
    offset = free_.take(wanted);
    if (!offset) {
      give_back_kept();  // which lies between
      offset = free_.take(wanted);
    }
    if (!offset) {
      return arrow::Status::CapacityError("a tensor for collectives does not fit: wanted ",
                                          bytes_text(static_cast<int64_t>(wanted)),
                                          ", and the address space for such tensors has no gap of this size");
    }
    const arrow::Status reserved = reserve(*offset, wanted);
    if (!reserved.ok()) {
      give_back(*offset, wanted);
      return reserved;
    }
  }
  used_.emplace(*offset, wanted);
  return at(*offset);
}

void Arena::free(void* block) {
  if (block == nullptr || !home_.is_here()) return;
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(static_cast<uint64_t>(static_cast<std::byte*>(block) - data()));
  if (used == used_.end()) return;
  const auto [offset, size] = *used;
  used_.erase(used);
  const uint64_t kept = kept_.bytes() + size;
  const uint64_t by_all = OwnArenas::instance().kept() + size;  // the groups of this process, as others may keep too
  const auto most = [by_all] {
    return (static_cast<uint64_t>(memory_left().bytes) + by_all) / kKeptPart / OwnArenas::instance().ranks();
  };
  if (kept <= kKeptAnyway || (keeps_ && by_all <= most())) {
    keep(offset, size);
  } else {
    give_back(offset, size);
    give_back_kept();
  }
}

void Arena::keep(uint64_t offset, uint64_t bytes) {
  kept_.add(offset, bytes);
  OwnArenas::instance().note_kept(static_cast<int64_t>(bytes));
}

// Whether there is what a block of `bytes` lacks that has the pages of `done`.
arrow::Status Arena::check_left(uint64_t bytes, uint64_t done) {
  const int64_t margin = bytes > kKeptAnyway ? kMargin : 0;
  const auto wanted = static_cast<int64_t>(bytes - done);
  MemoryLeft left = memory_left();
  if (left.bytes - margin < wanted && OwnArenas::instance().kept() > 0) {
    give_back_kept();
    OwnArenas::instance().give_back_kept_beside(*this);
    left = memory_left();
  }
  const int64_t got = std::max<int64_t>(left.bytes - margin, 0);
  if (got >= wanted) return arrow::Status::OK();
  return arrow::Status::OutOfMemory("a tensor for collectives does not fit: wanted ",
                                    bytes_text(static_cast<int64_t>(bytes)), " of shared memory, got ",
                                    bytes_text(static_cast<int64_t>(done) + got), ", which is what ", left.owner,
                                    " has left", margin > 0 ? " but for a reserve of " + bytes_text(margin) : "");
}

// Pages for a block, or an error; then it may have some of them.
arrow::Status Arena::reserve(uint64_t offset, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    if (done > 0) ARROW_RETURN_NOT_OK(check_left(bytes, done));
    const uint64_t part = std::min(kRequest, bytes - done);
    const int failed = ::fallocate(memory_.descriptor().get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + done),
                                   static_cast<off_t>(part));
    if (failed == 0) {
      done += part;
    } else if (errno != EINTR) {
      return errno_status("getting " + bytes_text(static_cast<int64_t>(bytes)) + " of shared memory for a tensor");
    }
  }
  return arrow::Status::OK();
}

void Arena::keep_no_more() {
  if (!home_.is_here()) return;
  const std::lock_guard lock(mutex_);
  keeps_ = false;
  give_back_kept();
}

bool Arena::take_out(uint64_t offset, uint64_t bytes) {
  if (!home_.is_here() || bytes == 0) return true;
  const uint64_t end = offset + bytes;
  const uint64_t first = to_page(offset), last = std::max(first, end / kPage * kPage);
  const std::lock_guard lock(mutex_);
  // So much at a time is there twice.
  const uint64_t part_bytes = std::max(kRequest, to_page((last - first) / 64));
  for (uint64_t from = first; from < last; from += part_bytes) {
    if (!take_out_part(from, std::min(part_bytes, last - from))) return false;
  }
  // Each by itself: the rest of these pages may be written to meanwhile.
  const bool has_begin = offset < first;
  const bool has_end = end > last;
  return (!has_begin || take_out_part(first - kPage, kPage)) && (!has_end || take_out_part(last, kPage));
}

bool Arena::take_out_part(uint64_t from, uint64_t bytes) {
  void* const fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (fresh == MAP_FAILED) return false;
  const std::lock_guard no_forks(OwnArenas::instance().mutex());
  std::memcpy(fresh, at(from), bytes);
  if (::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at(from)) == MAP_FAILED) {
    ::munmap(fresh, bytes);
    return false;
  }
  taken_[from] = std::max(taken_[from], bytes);
  ::fallocate(memory_.descriptor().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
              static_cast<off_t>(bytes));
  return true;
}

// Between the ranges that were taken out, which a fork has as any other memory.
void Arena::detach_fork() const {
  const auto detach = [this](uint64_t from, uint64_t to) {
    if (from >= to) return;
    // Where it cannot, the fork goes on with its parent's: there is nobody to tell.
    (void)!::mmap(at(from), to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                  memory_.descriptor().get(), static_cast<off_t>(from));
  };
  uint64_t from = 0;
  for (const auto& [offset, bytes] : taken_) {
    detach(from, offset);
    from = std::max(from, offset + bytes);
  }
  detach(from, memory_.bytes().size());
}

void Arena::give_back(uint64_t offset, uint64_t bytes) {
  ::fallocate(memory_.descriptor().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  if (!taken_.empty()) ::madvise(at(offset), bytes, MADV_DONTNEED);  // which are not the file's
  free_.add(offset, bytes);
}

void Arena::give_back_kept_if_idle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) give_back_kept();
}

void Arena::give_back_kept() {
  OwnArenas::instance().note_kept(-static_cast<int64_t>(kept_.bytes()));
  while (kept_.bytes() > 0) {
    const auto [offset, bytes] = kept_.take_last(UINT64_MAX);
    give_back(offset, bytes);
  }
}

}  // namespace paceline::collective
