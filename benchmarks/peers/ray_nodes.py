"""A Ray cluster of this machine, for programs that measure over nodes."""

import contextlib


@contextlib.contextmanager
def two_nodes():
    """Two nodes of one CPU beside a head without; gives the cluster's address."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        yield cluster.address
    finally:
        cluster.shutdown()
