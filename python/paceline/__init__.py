"""Distributed PyTorch training with Ray Train's names: see paceline.train.

``paceline.init()`` and similar functions exist so that scripts written for Ray Train only need other imports. On one
machine there is no cluster to start: a run starts what it needs and leaves nothing behind.
"""

from paceline import _absent, _aliases
from paceline._cluster import available_resources, cluster_resources, init, is_initialized, nodes, shutdown
from paceline._version import __version__

__all__ = [
    "__version__",
    "available_resources",
    "cluster_resources",
    "init",
    "is_initialized",
    "nodes",
    "shutdown",
]

_aliases.install()
_absent.explain(__name__)
