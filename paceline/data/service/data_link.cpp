#include "paceline/core/posix/forks.h"
#include "paceline/data/service/data_link_internal.h"

namespace paceline::data {
namespace {

// Memory of a slot, which is freed with it. A train loop may write to it: nobody else sees it.
class SlotBuffer : public arrow::MutableBuffer {
 public:
  SlotBuffer(std::shared_ptr<DataLink> link, uint8_t* data, const BatchMade& batch)
      : MutableBuffer(data, batch.bytes), link_(std::move(link)), offset_(batch.offset) {}
  // A process that is gone has no use for it.
  ~SlotBuffer() override {
    if (home_.is_here()) (void)link_->send(rpc::pack(FreeSlot{.offset = offset_}));
  }

 private:
  const std::shared_ptr<DataLink> link_;
  const int64_t offset_;
  const HomeProcess home_;
};

}  // namespace

arrow::Result<std::shared_ptr<DataLink>> DataLink::open(Descriptor socket) {
  std::shared_ptr<DataLink> link(new DataLink(std::move(socket)));
  ARROW_ASSIGN_OR_RAISE(rpc::Envelope first, link->receive());
  ARROW_ASSIGN_OR_RAISE(const auto opened, rpc::unpack<ArenaOpened>(first));
  if (first.descriptors.empty()) return arrow::Status::IOError("the data process sent no memory for its batches");
  ARROW_ASSIGN_OR_RAISE(link->memory_,
                        SharedMemory::open(std::move(first.descriptors.front()), static_cast<size_t>(opened.bytes)));
  return link;
}

arrow::Result<rpc::Envelope> DataLink::receive() {
  ARROW_ASSIGN_OR_RAISE(auto message, socket_.receive());
  if (!message) return arrow::Status::IOError("the data process has ended");
  return *std::move(message);
}

arrow::Result<std::shared_ptr<arrow::Buffer>> DataLink::slot(const BatchMade& batch) {
  const auto size = static_cast<int64_t>(memory_->bytes().size());
  if (batch.offset < 0 || batch.bytes < 0 || batch.offset > size - batch.bytes) {
    return arrow::Status::IOError("the data process named a slot beyond its memory: ", batch.offset, " + ", batch.bytes,
                                  " of ", size);
  }
  auto* data = reinterpret_cast<uint8_t*>(memory_->bytes().data()) + batch.offset;
  return std::make_shared<SlotBuffer>(shared_from_this(), data, batch);
}

}  // namespace paceline::data
