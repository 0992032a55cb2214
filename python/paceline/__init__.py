"""Distributed PyTorch training with Ray Train's names: see paceline.train.

``paceline.init()`` and similar functions exist so that scripts written for Ray Train only need other imports. On one
machine there is no cluster to start: a run starts what it needs and leaves nothing behind.
"""

from paceline._cluster import (
    available_resources,
    cluster_resources,
    get,
    init,
    is_initialized,
    nodes,
    put,
    remote,
    shutdown,
    wait,
)
from paceline._version import __version__

__all__ = [
    "__version__",
    "available_resources",
    "cluster_resources",
    "get",
    "init",
    "is_initialized",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "wait",
]
