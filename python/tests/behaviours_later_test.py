"""Behaviours, or parts of them, that Paceline does not show yet: one table, each row of which is a skipped test.

A row whose decision is in the core already names the tests that prove it; these run. The work that brings a behaviour
replaces its row by a test.
"""

from typing import NamedTuple, Tuple

import pytest

from behaviours import proved_by

DECIDE = "paceline/policy/decide_test.cpp"
RESIZE = f"{DECIDE} Resize.StartsTheNextAttemptWithTheOtherSize"


class Later(NamedTuple):
    number: int
    what: str
    today: str
    comes_with: str
    proofs: Tuple[str, ...] = ()


MAXIMUM = "a range of workers runs its maximum"
NOBODY = "nothing announces preemptions"

LATER = (
    Later(17, "sizes are decided while running and while not", MAXIMUM, "elastic runs", (RESIZE,)),
    Later(50, "a run starts at its minimum and never exceeds its maximum", MAXIMUM, "elastic runs",
          ("tests/robustness/robustness_test.cpp Robustness.ARangeRunsItsMaximum",)),
    Later(51, "sizes change once an interval at most", MAXIMUM, "elastic runs"),
    Later(52, "a run goes through gain and loss of nodes to its end", MAXIMUM, "elastic runs", (RESIZE,)),
    Later(53, "only whole failure domains (slices, racks) count", MAXIMUM, "elastic runs"),
    Later(54, "announcements name ranks and the earliest deadline", NOBODY, "preemptions"),
    Later(55, "a clean finish while a node goes is a success", NOBODY, "preemptions",
          (f"{DECIDE} Preemption.ACleanFinishIsSuccess", f"{DECIDE} Preemption.HasItsOwnBudget")),
    Later(56, "survivors may publish without the ranks that are gone", NOBODY, "preemptions"),
    Later(57, "a replaced replica leaves the others running", "a failure restarts the whole group", "recovery in place"),
    Later(59, "gauges have names and tags and are zero at the end", "no gauges are exported", "monitoring"),
)  # fmt: skip


@pytest.mark.parametrize("behaviour", LATER, ids=lambda behaviour: f"{behaviour.number}: {behaviour.what}")
def test_later(behaviour):
    proved_by(*behaviour.proofs)
    pytest.skip(f"today {behaviour.today}; comes with {behaviour.comes_with}")
