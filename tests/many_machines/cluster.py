"""A driver and its agents, each on a machine of its own (network.py), and the runs that they make (driver_program.py)."""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

from network import HERE, Network, wait_until

import paceline

PROGRAM = pathlib.Path(paceline.__file__).parent / "bin/paceline"
PATIENCE_S = 120
# So long nobody hears of a machine before it counts as lost. Agents need a core now and then, which others may have.
LEASE_S = 4.0


class Cluster:
    """Agents "one", "two", … and a driver. With `seed` their cables can be bad (Machine.spoil)."""

    def __init__(self, folder, agents=("one", "two", "three"), seed=None, disk_bytes=256 << 20, keep=False):
        self.folder, self.keep = pathlib.Path(folder), keep
        self.network = Network(folder)
        self.driver_machine = self.network.add("driver")
        self.agents = {}
        self.environments = {}
        self._driver = None
        self._events = queue.Queue()
        for number, name in enumerate(agents):
            self.network.add(name, seed=seed and seed + number, disk_bytes=disk_bytes)

    @property
    def machines(self):
        """Of the agents, by name."""
        return {name: machine for name, machine in self.network.machines.items() if machine is not self.driver_machine}

    def environment(self, **more):
        disk = str(self.network.disk)
        return os.environ | {"TMPDIR": disk, "PACELINE_STATE_DIR": disk + "/state", "XDG_RUNTIME_DIR": disk} | more

    def start_agents(self):
        """Where there is none."""
        for name, machine in self.machines.items():
            if name in self.agents and self.agents[name].is_running():
                continue
            with open(self.folder / f"agent_{name}.log", "a") as log:
                self.agents[name] = machine.start(
                    [PROGRAM, "agent", "--token-file", self.folder / "token"] + ["--keep"] * self.keep,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.environment(**self.environments.get(name, {})),
                )

    def end_agents(self):
        """In order, by a signal; nothing of theirs is left then."""
        for agent in self.agents.values():
            agent.signal(signal.SIGTERM)
        for name, agent in self.agents.items():
            agent.wait(PATIENCE_S)
            assert self.machines[name].processes() == {}, f"left on {name} by its agent"

    def agent_log(self, name):
        return (self.folder / f"agent_{name}.log").read_text()

    def start_driver(self):
        log = open(self.folder / "driver.log", "a")
        self._driver = self.driver_machine.start(
            [sys.executable, "-B", HERE / "driver_program.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=self.environment(),
        )
        log.close()
        threading.Thread(target=self._read, args=(self._driver.process.stdout,), daemon=True).start()
        assert self.next_event()["kind"] == "ready"

    def kill_driver(self):
        self._driver.signal(signal.SIGKILL)

    def _read(self, stream):
        with contextlib.suppress(ValueError):  # it was closed
            for line in stream:
                self._events.put(json.loads(line))
        self._events.put({"kind": "gone"})

    def next_event(self):
        try:
            event = self._events.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError(f"nothing more from the driver; {self.evidence()}") from None
        assert event["kind"] != "gone", f"the driver has ended; {self.evidence()}"
        return event

    def evidence(self):
        """What everybody has written last, for a failing test."""
        logs = sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*/logs/controller.log"))
        return "\n".join(f"--- {log}\n{log.read_text()[-3000:]}" for log in logs)

    def begin(self, name="run", steps=6, gates=(), nodes=None, work_folder=None, debug=None, **failure):
        """A run on agents; `nodes` None: on the driver's own machine. Workers write in `work_folder`, by default on the
        disks of their machines."""
        if self._driver is None:
            self.start_driver()
        scaling = {"placement_strategy": "SPREAD"}
        if nodes is not None:
            scaling |= {"engine": "agents", "nodes": nodes, "token_file": str(self.folder / "token")}
            scaling["listen"] = f"{self.driver_machine.address}:0"
        run = Run(self, name, gates)
        settings = {
            "name": name,
            "folder": str(self.folder),
            "work_folder": str(work_folder or self.network.disk),
            "steps": steps,
            "gates": list(gates),
            "scaling": scaling,
            "debug": debug or {},
            "failure": {"max_failures": -1, "node_timeout_s": LEASE_S, "start_timeout_s": PATIENCE_S, **failure},
        }
        self._driver.process.stdin.write(json.dumps(settings) + "\n")
        self._driver.process.stdin.flush()
        return run

    def close(self):
        self.network.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Run:
    """One run of a cluster's driver, as far as it has been followed."""

    def __init__(self, cluster, name, gates):
        self.cluster, self.name, self.folder = cluster, name, cluster.folder / name
        self.reports = []
        self.end = None
        for step in gates:
            (cluster.folder / f"gate_{step}").unlink(missing_ok=True)

    def _follow(self):
        event = self.cluster.next_event()
        self.reports.append(event) if event["kind"] == "report" else setattr(self, "end", event)

    def wait_for_step(self, step):
        """Follows the run until its latest report is that step's; gives the machines of its ranks."""
        while not self.reports or self.reports[-1]["step"] != step:
            assert self.end is None, f"the run has ended before step {step}: {self.end}"
            self._follow()
        return self.reports[-1]["machines"]

    def open_gate(self, step):
        (self.cluster.folder / f"gate_{step}").touch()

    def finish(self):
        """Follows the run to its end, which is a good one."""
        self.follow_to_end()
        assert self.end["error"] == "", self.end["error"] + self.cluster.evidence()

    def follow_to_end(self):
        while self.end is None:
            self._follow()
        return self.end

    @property
    def attempts(self):
        """By number of those that have reported, their reports."""
        attempts = {}
        for report in self.reports:
            attempts.setdefault(report["attempt"], []).append(report)
        return attempts

    def log(self):
        log = self.folder / "logs/controller.log"
        return log.read_text() if log.exists() else ""

    def lost(self):
        """Names of the nodes that the run has lost, in that order."""
        return [event["node"] for event in self.events() if event["event"] == "node_lost"]

    def ready(self):
        """Names of the nodes whose agents have announced themselves, in that order."""
        return [event["node"]["name"] for event in self.events() if event["event"] == "node_ready"]

    def events(self):
        # The last line may be half written.
        return map(json.loads, (self.folder / "journal.jsonl").read_text().rpartition("\n")[0].splitlines())

    def count(self, node, text):
        """Lines of the run's log that blame this node for that."""
        return sum(f"node {node}" in line and text in line for line in self.log().splitlines())

    def wait_blamed(self, node, text, times=1):
        wait_until(lambda: self.count(node, text) >= times, f"node {node} is blamed: {text}", PATIENCE_S)

    def check(self, reference):
        """Every step's weights are those of `reference`, nothing that was committed is gone or was done again, and every
        checkpoint is whole."""
        steps = [report["step"] for report in self.reports]
        assert steps == list(range(len(steps))), "each step is reported once: an attempt begins behind the last that was"
        assert [report["weights"] for report in self.reports] == reference[: len(steps)], "bit for bit"
        for report in self.reports:
            checkpoint = pathlib.Path(report["checkpoint"])
            assert {path.name for path in checkpoint.glob("[mr]*.*")} >= {"model.pt", "rank_0.json", "rank_1.json"}
            for rank in (0, 1):
                assert json.loads((checkpoint / f"rank_{rank}.json").read_text()) == {"step": report["step"]}
            verified = subprocess.run([PROGRAM, "checkpoint", "verify", checkpoint], capture_output=True, text=True)
            assert verified.returncode == 0, verified.stdout + verified.stderr


def hold(seconds):
    """A fault lasts: the time is what is tested."""
    time.sleep(seconds)
