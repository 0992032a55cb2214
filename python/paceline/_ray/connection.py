"""The way to a Ray cluster, and what it has. Ray is imported when it is first needed."""

import importlib
import os
import socket
import urllib.parse
from typing import Any, Dict, List, Optional

from paceline._ray.bundles import table_of

_INSTALL = 'pip install "paceline[ray]"'
_LOCAL = (None, "", "local")
VARIABLE = "RAY_ADDRESS"

_client_host: Optional[str] = None  # of "ray://HOST:PORT", where the connection is one of Ray Client's


def names_cluster(address: Optional[str]) -> bool:
    """Whether init(address=…) means a Ray cluster: as in Ray, RAY_ADDRESS counts where no address is given, and `ray job
    submit` sets it.
    """
    return (os.environ.get(VARIABLE) if address is None else address) not in _LOCAL


def library() -> Any:
    """The module `ray`. ImportError that says how to install it."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        problem = f'the engine "ray" needs Ray, which cannot be imported ({error}); install it: {_INSTALL}'
        raise ImportError(problem) from error


def connect(address: Optional[str] = None, **options: Any) -> Any:
    """Connects this process with the cluster, as ray.init() does; what the program has connected already stays.

    Args:
        address: As ray.init() takes it; None is RAY_ADDRESS, or the cluster of this machine.
        options: Others of ray.init().

    Returns:
        What ray.init() returns; None where this process is connected already.

    Raises:
        ConnectionError: There is no cluster there.
    """
    global _client_host
    ray = library()
    if ray.is_initialized() and not options:
        return None
    address = os.environ.get(VARIABLE) or "auto" if address in (None, "auto") else address
    try:
        _reach(address)
        context = ray.init(address=address, **options)
    except (ConnectionError, TimeoutError) as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address!r}: {_first_line(error)}. Start one with `ray start --head`, or name "
            "another: paceline.init(address=…)"
        ) from error
    _client_host = urllib.parse.urlsplit(address).hostname if address.startswith("ray://") else None
    return context


def _reach(address: str) -> None:
    """ConnectionError where nobody listens at HOST:PORT: Ray would try for minutes."""
    place = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = place.hostname, place.port
    except ValueError:
        return  # Ray says what is wrong with it
    if host and port:
        try:
            socket.create_connection((host, port), timeout=10).close()
        except OSError as error:
            raise ConnectionError(str(error)) from error


def is_connected() -> bool:
    """Whether this process is connected with a cluster; does not import Ray."""
    import sys

    ray = sys.modules.get("ray")
    return ray is not None and hasattr(ray, "is_initialized") and ray.is_initialized()


def disconnect() -> None:
    global _client_host
    _client_host = None
    library().shutdown()


def is_client() -> bool:
    """Whether the connection is one of Ray Client's, which knows less of the cluster."""
    return _client_host is not None


def own_address() -> str:
    """This machine's, as the cluster's nodes reach it."""
    if _client_host is not None:
        # No packet is sent: the system says from where it would.
        family = socket.getaddrinfo(_client_host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family[0], socket.SOCK_DGRAM) as probe:
            probe.connect(family[4])
            return probe.getsockname()[0]
    return library().util.get_node_ip_address()


def table() -> str:
    """What the cluster has, node by node."""
    ray, free = library(), {}
    if not is_client():
        free = ray._private.state.available_resources_per_node()
    return table_of(ray.nodes(), free)


def highest() -> Optional[Dict[str, float]]:
    """Of each resource the most that the cluster can ever have; None where nothing says so, as without an autoscaler."""
    if is_client():
        return None
    return library()._private.state.state.get_max_resources_from_cluster_config()


def draining() -> Dict[str, int]:
    """The nodes that Ray is about to take away, by id: when, in milliseconds since 1970; 0 for no time that is known."""
    if is_client():
        return {}
    return library()._private.state.state.get_draining_nodes() or {}


def nodes() -> List[Dict[str, Any]]:
    """As ray.nodes()."""
    return library().nodes()


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
