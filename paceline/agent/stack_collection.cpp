#include "paceline/agent/stack_collection_internal.h"

namespace paceline::agent {

StackCollection::StackCollection(boost::asio::io_context& loop, Descriptor pipe, std::chrono::milliseconds patience,
                                 Done done)
    : pipe_(loop, pipe.release()), deadline_(loop), patience_(patience), done_(std::move(done)) {}

void StackCollection::start() {
  deadline_.expires_after(patience_);
  deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->pipe_.cancel();
  });
  read_more();
}

void StackCollection::read_more() {
  pipe_.async_read_some(boost::asio::buffer(buffer_),
                        [self = shared_from_this()](const boost::system::error_code& error, size_t size) {
                          self->lines_.append(self->buffer_.data(), size);
                          if (error) return self->finish();
                          self->read_more();
                        });
}

void StackCollection::finish() {
  deadline_.cancel();
  pipe_.close();
  done_(std::move(lines_));
}

}  // namespace paceline::agent
