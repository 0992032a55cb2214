#include "paceline/core/progress.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <random>
#include <string>
#include <utility>

namespace paceline {
namespace {

constexpr uint32_t kProgressVersion = 11;
// Steps over which a step's time is averaged.
constexpr int64_t kAveragedSteps = 20;
constexpr auto kRelaxed = std::memory_order_relaxed;

// Lock-free atomics are what makes the word readable from another process.
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

constexpr int64_t kNotShown = 0;

ProgressWord& word_in(const SharedMemory& memory) {
  return *reinterpret_cast<ProgressWord*>(memory.bytes().data());
}

double& place_of(Phase phase, TimeSpent& spent) {
  switch (phase) {
    case Phase::training:
    case Phase::backward:
    case Phase::program:
      return spent.compute_s;
    case Phase::data:
      return spent.data_s;
    case Phase::collective:
      return spent.collectives_s;
    case Phase::checkpoint:
    case Phase::report:
      return spent.checkpoint_s;
    case Phase::starting:
      return spent.starting_s;
    default:
      return spent.other_s;
  }
}

// `since`: the beginning of the phase that goes on. `now`: of the monotonic clock.
TimeSpent time_spent(const ProgressWord& word, Phase phase, Duration since, Duration now) {
  TimeSpent spent;
  const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  for (size_t number = 0; number < ProgressWord::kPhases; ++number) {
    place_of(static_cast<Phase>(number), spent) += seconds(Duration{word.spent_ns[number].load(kRelaxed)});
  }
  if (phase != Phase::ended) place_of(phase, spent) += seconds(since);
  Duration waiting{word.waited_ns.load(kRelaxed)};
  // One that is under way may be so for ever.
  const bool is_loop = phase == Phase::training || phase == Phase::backward;
  if (is_loop && word.under_way.load(kRelaxed) > 0) {
    waiting += std::min(since, now - Duration{word.collective_start_ns.load(kRelaxed)});
  }
  const double waited = std::clamp(seconds(waiting), 0.0, spent.compute_s);
  spent.compute_s -= waited;
  spent.collectives_s += waited;
  return spent;
}

Duration time_in_step(const ProgressWord& word, Phase phase, Duration now) {
  const Duration start{word.step_start_ns.load(kRelaxed)};
  if (start == Duration::zero() || phase == Phase::ended) return Duration::zero();
  Duration waited{word.step_wait_ns.load(kRelaxed)};
  if (word.under_way.load(kRelaxed) > 0) {
    waited += now - std::max(start, Duration{word.collective_start_ns.load(kRelaxed)});
  } else if (word.launched.load(kRelaxed) > 0) {  // whoever shows no progress meanwhile waits for the device
    waited += now - std::max(start, Duration{word.sign_ns.load(kRelaxed)});
  }
  return std::max(Duration::zero(), now - start - waited);
}

}  // namespace

std::string to_string(Phase phase) {
  return nlohmann::json(phase).get<std::string>();
}

Progress::Progress(SharedMemory memory, const Clock& clock) : memory_(std::move(memory)), clock_(&clock) {}

arrow::Result<Progress> Progress::create(const Clock& clock) {
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::create("paceline-progress", sizeof(ProgressWord)));
  Progress progress(std::move(memory), clock);
  progress.word().phase_start_ns = clock.monotonic().count();
  progress.set_phase(Phase::starting);
  progress.word().version = kProgressVersion;
  return progress;
}

ProgressWord& Progress::word() const {
  return word_in(memory_);
}

int64_t Progress::note_sign() {
  const int64_t now = clock_->monotonic().count();
  note_sign(now);
  return now;
}

void Progress::note_sign(int64_t now) {
  ProgressWord& word = this->word();
  const int64_t pause = now - word.sign_ns.exchange(now, kRelaxed);
  // What goes before the first step (loading, warming up) says nothing about the pauses between steps.
  const bool has_begun = word.marks.load(kRelaxed) > 0 || word.step.load(kRelaxed) > 0;
  if (has_begun && pause > word.longest_pause_ns.load(kRelaxed)) {
    word.longest_pause_ns.store(pause, kRelaxed);
  }
}

void Progress::set_phase(Phase phase) {
  ProgressWord& word = this->word();
  const int64_t now = note_sign();
  const int64_t start = word.phase_start_ns.exchange(now, kRelaxed);
  word.spent_ns[word.phase.load(kRelaxed)].fetch_add(now - start, kRelaxed);
  word.phase.store(static_cast<uint32_t>(phase), std::memory_order_release);
}

void Progress::set_step(int64_t step, bool is_mark) {
  ProgressWord& word = this->word();
  const int64_t now = note_sign();
  const int64_t before = word.step.exchange(step, kRelaxed);
  if (step <= before) return;
  if (is_mark) {
    std::atomic_ref(step_marks_).fetch_add(1, kRelaxed);
    word.marks.fetch_add(1, kRelaxed);
  }
  const int64_t start = word.step_start_ns.exchange(now, kRelaxed);
  const int64_t waited = word.step_wait_ns.exchange(0, kRelaxed);
  // The first step is not timed: it includes what is done once.
  if (start == 0 || before <= 1) return;
  const int64_t time = std::max<int64_t>(0, now - start - waited);
  const int64_t timed = word.steps_timed.fetch_add(1, kRelaxed) + 1;
  const int64_t average = word.step_ns.load(kRelaxed);
  word.step_ns.store(average + (time - average) / std::min(timed, kAveragedSteps), kRelaxed);
}

void Progress::withdraw_step_marks() {
  word().marks.fetch_sub(std::atomic_ref(step_marks_).exchange(0, kRelaxed), kRelaxed);
}

void Progress::note_report() {
  note_sign();
  word().marks.fetch_add(1, kRelaxed);
}

void Progress::note_cut_off() {
  word().cut_off.store(true, kRelaxed);
}

void Progress::show_collectives_as(Collective collective) {
  std::atomic_ref(shown_as_).store(collective, kRelaxed);
}

std::shared_ptr<GroupProgress> Progress::add_group() {
  const int64_t number = ++groups_;
  GroupWord* const group = take_group_word();
  if (group != nullptr) {
    group->group.store(kNotShown);
    group->begun.store(0);
    group->done.store(0);
    group->group.store(number);
  }
  return std::make_shared<GroupProgress>(*this, group, number);
}

std::shared_ptr<GroupProgress> Progress::add_group_of_some() {
  // Until it has a name it has a number of its own, which no other process has for another group.
  static const std::string process = std::to_string(std::random_device()()) + "_";
  static std::atomic<int64_t> made = 0;
  return std::make_shared<GroupProgress>(*this, nullptr, number_of_group(process + std::to_string(++made), {}));
}

// One that nobody has had, else that of the group that was made first of those that are gone; null when all are taken.
GroupWord* Progress::take_group_word() {
  for (;;) {
    GroupWord* first = nullptr;
    for (GroupWord& group : word().groups) {
      if (!group.taken.load() && (first == nullptr || group.group.load() < first->group.load())) first = &group;
    }
    bool taken = false;
    if (first == nullptr || first->taken.compare_exchange_strong(taken, true)) return first;
  }
}

void Progress::forget_groups() {
  groups_ = 0;
  for (GroupWord& group : word().groups) group.group.store(kNotShown);
  word().ledger.forget();
}

Phase Progress::phase() const {
  return static_cast<Phase>(word().phase.load(kRelaxed));
}

int64_t Progress::step() const {
  return word().step.load(kRelaxed);
}

GroupProgress::GroupProgress(Progress& progress, GroupWord* word, int64_t number)
    : progress_(&progress), word_(word), number_(number), begun_(word == nullptr ? &begun_here_ : &word->begun) {}

GroupProgress::~GroupProgress() {
  if (word_ != nullptr) word_->taken.store(false);
  if (members_place_) progress_->word().members.end(*members_place_);
}

void GroupProgress::name(std::string_view name, std::vector<int64_t> ranks) {
  std::vector<int64_t> ascending = ranks;
  std::ranges::sort(ascending);
  number_ = number_of_group(name, ascending);
  ranks_ = std::move(ranks);
  static std::mutex noting;
  const std::lock_guard lock(noting);
  members_place_ = progress_->word().members.note({.group = number_, .ranks = std::move(ascending)});
}

std::shared_ptr<GroupProgress> GroupProgress::split(std::string_view name, const std::vector<int64_t>& places) const {
  auto made = progress_->add_group_of_some();
  if (number_ >= kFirstGroupOfSome && ranks_.empty()) return made;  // whose ranks are not known
  std::vector<int64_t> ranks;
  for (const int64_t place : places) ranks.push_back(ranks_.empty() ? place : ranks_.at(static_cast<size_t>(place)));
  made->name(std::to_string(number_) + "/" + std::string(name), std::move(ranks));
  return made;
}

CollectiveHandle GroupProgress::call_collective(const CollectiveCall& call) {
  return note_call(call, Wait::later);
}

CollectiveHandle GroupProgress::begin_collective(const CollectiveCall& call) {
  return note_call(call, Wait::at_once);
}

CollectiveHandle GroupProgress::launch_collective(const CollectiveCall& call) {
  return note_call(call, Wait::on_a_device);
}

CollectiveHandle GroupProgress::note_call(CollectiveCall call, Wait wait) {
  const Collective shown_as = std::atomic_ref(progress_->shown_as_).load(kRelaxed);
  if (shown_as != Collective::none) call.collective = shown_as;
  ProgressWord& word = progress_->word();
  const int64_t now = progress_->note_sign();
  const int64_t number = called_.fetch_add(1, kRelaxed) + 1;
  if (wait == Wait::at_once) word.collective_start_ns.store(now, kRelaxed);
  const int64_t position = word.ledger.call({.group = number_,
                                             .number = number,
                                             .call = call,
                                             .step = word.step.load(kRelaxed),
                                             .called_ns = now,
                                             .waited_ns = wait == Wait::later ? 0 : now,
                                             .is_on_device = wait == Wait::on_a_device});
  if (word_ != nullptr) {
    word_->recent[static_cast<size_t>(number) % GroupWord::kRecent].store(call.collective, kRelaxed);
  }
  if (wait == Wait::at_once) word.under_way.fetch_add(raise_begun(number), kRelaxed);
  if (wait == Wait::on_a_device) {
    raise_begun(number);
    word.launched.fetch_add(1, kRelaxed);
  }
  return {.position = position, .number = number};
}

// A rank may ask again and again how one stands: that is no sign of progress.
void GroupProgress::wait_for_collective(CollectiveHandle handle) {
  ProgressWord& word = progress_->word();
  const int64_t now = progress_->clock_->monotonic().count();
  const bool is_first = word.ledger.wait(handle.position, now);
  const int64_t more = raise_begun(handle.number);
  if (is_first || more > 0) progress_->note_sign(now);
  if (more == 0) return;
  word.collective_start_ns.store(now, kRelaxed);
  word.under_way.fetch_add(more, kRelaxed);
}

// Whatever ends has begun: so each is added to what is under way once, and taken from it once. With nothing else under
// way, the time since the last one began was spent waiting, or nearly all of it was.
void GroupProgress::end_collective(CollectiveHandle handle, bool has_failed) {
  ProgressWord& word = progress_->word();
  const int64_t now = progress_->note_sign();
  word.ledger.end(handle.position, now, has_failed);
  const int64_t more = raise_begun(handle.number);  // nobody has waited for it
  if (word_ != nullptr) word_->done.fetch_add(1, kRelaxed);
  if (word.under_way.fetch_add(more - 1, kRelaxed) != 1 || more > 0) return;
  const int64_t waited = now - word.collective_start_ns.load(kRelaxed);
  word.step_wait_ns.fetch_add(waited, kRelaxed);
  const Phase phase = progress_->phase();
  if (phase == Phase::training || phase == Phase::backward) word.waited_ns.fetch_add(waited, kRelaxed);
}

void GroupProgress::end_launched(CollectiveHandle handle, std::optional<Duration> carried_out, bool has_failed) {
  ProgressWord& word = progress_->word();
  CollectiveLedger& ledger = word.ledger;
  const int64_t now = progress_->note_sign();
  word.launched.fetch_sub(1, kRelaxed);
  if (carried_out && !has_failed) {
    ledger.end_carried_out(handle.position, now - carried_out->count(), now);
  } else {
    ledger.end(handle.position, now, has_failed);
  }
  if (word_ != nullptr) word_->done.fetch_add(1, kRelaxed);
}

// To `number` at least; says by how much.
int64_t GroupProgress::raise_begun(int64_t number) {
  int64_t before = begun_->load(kRelaxed);
  while (before < number) {
    if (begun_->compare_exchange_weak(before, number, std::memory_order_release, kRelaxed)) return number - before;
  }
  return 0;
}

CollectiveScope::CollectiveScope(std::shared_ptr<GroupProgress> progress, const CollectiveCall& call)
    : progress_(std::move(progress)), exceptions_(std::uncaught_exceptions()) {
  if (progress_ != nullptr) handle_ = progress_->begin_collective(call);
}

CollectiveScope::~CollectiveScope() {
  if (progress_ != nullptr) progress_->end_collective(handle_, std::uncaught_exceptions() > exceptions_);
}

ProgressReader::ProgressReader(SharedMemory memory) : memory_(std::move(memory)) {}

arrow::Result<ProgressReader> ProgressReader::open(Descriptor descriptor) {
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::open(std::move(descriptor), sizeof(ProgressWord)));
  const uint32_t version = word_in(memory).version;
  if (version != kProgressVersion) {
    return arrow::Status::Invalid("progress word of another version: wanted ", kProgressVersion, ", got ", version);
  }
  return ProgressReader(std::move(memory));
}

ProgressReading ProgressReader::read(Duration monotonic) const {
  const ProgressWord& word = word_in(memory_);
  ProgressReading reading;
  reading.phase = static_cast<Phase>(word.phase.load(std::memory_order_acquire));
  reading.step = word.step.load(kRelaxed);
  const auto since = [&monotonic](const std::atomic<int64_t>& start) {
    return monotonic - Duration{start.load(kRelaxed)};
  };
  reading.in_phase = since(word.phase_start_ns);
  reading.idle = since(word.sign_ns);
  reading.marks = word.marks.load(kRelaxed);
  reading.longest_pause = Duration{word.longest_pause_ns.load(kRelaxed)};
  reading.steps_timed = word.steps_timed.load(kRelaxed);
  reading.step_time = Duration{word.step_ns.load(kRelaxed)};
  reading.in_step = time_in_step(word, reading.phase, monotonic);
  reading.spent = time_spent(word, reading.phase, reading.in_phase, monotonic);
  reading.cut_off = word.cut_off.load(kRelaxed);
  for (const GroupWord& group : word.groups) {
    GroupReading one{.group = group.group.load(std::memory_order_acquire)};
    if (one.group == kNotShown) continue;
    one.done = group.done.load();
    one.begun = group.begun.load();
    if (group.group.load() != one.group) continue;  // another has just taken its place
    const int64_t oldest = std::min(one.done + 1, one.begun);
    if (oldest > 0) one.oldest = group.recent[static_cast<size_t>(oldest) % GroupWord::kRecent].load(kRelaxed);
    reading.groups.push_back(one);
  }
  std::ranges::sort(reading.groups, {}, &GroupReading::group);
  return reading;
}

std::vector<CollectiveRecord> ProgressReader::collectives() const {
  return word_in(memory_).ledger.read();
}

std::vector<GroupMembers> ProgressReader::members() const {
  return word_in(memory_).members.read();
}

}  // namespace paceline
