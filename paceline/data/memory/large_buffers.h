// Buffers of many megabytes, whose memory is used again.
//
// Fresh memory costs more than mixing rows into it: the kernel clears each page first. So a buffer that ends leaves its
// memory to the next one, as far as the ledger has room for it, or has reserved room for the buffers that are expected.
// Large pages make the first use cheaper.
//
// Any thread may use a store and end its buffers, which keep it, but not while it holds the ledger's mutex.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "paceline/data/memory/ledger.h"

namespace paceline::data {

/// Where large buffers come from.
class LargeBuffers : public SpareMemory, public std::enable_shared_from_this<LargeBuffers> {
 public:
  /// That bytes will be allocated, for which room is reserved: until it ends. To make one takes no lock of the ledger.
  class Expectation {
   public:
    Expectation(std::shared_ptr<LargeBuffers> buffers, int64_t bytes) : buffers_(std::move(buffers)), bytes_(bytes) {
      buffers_->expect(bytes_);
    }
    Expectation(Expectation&&) = default;
    Expectation& operator=(Expectation&&) = default;
    ~Expectation() {
      if (buffers_ != nullptr) buffers_->expect(-bytes_);
    }

   private:
    std::shared_ptr<LargeBuffers> buffers_;
    int64_t bytes_;
  };

  static std::shared_ptr<LargeBuffers> make(std::shared_ptr<Ledger> ledger);
  ~LargeBuffers() override;
  LargeBuffers(const LargeBuffers&) = delete;
  LargeBuffers& operator=(const LargeBuffers&) = delete;

  /// A buffer of `bytes`, whose content is arbitrary; of `pool` where it is not large.
  arrow::Result<std::shared_ptr<arrow::Buffer>> allocate(int64_t bytes, arrow::MemoryPool* pool);
  /// Bytes of the batch that come from a store.
  static int64_t bytes_of(const arrow::RecordBatch& batch);
  /// From now on no memory is kept: nobody allocates any more, and batches may hold buffers for long.
  void close();
  /// Bytes of buffers that are there, and of memory that is kept.
  int64_t bytes() const;
  int64_t keep_at_most(int64_t bytes) override;
  /// So many bytes more are expected, or fewer.
  void expect(int64_t bytes);
  const std::shared_ptr<Ledger>& ledger() const { return ledger_; }

 private:
  class Buffer;
  struct Mapping {
    uint8_t* memory = nullptr;
    int64_t bytes = 0;
    uint8_t* begin = nullptr;  // at a large page
    int64_t usable = 0;
  };

  explicit LargeBuffers(std::shared_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}
  arrow::Result<Mapping> mapping_for(int64_t bytes);
  void give_back(const Mapping& mapping);

  const std::shared_ptr<Ledger> ledger_;
  mutable std::mutex mutex_;
  std::vector<Mapping> kept_;
  int64_t kept_bytes_ = 0;
  int64_t used_bytes_ = 0;
  int64_t expected_ = 0;
  bool is_closed_ = false;
};

/// While it lives, what this thread decodes comes from `buffers`. Room is reserved for it, of which about `expected`
/// bytes are for large buffers: so much of the memory that is kept stays for them.
class DecodesInto {
 public:
  explicit DecodesInto(std::shared_ptr<LargeBuffers> buffers, int64_t expected = 0);
  ~DecodesInto();
  DecodesInto(const DecodesInto&) = delete;
  DecodesInto& operator=(const DecodesInto&) = delete;

 private:
  friend std::shared_ptr<Ledger> ledger_of_this_thread();
  friend arrow::Result<std::shared_ptr<arrow::Buffer>> allocate_decoded(int64_t bytes, arrow::MemoryPool* pool);

  const std::shared_ptr<LargeBuffers> buffers_;
  int64_t expected_;
  DecodesInto* const former_;
};

/// The ledger of the pool for which this thread reads; a null pointer where it reads for none.
std::shared_ptr<Ledger> ledger_of_this_thread();

/// Memory for values that this thread decodes; of `pool` where no store is set, or where it is not much.
arrow::Result<std::shared_ptr<arrow::Buffer>> allocate_decoded(int64_t bytes, arrow::MemoryPool* pool);

}  // namespace paceline::data
