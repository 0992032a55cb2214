"""Behaviours 50 to 57: elastic runs, preemptions, replicas. What announces and decides comes later; what can be asked already
is in the tests that are named."""

import pytest

from behaviours import proved_by
from paceline.train import ScalingConfig

elastic = pytest.mark.skip(reason="comes with elastic runs; today a range runs its maximum")
preemption = pytest.mark.skip(reason="comes with engines that announce preemptions; today nothing does")
in_place = pytest.mark.skip(reason="comes with recovery in place; today a failure restarts the whole group")

DECIDE = "paceline/policy/decide_test.cpp"


@elastic
def test_50_a_run_starts_at_its_minimum_and_never_exceeds_its_maximum():
    scaling = ScalingConfig(num_workers=(1, 4))
    assert scaling.min_workers == 1 and scaling.max_workers == 4
    proved_by("tests/robustness/robustness_test.cpp Robustness.ARangeRunsItsMaximum")


@elastic
def test_51_sizes_change_once_an_interval_at_most():
    assert ScalingConfig(num_workers=(1, 4)).elastic_resize_monitor_interval_s == 60


@elastic
def test_52_a_run_goes_through_gain_and_loss_of_nodes_to_its_end():
    proved_by(f"{DECIDE} Resize.StartsTheNextAttemptWithTheOtherSize")


@elastic
def test_53_only_whole_failure_domains_count():
    """Slices and racks."""


@preemption
def test_54_announcements_name_ranks_and_the_earliest_deadline():
    """Sums of announcements: test_preemption_info_sums_up_its_machines in ray_names_test.py."""


@preemption
def test_55_a_clean_finish_while_a_node_goes_is_a_success():
    proved_by(f"{DECIDE} Preemption.ACleanFinishIsSuccess", f"{DECIDE} Preemption.HasItsOwnBudget")


@preemption
def test_56_survivors_may_publish_without_the_ranks_that_are_gone():
    """Ray Train's relax_collectives_on_preemption."""


@in_place
def test_57_a_replaced_replica_leaves_the_others_running():
    """Ray Train's replica groups."""
