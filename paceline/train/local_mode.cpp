#include "paceline/train/local_mode_internal.h"

#include <cstdlib>
#include <set>

#include "paceline/checkpoint/retention.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/track/history.h"
#include "paceline/train/session_internal.h"

namespace paceline::train {
namespace {

int64_t environment_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// Does for one process what the controller does for worker processes: history, publication, retention.
class LocalSink final : public ReportSink {
 public:
  LocalSink(const LocalRun& run, comm::Group& group)
      : run_(run), group_(group), store_(run.run_folder), is_writer_(group.rank() == 0) {
    if (!is_writer_) return;
    history_ = value_or_throw(track::HistoryWriter::open(run.run_folder));
    for (const auto& published : value_or_throw(store_.list())) {
      kept_.push_back({.report = published.report, .metrics = published.metrics});
    }
  }

  void submit(rpc::Report report) override {
    const auto texts = comm::all_gather_text(group_, encode_json(report));
    std::vector<rpc::Report> reports;
    for (const auto& text : texts) reports.push_back(value_or_throw(decode_json(text)).get<rpc::Report>());
    require_collective_saves(reports);
    std::string path;
    if (is_writer_) {
      path = publish(reports);
      write_history(reports, path);
    }
    path = comm::all_gather_text(group_, path)[0];
    if (!path.empty()) Session::current("report()").set_checkpoint(path);
  }

  void show_progress(rpc::Progress) override {}

 private:
  static void require_collective_saves(const std::vector<rpc::Report>& reports) {
    std::string missing;
    bool any = false;
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      any = any || reports[rank].collective_save;
      if (!reports[rank].collective_save) missing += " " + std::to_string(rank);
    }
    if (any && !missing.empty()) {
      throw CollectiveError("Checkpoint::save must be called on every rank; it was not on:" + missing);
    }
  }

  std::string publish(const std::vector<rpc::Report>& reports) {
    std::vector<checkpoint::StagedPart> parts;
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      if (!reports[rank].staged.empty()) {
        parts.push_back({.rank = static_cast<int64_t>(rank), .staged = reports[rank].staged});
      }
    }
    if (parts.empty()) return "";
    checkpoint::Manifest about{.report = reports[0].index, .attempt = 1, .world_size = group_.size()};
    about.time = to_seconds(clock_.now());
    about.metrics = reports[0].metrics;
    const auto published = value_or_throw(store_.publish(parts, about));
    kept_.push_back({.report = published.report, .metrics = published.metrics});
    for (const int64_t old : checkpoint::superseded(kept_, run_.run_config.checkpoint_config)) {
      throw_if_error(store_.remove(old));
      std::erase_if(kept_, [old](const checkpoint::Scored& scored) { return scored.report == old; });
    }
    return published.path;
  }

  void write_history(const std::vector<rpc::Report>& reports, const std::string& path) {
    for (size_t rank = 0; rank < reports.size(); ++rank) {
      throw_if_error(history_->append(
          {.report = reports[rank].index,
           .rank = static_cast<int64_t>(rank),
           .time = to_seconds(clock_.now()),
           .checkpoint = rank == 0 && !path.empty() ? checkpoint::checkpoint_name(reports[0].index) : "",
           .metrics = reports[rank].metrics}));
    }
    throw_if_error(history_->flush());
  }

  const LocalRun& run_;
  comm::Group& group_;
  checkpoint::Store store_;
  bool is_writer_;
  SystemClock clock_;
  std::optional<track::HistoryWriter> history_;
  std::vector<checkpoint::Scored> kept_;
};

}  // namespace

bool under_torchrun() {
  return std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
}

Json run_in_process(const LocalRun& run) {
  SessionOptions options;
  auto& context = options.context;
  context.experiment_name = *run.run_config.name;
  context.storage = run.run_folder;
  if (under_torchrun()) {
    context.world_rank = environment_number("RANK", 0);
    context.world_size = environment_number("WORLD_SIZE", 1);
    context.local_rank = environment_number("LOCAL_RANK", context.world_rank);
    context.local_world_size = environment_number("LOCAL_WORLD_SIZE", context.world_size);
    context.node_rank = environment_number("GROUP_RANK", 0);
  }
  if (run.scaling_config.use_gpu) {
    options.device = torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(context.local_rank));
  }
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(run.torch_config.timeout_s * 1000));
  const comm::GroupOptions group{.backend = run.torch_config.backend.value_or(""),
                                 .rank = context.world_rank,
                                 .world_size = context.world_size,
                                 .device = options.device,
                                 .timeout = options.timeout};
  options.group =
      context.world_size > 1 ? comm::Group::from_torchrun_environment(group) : comm::Group::create(group, nullptr);
  options.identity = {.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {context.world_rank + 1}};
  LocalSink sink(run, *options.group);
  const auto published = value_or_throw(checkpoint::Store(run.run_folder).list());
  options.checkpoint = published.empty() ? run.resume_from_checkpoint : published.back().path;
  options.first_report = published.empty() ? 1 : published.back().report + 1;
  options.sink = &sink;
  Session session(options);
  return run.loop(run.train_loop_config);
}

}  // namespace paceline::train
