#include "paceline/views/run_list.h"

#include <algorithm>
#include <cctype>

#include "paceline/core/spelling.h"
#include "paceline/policy/state.h"
#include "paceline/run/hang_evidence.h"
#include "paceline/run/working_folder.h"
#include "paceline/track/run_id.h"
#include "paceline/track/storage_path.h"

namespace paceline::views {
namespace {

std::string in_small_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

bool is_meant(const ListedRun& run, const std::string& small_text) {
  return small_text.empty() || in_small_letters(run.name).find(small_text) != std::string::npos ||
         in_small_letters(run.location).find(small_text) != std::string::npos;
}

struct Order {
  const char* name;
  bool (*is_before)(const ListedRun& one, const ListedRun& other);
};

template <auto kMember>
bool is_less(const ListedRun& one, const ListedRun& other) {
  return one.*kMember < other.*kMember;
}

constexpr Order kOrders[] = {{"name", is_less<&ListedRun::name>},
                             {"state", is_less<&ListedRun::state>},
                             {"since", is_less<&ListedRun::since>},
                             {"created", is_less<&ListedRun::created>},
                             {"opened", is_less<&ListedRun::opened>},
                             {"host", is_less<&ListedRun::host>},
                             {"world_size", is_less<&ListedRun::world_size>},
                             {"report", is_less<&ListedRun::report>}};

arrow::Result<const Order*> order_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Order& order : kOrders) {
    if (name == order.name) return &order;
    names.emplace_back(order.name);
  }
  std::string list;
  for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
  return arrow::Status::Invalid("runs cannot be sorted by \"", name, "\"; there are: ", list, suggestion(name, names));
}

arrow::Status unknown_cursor(const std::string& after) {
  return arrow::Status::Invalid("no run of this list has the id \"", after, "\" any more; list from the beginning");
}

// The runs of the page from those in their order.
class Page {
 public:
  explicit Page(const RunSelection& selection) : selection_(selection), has_begun_(selection.after.empty()) {}

  // Whether more are wanted.
  bool add(ListedRun run) {
    if (!has_begun_) {
      has_begun_ = run.id == selection_.after;
      return true;
    }
    if (page_.runs.size() == selection_.limit) {
      page_.next = page_.runs.empty() ? "" : page_.runs.back().id;
      return false;
    }
    page_.runs.push_back(std::move(run));
    return true;
  }
  arrow::Result<RunPage> take() {
    if (!has_begun_) return unknown_cursor(selection_.after);
    return std::move(page_);
  }

 private:
  const RunSelection& selection_;
  bool has_begun_;
  RunPage page_;
};

}  // namespace

ListedRun listed(const KnownRun& known) {
  const track::RunRow& run = known.run;
  return {.id = track::run_id(run.path),
          .name = run.name,
          .path = run.path,
          .location = run::run_location(run.path).text(),
          .state = run.state,
          .driver = known.driver,
          .gone = known.gone,
          .since = run.since,
          .created = run.created,
          .opened = run.opened,
          .host = run.host,
          .pid = run.pid,
          .attempt = run.attempt,
          .world_size = run.world_size,
          .report = run.report,
          .metrics = run.metrics,
          .hangs = known.gone ? 0 : std::ssize(run::hang_names(run.path)),
          .error = run.error};
}

std::vector<std::string> known_states() {
  std::vector<std::string> states = {"driver died", "deleted"};
  for (int state = 0; state <= static_cast<int>(policy::State::aborted); ++state) {
    states.push_back(policy::to_string(static_cast<policy::State>(state)));
  }
  return states;
}

std::string problem_of_state(const std::string& state) {
  const std::vector<std::string> known = known_states();
  if (std::ranges::find(known, state) != known.end()) return "";
  std::string names;
  for (const std::string& one : known) names += (names.empty() ? "" : ", ") + one;
  return "no run is ever in the state \"" + state + "\"; there are: " + names + suggestion(state, known);
}

bool is_in_state(const KnownRun& known, const std::string& state) {
  return state.empty() || known.run.state == state || known.state_text() == state;
}

arrow::Result<RunPage> list_runs(const RunSelection& selection, const VisitRuns& visit) {
  if (!selection.state.empty()) {
    if (const std::string problem = problem_of_state(selection.state); !problem.empty()) {
      return arrow::Status::Invalid(problem);
    }
  }
  const bool descending = selection.sort.starts_with('-');
  const bool as_they_come = selection.sort.empty() || selection.sort == "-opened";
  const Order* order = nullptr;
  if (!as_they_come) {
    ARROW_ASSIGN_OR_RAISE(order, order_named(selection.sort.substr(descending ? 1 : 0)));
  }
  Page page(selection);
  std::vector<ListedRun> all;
  const std::string small_text = in_small_letters(selection.text);
  ARROW_RETURN_NOT_OK(visit([&](const KnownRun& known) {
    if (!is_in_state(known, selection.state)) return true;
    ListedRun run = listed(known);
    if (!is_meant(run, small_text) || !track::is_below(run.location, selection.storage_paths)) return true;
    if (as_they_come) return page.add(std::move(run));
    all.push_back(std::move(run));
    return true;
  }));
  if (!as_they_come) {
    std::ranges::stable_sort(all, [&](const ListedRun& one, const ListedRun& other) {
      return descending ? order->is_before(other, one) : order->is_before(one, other);
    });
    for (ListedRun& run : all) {
      if (!page.add(std::move(run))) break;
    }
  }
  return page.take();
}

}  // namespace paceline::views
