"""Ray's functions about a cluster, answered for this machine."""

import os
import socket
from typing import Any, Dict, List

from paceline import _environment, _options

_initialized = False
_READ = ("address", "ignore_reinit_error", "runtime_env")


def init(*args: Any, **kwargs: Any) -> Dict[str, Any]:
    """Starts nothing, since one machine needs nothing started; fit() works without it. Arguments of ``ray.init`` are
    accepted: ``address``, ``ignore_reinit_error`` and the ``env_vars`` of ``runtime_env`` are read, others get a
    notice.

    Returns:
        Facts about this machine: ``{"node_ip_address": …, "address": "local"}``.

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
    return {"node_ip_address": "127.0.0.1", "address": "local"}


def shutdown(_exiting_interpreter: bool = False) -> None:
    """The opposite of init()."""
    global _initialized
    if _exiting_interpreter:
        _options.note("shutdown", ["_exiting_interpreter"])
    _initialized = False


def is_initialized() -> bool:
    """Whether init() was called."""
    return _initialized


def nodes() -> List[Dict[str, Any]]:
    """Returns the machines of a run: this one."""
    host = socket.gethostname()
    return [{"NodeID": host, "Alive": True, "NodeManagerAddress": "127.0.0.1", "NodeManagerHostname": host,
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


def _not_here(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"paceline.{name} does not exist: Paceline trains, and runs no tasks or actors. docs/porting.md says what to use "
        "instead; a program may use Ray's own beside it (import ray)"
    )


def remote(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: there are no tasks and actors (docs/porting.md)."""
    raise _not_here("remote")


def get(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError, as remote()."""
    raise _not_here("get")


def put(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError, as remote()."""
    raise _not_here("put")


def wait(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError, as remote()."""
    raise _not_here("wait")
