"""Ray's functions about a cluster, answered for this machine."""

import os
import platform
import socket
from typing import Any, Dict, Iterator, List, Mapping, Optional

from paceline import _absent, _environment, _options
from paceline._version import __version__

_initialized = False
_READ = ("address", "ignore_reinit_error", "runtime_env")
_ADDRESS = "127.0.0.1"
# Of processes that Ray starts.
_NO_PROCESSES = ("redis_address", "object_store_address", "raylet_socket_name", "session_dir", "metrics_export_port",
                 "gcs_address", "dashboard_agent_listen_port")  # fmt: skip


class Context(Mapping[str, Any]):
    """What init() returns. ``with paceline.init():`` calls shutdown() at its end.

    Attributes:
        address_info: Facts about this machine: ``address``, ``node_ip_address``, ``node_id``. The others that Ray has are
            None. The context itself is a mapping of them too.
        dashboard_url: Empty: there is none; ``paceline list`` shows runs.
        python_version: Version of the interpreter.
        ray_version: Version of Paceline; ``paceline_version`` is another name for it.
    """

    dashboard_url: str = ""

    def __init__(self) -> None:
        here = {"address": "local", "node_ip_address": _ADDRESS, "node_id": socket.gethostname(), "webui_url": ""}
        self.address_info: Dict[str, Optional[str]] = {**dict.fromkeys(_NO_PROCESSES), **here}
        self.python_version = platform.python_version()
        self.ray_version = self.paceline_version = __version__

    def disconnect(self) -> None:
        """The same as shutdown()."""
        shutdown()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *exception: Any) -> None:
        shutdown()

    def __getitem__(self, name: str) -> Any:
        return self.address_info[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def __repr__(self) -> str:
        return f"Context(python_version={self.python_version!r}, paceline_version={self.paceline_version!r})"


def init(*args: Any, **kwargs: Any) -> Context:
    """Starts nothing, since one machine needs nothing started; fit() works without it. Arguments of ``ray.init`` are
    accepted: ``address``, ``ignore_reinit_error`` and the ``env_vars`` of ``runtime_env`` are read, others get a
    notice.

    Returns:
        A :class:`Context`: facts about this machine, and a context manager that calls shutdown().

    Raises:
        RuntimeError: When called twice without ``ignore_reinit_error=True`` or shutdown().
        ValueError: For the address of a cluster.
    """
    global _initialized
    address = kwargs.get("address", args[0] if args else None)
    if address not in (None, "auto", "local"):
        raise ValueError(f"paceline.init(address={address!r}): runs on many machines are not there yet; leave it out")
    if _initialized and not kwargs.get("ignore_reinit_error", False):
        raise RuntimeError("paceline.init() was called before; call paceline.shutdown() first, or leave one out")
    _initialized = True
    for name in kwargs.keys() - set(_READ):
        _options.without_effect("init", name, _options.NO_CLUSTER)
    runtime_env = kwargs.get("runtime_env") or {}
    for name in runtime_env.keys() - {"env_vars"}:
        _options.without_effect("init", f"runtime_env[{name!r}]", _options.OWN_ENVIRONMENT)
    for name, value in runtime_env.get("env_vars", {}).items():
        os.environ[name] = str(value)
    _environment.note_others()
    return Context()


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """The opposite of init()."""
    global _initialized
    given = {"wait_for_processes": wait_for_processes, "_exiting_interpreter": _exiting_interpreter}
    _options.note("shutdown", _options.changed(shutdown, given))
    _initialized = False


def is_initialized() -> bool:
    """Whether init() was called."""
    return _initialized


def nodes() -> List[Dict[str, Any]]:
    """Returns the machines of a run: this one."""
    host = socket.gethostname()
    return [{"NodeID": host, "Alive": True, "NodeManagerAddress": _ADDRESS, "NodeManagerHostname": host,
             "Resources": cluster_resources()}]  # fmt: skip


def cluster_resources() -> Dict[str, float]:
    """CPUs that this process may use, GPUs that it sees, memory in bytes."""
    resources = {"CPU": float(len(os.sched_getaffinity(0))), "memory": float(_memory())}
    import torch

    if torch.cuda.is_available():
        resources["GPU"] = float(torch.cuda.device_count())
    return resources


def available_resources() -> Dict[str, float]:
    """As cluster_resources(), since nothing is reserved between runs."""
    return cluster_resources()


def _memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_absent.explain(__name__)
