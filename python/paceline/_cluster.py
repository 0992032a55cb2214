"""Ray's functions about a cluster: answered for this machine, or by the Ray cluster that init() has connected."""

import os
import platform
import socket
from typing import Any, Dict, Iterator, List, Mapping, Optional

from paceline import _absent, _environment, _options
from paceline._ray import connection
from paceline._version import __version__

_initialized = False
_on_ray = False  # init() has connected a cluster
_READ = ("address", "ignore_reinit_error", "runtime_env")
_ADDRESS = "127.0.0.1"
# Of processes that Ray starts.
_NO_PROCESSES = ("redis_address", "object_store_address", "raylet_socket_name", "session_dir", "metrics_export_port",
                 "gcs_address", "dashboard_agent_listen_port")  # fmt: skip


class Context(Mapping[str, Any]):
    """What init() returns. ``with paceline.init():`` calls shutdown() at its end.

    Attributes:
        address_info: Facts about this machine: ``address``, ``node_ip_address``, ``node_id``. The others that Ray has are
            None. On a Ray cluster they are Ray's. The context itself is a mapping of them too.
        dashboard_url: Ray's; empty on one machine: ``paceline dashboard`` or ``RunConfig(dashboard=True)`` serves one
            and prints its address.
        python_version: Version of the interpreter.
        ray_version: Version of Paceline; ``paceline_version`` is another name for it.
    """

    dashboard_url: str = ""

    def __init__(self, ray: Any = None) -> None:
        here = {"address": "local", "node_ip_address": _ADDRESS, "node_id": socket.gethostname(), "webui_url": ""}
        facts = here if ray is None else dict(getattr(ray, "address_info", {}))  # that of Ray Client has none
        self.address_info: Dict[str, Optional[str]] = {**dict.fromkeys(_NO_PROCESSES), **facts}
        self.dashboard_url = getattr(ray, "dashboard_url", None) or ""
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
    """Connects with a Ray cluster, on which runs then train, or says that this machine is enough.

    Args:
        address: The first argument. ``"auto"``, ``"HOST:PORT"`` and ``"ray://HOST:PORT"`` name a Ray cluster, as in
            ``ray.init``, and runs have the engine ``"ray"`` unless they say otherwise. None is the environment's
            ``RAY_ADDRESS``, which ``ray job submit`` sets. Without it, and for ``"local"``, it is this machine, where nothing
            is started; fit() works without init() there.
        runtime_env: On a cluster as in ``ray.init``: working_dir, py_modules, env_vars, pip, … of all nodes. On one machine
            ``env_vars`` is read.
        ignore_reinit_error: Whether a second call is allowed.
        kwargs: Others of ``ray.init``; on one machine they get a notice.

    Returns:
        A :class:`Context`: facts, and a context manager that calls shutdown().

    Raises:
        RuntimeError: When called twice without ``ignore_reinit_error=True`` or shutdown().
        ImportError: For the address of a cluster, when Ray is not installed.
        ConnectionError: When no cluster answers there.
    """
    global _initialized, _on_ray
    address = kwargs.get("address", args[0] if args else None)
    again = kwargs.get("ignore_reinit_error", False)
    if _initialized and not again:
        raise RuntimeError("paceline.init() was called before; call paceline.shutdown() first, or leave one out")
    if connection.names_cluster(address):
        # One that the program has connected itself is used as it is.
        options = {name: value for name, value in kwargs.items() if name != "address"}
        connected = connection.connect(address, **({} if connection.is_connected() and again else options))
        context = Context(_own_facts() if connected is None else connected)
        _initialized = _on_ray = True
        _environment.note_others()
        return context
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


def _own_facts() -> Any:
    """Of a cluster that was connected before."""
    return type("Connected", (), {"address_info": {"node_ip_address": connection.own_address()}})()


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """The opposite of init()."""
    global _initialized, _on_ray
    given = {"wait_for_processes": wait_for_processes, "_exiting_interpreter": _exiting_interpreter}
    _options.note("shutdown", _options.changed(shutdown, given))
    if _on_ray:
        connection.disconnect()
    _initialized = _on_ray = False


def is_initialized() -> bool:
    """Whether init() was called."""
    return _initialized


def usual_engine(otherwise: str) -> str:
    """The default of ScalingConfig.engine: "ray" once init() has connected a cluster."""
    return "ray" if _on_ray else otherwise


def nodes() -> List[Dict[str, Any]]:
    """Returns the machines of a run: this one, or the cluster's."""
    if _on_ray:
        return connection.nodes()
    host = socket.gethostname()
    return [{"NodeID": host, "Alive": True, "NodeManagerAddress": _ADDRESS, "NodeManagerHostname": host,
             "Resources": cluster_resources()}]  # fmt: skip


def cluster_resources() -> Dict[str, float]:
    """CPUs that this process may use, GPUs that it sees, memory in bytes; what a cluster has, as Ray counts it."""
    if _on_ray:
        return connection.library().cluster_resources()
    resources = {"CPU": float(len(os.sched_getaffinity(0))), "memory": float(_memory())}
    import torch

    if torch.cuda.is_available():
        resources["GPU"] = float(torch.cuda.device_count())
    return resources


def available_resources() -> Dict[str, float]:
    """What of a cluster nobody has; on one machine as cluster_resources(), since nothing is reserved between runs."""
    return connection.library().available_resources() if _on_ray else cluster_resources()


def _memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


_absent.explain(__name__)
