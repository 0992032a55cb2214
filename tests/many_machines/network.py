"""Machines of a test: namespaces on one computer, joined by a switch, and what can go wrong on the way between them.

    with Network(folder) as network:
        one = network.add("one")
        with one.start(["ping", network.add("two").address]) as ping: ...
        one.unplug()

A machine has a network interface, host name, process ids and a disk (Network.disk) of its own. Everything else of the
file system is this computer's: a folder that all machines share. No machine reaches this computer's network, so names and
addresses are the same in every test.

Whatever happens, nothing is left: a machine's first process ends with the descriptor that its test holds, and then the
kernel ends all its processes and takes back its interfaces and mounts.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("ip", "mount", "nsenter", "unshare")


def missing():
    """Why there can be no machines here; "" where there can."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"network namespaces need the programs {', '.join(absent)} (Debian: iproute2, util-linux)"
    if not os.path.exists("/dev/net/tun"):
        return "cables that can be bad need /dev/net/tun"
    command = ["unshare", "--net", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    tried = subprocess.run(command, capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no namespaces can be made here: {tried.stderr.strip()}"


def wait_until(condition, what, timeout_s=60):
    """Looks at `condition` until it is true; gives what it gave."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.02)
    return value


def only_child(pid):
    """The process that `pid`, unshare or nsenter, has forked to be in the namespace; None while there is none."""
    with contextlib.suppress(FileNotFoundError):
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None


class Started:
    """A program that runs on a machine; killed behind its `with`."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, **options)
        self.pid = wait_until(
            lambda: only_child(self.process.pid) or (self.process.poll() is not None and -1), "a program starts"
        )

    def signal(self, number):
        # nsenter stops with what it has started, and does not go on with it.
        for pid in (self.pid, self.process.pid) if number == signal.SIGCONT else (self.pid,):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def is_running(self):
        return self.process.poll() is None

    def wait(self, timeout_s=60):
        """Its exit code, -N for signal N."""
        return self.process.wait(timeout_s)

    def end(self):
        if self.is_running():
            self.signal(signal.SIGKILL)
            self.signal(signal.SIGCONT)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Machine:
    """One of Network.add()'s."""

    def __init__(self, network, name, number, disk_bytes):
        self.name, self.network = name, network
        self.address = f"10.77.0.{number}"
        self._port = f"port{number}"
        self._cable = None
        self._started = []
        self._first = subprocess.Popen(
            ["unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
            + [sys.executable, "-SE", HERE / "first_process.py", name, network.disk, str(disk_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._first.stdout.readline() == "ready\n", f"machine {name} did not start; see above"
        self.pid = only_child(self._first.pid)
        self._namespace = os.readlink(f"/proc/{self.pid}/ns/pid")

    # What runs on it.

    def inside(self, command):
        """`command`, to be executed here, as one that is executed there."""
        return ["nsenter", f"--target={self.pid}", "--net", "--uts", "--mount", "--pid", *self._with_folder(command)]

    def _with_folder(self, command):
        return ["env", f"--chdir={self.network.folder}", *map(str, command)]

    def start(self, command, **options):
        """A program there, with the network's folder as its working directory; `options` are Popen's."""
        started = Started(self.inside(command), **options)
        self._started.append(started)
        return started

    def run(self, *command):
        """What a command writes there."""
        ended = subprocess.run(self.inside(command), capture_output=True, text=True)
        assert ended.returncode == 0, f"{command} on {self.name}: {ended.stderr}"
        return ended.stdout

    def processes(self):
        """Their ids and command lines, but for the first and those that have ended."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if os.readlink(entry / "ns/pid") == self._namespace and state not in "ZX":
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ").strip()
        return found

    def pause(self):
        """Everything on it stands still."""
        stopped = set()
        while more := set(self.processes()) - stopped:
            self._signal_all(more, signal.SIGSTOP)
            stopped |= more

    def resume(self):
        self._signal_all(set(self.processes()) | {one.process.pid for one in self._started}, signal.SIGCONT)

    @staticmethod
    def _signal_all(pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    # Its disk.

    def fill_disk(self):
        """Nothing more can be written there."""
        self.run("sh", "-c", f"! cat /dev/zero 2>&- >{self.network.disk}/filling")

    def free_disk(self):
        self.run("rm", f"{self.network.disk}/filling")

    # Its network.

    def connect(self):
        """Gives it a network interface, by a cable that does not fail."""
        self.network.ip("link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        self._join()

    def connect_badly(self, seed):
        """Gives it a network interface, by a cable that spoil() makes bad."""
        self._cable = subprocess.Popen(
            self.network.switch.inside([sys.executable, "-SE", HERE / "cable.py", "machine_end", self._port, str(seed)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._cable.stdout.readline() == "ready\n", f"the cable of {self.name} was not made; see above"
        self.network.ip("link", "set", "machine_end", "name", "eth0", "netns", str(self.pid))
        self._join()

    def _join(self):
        self.network.ip("link", "set", self._port, "master", "bridge", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def spoil(self, up=None, down=None):
        """What becomes of frames from it, and to it (cable.py); nothing bad where nothing is said."""
        self._cable.stdin.write(json.dumps({"up": up or {}, "down": down or {}}) + "\n")
        self._cable.stdin.flush()

    def unplug(self):
        """The cable is out of the switch."""
        self.network.ip("link", "set", self._port, "down")

    def plug(self):
        self.network.ip("link", "set", self._port, "up")

    def remove_interface(self):
        """The network interface is gone for good, and its address with it."""
        self.run("ip", "link", "delete", "eth0")
        self._end_cable()

    def _end_cable(self):
        if cable := self._cable:
            self._cable = None
            cable.communicate("")

    def close(self):
        self._first.communicate("")  # with it go all the others
        self._end_cable()
        for started in self._started:
            started.end()


class Network:
    """A switch, and the machines at it. `folder`: what they share, and where they find their own disks."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.machines = {}
        self.switch = Machine(self, "switch", 0, 1 << 20)
        self.ip("link", "add", "bridge", "type", "bridge")
        self.ip("link", "set", "bridge", "up")

    def ip(self, *arguments):
        """Executes `ip` at the switch, with the process ids of this computer."""
        command = ["nsenter", f"--target={self.switch.pid}", "--net", "ip", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 0, f"{arguments} at the switch: {ended.stderr}"

    def add(self, name, seed=None, disk_bytes=256 << 20):
        """A machine that is connected; by a cable that can be bad where there is a seed for it."""
        machine = Machine(self, name, len(self.machines) + 1, disk_bytes)
        self.machines[name] = machine
        machine.connect() if seed is None else machine.connect_badly(seed)
        return machine

    def close(self):
        for machine in self.machines.values():
            machine.close()
        self.switch.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
