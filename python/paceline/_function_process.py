"""Processes that call functions of datasets, and the one that they are forked from.

paceline.data._processes starts that one: a fork server, which imports what functions need, has one thread, and forks a
process when it is asked to (paceline/data/function/forked_processes.h). It ends when its connection does, and with it all
that it has forked; so nothing is left of them, however the program has ended. A process calls functions until its own
connection ends (paceline/data/function/function_messages.h).

LibTorch is not loaded here unless a function needs it.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import importlib.util
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import types
from typing import Any, Dict, List, NamedTuple, Optional

_HEADER = struct.Struct("<4sIQB3x")  # of a frame (paceline/rpc/frame.h)
_GRACE_S = 5.0  # for a process that nobody needs any more, to end by itself
_STOPPED_GRACE_S = 1.0  # for a process that somebody has stopped, to go on
_LAST_GRACE_S = 1.0  # when the program has ended
_PR_SET_PDEATHSIG = 1


class Message(NamedTuple):
    kind: str
    body: Dict[str, Any]
    data: bytes
    descriptors: List[int]


class Connection:
    """Frames over a Unix socket."""

    def __init__(self, descriptor: int):
        self.socket = socket.socket(fileno=descriptor)
        self._sent = 0

    def receive(self) -> Optional[Message]:
        """None when the other side has closed."""
        descriptors: List[int] = []
        header = b""
        while len(header) < _HEADER.size:
            try:
                part, more, _, _ = socket.recv_fds(self.socket, _HEADER.size - len(header), 16, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:  # it has closed before it had read all
                return None
            if not part:
                return None
            header, descriptors = header + part, descriptors + more
        magic, head_size, data_size, count = _HEADER.unpack(header)
        if magic != b"PCL1" or count != len(descriptors):
            raise OSError("what has come is no message of Paceline's")
        head = json.loads(self._exactly(head_size))
        return Message(head["type"], head["body"], self._exactly(data_size), descriptors)

    def send(self, kind: str, body: Dict[str, Any], data: bytes = b"", descriptors: List[int] = []) -> None:
        self._sent += 1
        head = json.dumps({"type": kind, "version": [1, 0], "sequence": self._sent, "body": body}).encode()
        frame = _HEADER.pack(b"PCL1", len(head), len(data), len(descriptors)) + head + data
        sent = socket.send_fds(self.socket, [frame], descriptors) if descriptors else 0
        self.socket.sendall(memoryview(frame)[sent:])

    def _exactly(self, size):
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise EOFError("the connection broke off in the middle of a message")
            view = view[got:]
        return bytes(data)


class _Child(NamedTuple):
    pidfd: int
    status: int  # where to write how it has ended


class _Server:
    def __init__(self, connection: Connection):
        self._connection = connection
        self._children: Dict[int, _Child] = {}
        self._deadlines: Dict[int, float] = {}  # of children that are to end by themselves
        self._stopped: Dict[int, float] = {}  # deadlines of children that are stopped
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection.socket, selectors.EVENT_READ)
        self._signals, wakes = socket.socketpair()
        self._wakes = wakes
        for end in (self._signals, wakes):
            end.setblocking(False)
        self._selector.register(self._signals, selectors.EVENT_READ)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> Optional[Connection]:
        """Returns in each process that it forks, with its connection; None at the end of the server."""
        while True:
            for key, _ in self._selector.select(self._patience()):
                if key.data is not None:
                    self._reap(key.data)
                    continue
                if key.fileobj is self._signals:
                    self._signals.recv(4096)
                    self._look_for_stopped()
                    continue
                message = self._connection.receive()
                if message is None:
                    return self._end()
                if message.kind == "end" and message.body["pid"] in self._children:
                    self._deadlines[message.body["pid"]] = time.monotonic() + _GRACE_S
                if message.kind == "fork" and (forked := self._fork(message.body["variables"])):
                    return forked
            for deadlines in (self._deadlines, self._stopped):
                for pid in [pid for pid, deadline in deadlines.items() if deadline <= time.monotonic()]:
                    del deadlines[pid]
                    if deadlines is self._stopped:
                        print(f"paceline: process {pid}, which calls functions of a dataset, is stopped, so it is ended, "
                              "and another one makes its block", file=sys.stderr, flush=True)
                    _kill(pid)

    def _patience(self):
        deadlines = [*self._deadlines.values(), *self._stopped.values()]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _look_for_stopped(self):
        for pid in self._children:
            with contextlib.suppress(ChildProcessError):  # for Linux one that has ended is no child for this question
                while news := os.waitid(os.P_PID, pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG):
                    if news.si_code == os.CLD_STOPPED:
                        self._stopped[pid] = time.monotonic() + _STOPPED_GRACE_S
                    else:
                        self._stopped.pop(pid, None)

    def _fork(self, variables):
        ours, its = socket.socketpair()
        status_read, status_write = os.pipe()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._connection.send("forked", {"error": str(error)})
            return None
        if pid == 0:
            self._become_process(parent)
            for descriptor in (ours.fileno(), status_read, status_write):
                os.close(descriptor)
            ours.detach()
            os.environ.update(variables)
            return Connection(its.detach())
        os.setpgid(pid, pid)
        child = _Child(os.pidfd_open(pid), status_write)
        self._children[pid] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, pid)
        self._connection.send("forked", {"pid": pid}, descriptors=[ours.fileno(), child.pidfd, status_read])
        ours.close()
        its.close()
        os.close(status_read)
        return None

    def _become_process(self, parent):
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for end in (self._connection.socket, self._signals, self._wakes):
            end.close()
        for child in self._children.values():
            os.close(child.pidfd)
            os.close(child.status)

    def _reap(self, pid):
        child = self._children.pop(pid)
        self._deadlines.pop(pid, None)
        self._stopped.pop(pid, None)
        _kill(pid)  # what it has left in its group; its number is its own until it has been waited for
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        try:
            os.write(child.status, struct.pack("=i", status))
        except BrokenPipeError:
            pass  # nobody wants to know
        os.close(child.status)

    def _end(self):
        """Processes that wait for a call have seen the end, too; one that is in a function is killed."""
        self._selector.unregister(self._connection.socket)
        self._selector.unregister(self._signals)
        deadline = time.monotonic() + _LAST_GRACE_S
        while self._children and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._reap(key.data)
        for pid in list(self._children):
            _kill(pid)
            self._reap(pid)


def _kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class _Package(types.ModuleType):
    """paceline.data as far as functions need it: its private modules alone, until somebody uses what is public, which
    loads LibTorch."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = types.ModuleType
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _put_package_in_place():
    spec = importlib.util.find_spec("paceline.data")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__class__ = _Package
    sys.modules["paceline.data"] = module
    sys.modules["paceline"].data = module


def main(descriptor: int, modules: List[str], without: List[str]) -> None:
    """Serves over the connection. `modules`: what functions use. One that starts threads or opens a GPU when it is
    imported is left to the processes, since such a process cannot be forked: then this one begins again, `without`."""
    from paceline import _main_module, _warm

    _main_module.take_place()
    _put_package_in_place()
    importlib.import_module("paceline.data._calls")
    for name in modules:
        if name in sys.modules or name.partition(".")[0] in without:
            continue
        try:
            importlib.import_module(name)
        except BaseException:
            pass  # whoever needs it will say why
        if _warm._threads() > 1 or _warm._has_opened_a_gpu():
            os.set_inheritable(descriptor, True)
            begin = [sys.executable, "-c", BOOT, json.dumps([sys.path, sys.argv]), str(descriptor)]
            os.execv(sys.executable, [*begin, json.dumps(modules), json.dumps([*without, name.partition(".")[0]])])
    os.set_inheritable(descriptor, False)
    gc.collect()
    gc.freeze()  # processes share it
    gc.enable()
    forked = _Server(Connection(descriptor)).run()
    if forked is not None:
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR2)  # FunctionProcess::show_stack()
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        importlib.import_module("paceline.data._calls").serve(forked)


# The program: with the sys.path and the sys.argv of the one that started it.
BOOT = """import json, sys
sys.path[:], argv = json.loads(sys.argv[1])
descriptor, modules, without = (json.loads(text) for text in sys.argv[2:5])
sys.argv[:] = argv
from paceline import _function_process
_function_process.main(descriptor, modules, without)"""
