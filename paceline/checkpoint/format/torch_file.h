// The file that `torch.save` writes for a dictionary of tensors: a zip of uncompressed entries with a pickle of
// protocol 2 and each tensor's bytes. Written without LibTorch; `torch.load(weights_only=True)` reads it. Nothing here
// reads a pickle. Pure codec, no I/O.
//
//     archive/data.pkl    OrderedDict of name -> torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, …)
//     archive/byteorder   "little"
//     archive/data/K      the bytes of tensor K, at a multiple of 64 bytes in the file
//     archive/version     "3"
//
// A file beyond 4 GiB, or with more than 65,535 entries, has the zip64 records that PyTorch's reader knows too.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/checkpoint/format/shape.h"

namespace paceline::checkpoint {

struct TorchTensor {
  std::string name;
  std::string dtype;  // safetensors' word
  Shape shape;
};

/// The pickle of the dictionary; storage K is the tensor's place in `tensors`. Invalid for a dtype that torch has not.
arrow::Result<std::string> encode_torch_pickle(const std::vector<TorchTensor>& tensors);

/// Puts a zip together from front to back. Each entry is: header(name, size, CRC) before its bytes; finish() behind
/// all.
class ZipLayout {
 public:
  /// What stands before the entry's bytes, which begin at a multiple of 64 in the file. `crc` is CRC-32 (zlib's).
  std::string header(const std::string& name, int64_t size, uint32_t crc);
  /// The directory at the end.
  std::string finish() const;

 private:
  struct Entry {
    std::string name;
    int64_t size = 0;
    uint32_t crc = 0;
    int64_t offset = 0;
  };
  std::vector<Entry> entries_;
  int64_t position_ = 0;
};

}  // namespace paceline::checkpoint
