#include "paceline/core/progress.h"

#include <algorithm>

namespace paceline {
namespace {

constexpr uint32_t kProgressVersion = 6;
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

}  // namespace

std::string to_string(Phase phase) {
  return nlohmann::json(phase).get<std::string>();
}

Progress::Progress(SharedMemory memory, const Clock& clock) : memory_(std::move(memory)), clock_(&clock) {}

arrow::Result<Progress> Progress::create(const Clock& clock) {
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory, SharedMemory::create("paceline-progress", sizeof(ProgressWord)));
  Progress progress(std::move(memory), clock);
  progress.set_phase(Phase::starting);
  progress.word().version = kProgressVersion;
  return progress;
}

ProgressWord& Progress::word() const {
  return word_in(memory_);
}

int64_t Progress::note_sign() {
  ProgressWord& word = this->word();
  const int64_t now = clock_->monotonic().count();
  const int64_t pause = now - word.sign_ns.exchange(now, kRelaxed);
  // What goes before the first step (loading, warming up) says nothing about the pauses between steps.
  if (word.marks.load(kRelaxed) > 0 && pause > word.longest_pause_ns.load(kRelaxed)) {
    word.longest_pause_ns.store(pause, kRelaxed);
  }
  return now;
}

void Progress::set_phase(Phase phase) {
  word().phase_start_ns.store(note_sign(), kRelaxed);
  word().phase.store(static_cast<uint32_t>(phase), std::memory_order_release);
}

void Progress::set_step(int64_t step) {
  ProgressWord& word = this->word();
  const int64_t now = note_sign();
  const int64_t before = word.step.exchange(step, kRelaxed);
  if (step <= before) return;
  word.marks.fetch_add(1, kRelaxed);
  const int64_t start = word.step_start_ns.exchange(now, kRelaxed);
  const int64_t waited = word.step_wait_ns.exchange(0, kRelaxed);
  // The first step is not timed: it includes what is done once.
  if (start == 0 || before <= 1) return;
  const int64_t time = std::max<int64_t>(0, now - start - waited);
  const int64_t timed = word.steps_timed.fetch_add(1, kRelaxed) + 1;
  const int64_t average = word.step_ns.load(kRelaxed);
  word.step_ns.store(average + (time - average) / std::min(timed, kAveragedSteps), kRelaxed);
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

GroupProgress::~GroupProgress() {
  if (word_ != nullptr) word_->taken.store(false);
}

void Progress::forget_groups() {
  groups_ = 0;
  for (GroupWord& group : word().groups) group.group.store(kNotShown);
  word().ledger.forget();
}

CollectiveHandle Progress::begin_collective(GroupWord* shown, int64_t group, int64_t number, CollectiveCall call) {
  const Collective shown_as = std::atomic_ref(shown_as_).load(kRelaxed);
  if (shown_as != Collective::none) call.collective = shown_as;
  ProgressWord& word = this->word();
  const int64_t now = note_sign();
  word.collective_start_ns.store(now, kRelaxed);
  word.under_way.fetch_add(1, kRelaxed);
  const int64_t position = word.ledger.begin(
      {.group = group, .number = number, .call = call, .step = word.step.load(kRelaxed), .begin_ns = now});
  if (shown != nullptr) {
    shown->recent[static_cast<size_t>(number) % GroupWord::kRecent].store(call.collective, kRelaxed);
    shown->begun.fetch_add(1, std::memory_order_release);
  }
  return {position};
}

// With nothing else under way, the time since the last one began was spent waiting, or nearly all of it was.
void Progress::end_collective(GroupWord* shown, CollectiveHandle handle) {
  ProgressWord& word = this->word();
  const int64_t now = note_sign();
  word.ledger.end(handle.position, now);
  if (shown != nullptr) shown->done.fetch_add(1, kRelaxed);
  if (word.under_way.fetch_sub(1, kRelaxed) > 1) return;
  word.step_wait_ns.fetch_add(now - word.collective_start_ns.load(kRelaxed), kRelaxed);
}

Phase Progress::phase() const {
  return static_cast<Phase>(word().phase.load(kRelaxed));
}

int64_t Progress::step() const {
  return word().step.load(kRelaxed);
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

}  // namespace paceline
