"""Fixtures: clusters in a temporary folder each, and what one machine comes to."""

import os

import pytest
from cluster import Cluster
from network import missing

STEPS = 8


def pytest_collection_modifyitems(items):
    asked = os.environ.get("PACELINE_TEST_MACHINES")
    if reason := missing() if asked else "PACELINE_TEST_MACHINES=1 runs them, which takes minutes":
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"machines in network namespaces: {reason}"))


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The weights behind each step, of a run whose two workers are on one machine."""
    with Cluster(tmp_path_factory.mktemp("reference"), agents=()) as cluster:
        run = cluster.begin(steps=STEPS)
        run.finish()
        return [report["weights"] for report in run.reports]


@pytest.fixture
def make_cluster(tmp_path):
    """Cluster(**), whose agents have been started; nothing of it is left behind the test."""
    clusters = []

    def make(**options):
        clusters.append(cluster := Cluster(tmp_path, **options))
        cluster.start_agents()
        return cluster

    yield make
    for cluster in clusters:
        cluster.close()
