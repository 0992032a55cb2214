// The worker's store client over a real socket, with a small server at the other end.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "paceline/rpc/key_value_table.h"
#include "paceline/testing/fake_agent.h"
#include "paceline/testing/key_value_conformance.h"
#include "paceline/worker/connection.h"

namespace paceline::testing {
namespace {

/// One worker whose assignment changes with each client that is asked for, and the server.
class WorkerStore {
 public:
  WorkerStore() {
    connection_ = worker::connect_over(agent_.worker_end(), clock_).ValueOrDie();
    agent_.expect<rpc::Joined>();
    server_ = std::thread([this] { serve(); });
  }
  ~WorkerStore() {
    connection_.reset();
    server_.join();
  }

  std::shared_ptr<rpc::KeyValueClient> client(const Identity& identity) {
    const std::lock_guard lock(clients_mutex_);
    agent_.send(rpc::Assign{}, identity);
    const auto assignment = connection_->next_assignment().ValueOrDie();
    EXPECT_EQ(assignment->identity, identity);
    return connection_->store();
  }

  void drop(Attempt attempt) {
    const std::lock_guard lock(table_mutex_);
    send(table_.drop(attempt));
  }

 private:
  void serve() {
    while (true) {
      std::chrono::milliseconds timeout = std::chrono::minutes(1);
      {
        const std::lock_guard lock(table_mutex_);
        send(table_.expire(clock_.now()));
        if (const auto deadline = table_.next_deadline()) {
          timeout = std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock_.now());
        }
      }
      if (!agent_.socket().wait(timeout).ValueOrDie()) continue;
      const auto request = agent_.socket().receive().ValueOrDie();
      if (!request) return;
      if (request->type != rpc::StoreRequest::kType) continue;
      const std::lock_guard lock(table_mutex_);
      send(table_.handle(*request, clock_.now()));
    }
  }

  void send(rpc::KeyValueTable::Replies replies) {
    for (rpc::Envelope& reply : replies) (void)agent_.socket().send(std::move(reply));
  }

  SystemClock clock_;
  FakeAgent agent_;
  std::mutex clients_mutex_;
  std::mutex table_mutex_;
  rpc::KeyValueTable table_;
  std::unique_ptr<worker::Connection> connection_;
  std::thread server_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Worker, KeyValueConformance, WorkerStore);

TEST(WorkerStoreGuard, GivesUpOnAServerThatNeverAnswers) {
  const SystemClock clock;
  FakeAgent agent;
  const auto connection =
      worker::connect_over(agent.worker_end(), clock, {.store_grace = std::chrono::milliseconds(20)}).ValueOrDie();
  const arrow::Status status = connection->store()->get("key", std::chrono::milliseconds(10)).status();
  EXPECT_TRUE(status.IsIOError()) << status;
  EXPECT_NE(status.message().find("did not answer"), std::string::npos) << status;
}

}  // namespace
}  // namespace paceline::testing
