"""The rendezvous `env` of torch.distributed over the store of `paceline run`.

torch's own opens a TCPStore on every network interface. This one speaks to the rank's launcher on a Unix socket, which
passes the operations on to the controller (rpc/messages.h, StoreRequest; rpc/frame.h has the layout of frames). A
program that has set another MASTER_ADDR or MASTER_PORT, or that the launcher did not start, gets torch's own.
"""

import json
import os
import socket
import struct
import threading
from datetime import timedelta

HEADER = struct.Struct("<4sIQB3x")  # magic, bytes of the head, bytes of the content, descriptors
MAGIC = b"PCL1"
VERSION = [1, 0]


class Connection:
    """One request at a time: head and bytes there, head and bytes back."""

    def __init__(self, address):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect("\0" + address[1:])
        self._requests = 0

    def call(self, body, content):
        self._requests += 1
        head = {"type": "store_request", "version": VERSION, "sequence": self._requests, "request": self._requests}
        text = json.dumps({**head, "identity": {}, "body": body}).encode()
        self._socket.sendall(HEADER.pack(MAGIC, len(text), len(content), 0) + text + content)
        magic, head_size, content_size, _ = HEADER.unpack(self._receive(HEADER.size))
        if magic != MAGIC:
            raise ConnectionError("the launcher's answer is none")
        return json.loads(self._receive(head_size))["body"], self._receive(content_size)

    def _receive(self, size):
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionError("the connection to paceline's launcher is closed")
            parts += part
        return bytes(parts)


class Connections:
    """Connections that are free; a thread that finds none makes one. A forked process begins anew."""

    def __init__(self, address):
        self._address = address
        self._lock = threading.Lock()
        self._free = []
        self._owner = os.getpid()

    def call(self, body, content=b""):
        connection = self._take()
        answer = connection.call(body, content)  # one that has failed is not used again
        with self._lock:
            self._free.append(connection)
        return answer

    def _take(self):
        with self._lock:
            if self._owner != os.getpid():
                self._free, self._owner = [], os.getpid()
            if self._free:
                return self._free.pop()
        return Connection(self._address)


def _seconds(timeout):
    return max(0.0, timeout.total_seconds())


# c10d keeps the C++ half of a store only; without the Python half it has no methods.
_kept = []


def store_class(dist):
    """The class Store for the torch that is imported."""
    timeout_error = getattr(dist, "DistStoreError", RuntimeError)  # torch 2 has it

    class PacelineStore(dist.Store):
        """torch.distributed.Store whose keys are the controller's. Thread-safe; get and wait block."""

        def __init__(self, address, timeout, connections=None):
            super().__init__()
            self._address = address
            self._connections = connections or Connections(address)
            self.set_timeout(timeout)
            _kept.append(self)

        def clone(self):
            return PacelineStore(self._address, self.timeout, self._connections)

        def _ask(self, operation, keys=(), content=b"", **fields):
            body, answer = self._connections.call({"operation": operation, "keys": list(keys), **fields}, content)
            outcome = body.get("outcome", "ok")
            if outcome == "timeout":
                raise timeout_error(
                    f"wait timeout after {fields['timeout_s'] * 1000:.0f}ms, keys: {', '.join(body['missing'])}"
                )
            if outcome != "ok":
                raise RuntimeError(f"paceline's store: {body.get('error') or outcome}")
            return body.get("number", 0), answer

        def set(self, key, value):
            self._ask("set", [key], _bytes(value))

        def get(self, key):
            return self._ask("get", [key], timeout_s=_seconds(self.timeout))[1]

        def add(self, key, amount):
            return self._ask("add", [key], amount=amount)[0]

        def compare_set(self, key, expected, desired):
            expected = _bytes(expected)
            return self._ask("compare_set", [key], expected + _bytes(desired), expected_size=len(expected))[1]

        def append(self, key, value):
            self._ask("append", [key], _bytes(value))

        def check(self, keys):
            return bool(self._ask("check", keys)[0])

        def wait(self, keys, timeout=None):
            self._ask("wait", keys, timeout_s=_seconds(self.timeout if timeout is None else timeout))

        def delete_key(self, key):
            return bool(self._ask("delete_key", [key])[0])

        def num_keys(self):
            return self._ask("num_keys")[0]

        # The names by which c10d asks for these three differ from those that Python programs use.
        compareSet, deleteKey, getNumKeys = compare_set, delete_key, num_keys

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return True

    return PacelineStore


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def _is_the_launchers():
    master = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    return "PACELINE_STORE" in os.environ and master == os.environ.get("PACELINE_MASTER")


def register(rendezvous):
    """Puts Paceline's rendezvous in front of that of the module torch.distributed.rendezvous."""
    handlers = rendezvous._rendezvous_handlers
    torchs = handlers["env"]

    def env(url, timeout=timedelta(minutes=30), **kwargs):
        if not _is_the_launchers():
            yield from torchs(url, timeout=timeout, **kwargs)
            return
        import torch.distributed as dist

        query = rendezvous._query_to_dict(rendezvous.urlparse(url).query)
        rank = int(query.get("rank", os.environ["RANK"]))
        world_size = int(query.get("world_size", os.environ["WORLD_SIZE"]))
        yield store_class(dist)(os.environ["PACELINE_STORE"], timeout), rank, world_size
        raise RuntimeError("the ranks have met already; paceline starts them again when one fails")

    handlers["env"] = env
