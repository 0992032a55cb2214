#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "paceline/comm/control_store.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using Bytes = std::vector<uint8_t>;

std::string to_text(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}
Bytes to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

void check_status(const arrow::Status& status) {
  if (!status.ok()) {
    throw CollectiveError("the rendezvous store: " + status.message(), CollectiveCause::other_rank);
  }
}

template <class T>
T value_of(arrow::Result<T> result) {
  check_status(result.status());
  return std::move(result).ValueUnsafe();
}

class ControlStore final : public c10d::Store {
 public:
  ControlStore(std::shared_ptr<rpc::KeyValueClient> client, std::chrono::milliseconds timeout)
      : Store(timeout), client_(std::move(client)) {}

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<ControlStore>(client_, timeout_); }

  void set(const std::string& key, const Bytes& value) override { check_status(client_->set(key, to_text(value))); }
  Bytes get(const std::string& key) override { return to_bytes(value_of(client_->get(key, timeout_))); }
  int64_t add(const std::string& key, int64_t value) override { return value_of(client_->add(key, value)); }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return to_bytes(value_of(client_->compare_set(key, to_text(expected), to_text(desired))));
  }
  bool deleteKey(const std::string& key) override { return value_of(client_->delete_key(key)); }
  bool check(const std::vector<std::string>& keys) override { return value_of(client_->check(keys)); }
  int64_t getNumKeys() override { return value_of(client_->num_keys()); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    check_status(client_->wait(keys, timeout));
  }

  // append(), multiGet() and multiSet(): the last two are loops in the base class.
  bool hasExtendedApi() const override { return true; }
  void append(const std::string& key, const Bytes& value) override {
    check_status(client_->append(key, to_text(value)));
  }

 private:
  std::shared_ptr<rpc::KeyValueClient> client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_control_store(std::shared_ptr<rpc::KeyValueClient> client,
                                                   std::chrono::milliseconds timeout) {
  return c10::make_intrusive<ControlStore>(std::move(client), timeout);
}

}  // namespace paceline::comm
