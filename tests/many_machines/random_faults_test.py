"""Rounds of faults that a seed draws: a run each, in which machines are cut off, stopped, killed and filled up.

PACELINE_TEST_ROUNDS says how many; PACELINE_TEST_FIRST_ROUND which is the first, to repeat one that has failed.
"""

import os
import random
import signal

from cluster import LEASE_S, PATIENCE_S, hold
from network import wait_until

ROUNDS = int(os.environ.get("PACELINE_TEST_ROUNDS", "4"))
FIRST_ROUND = int(os.environ.get("PACELINE_TEST_FIRST_ROUND", "1"))
GATES = (2, 4)
# The run is not over before all that has happened is known.
LAST_GATE = 5
STEPS = 6
# An agent that has nothing to do: itself, its guardian, and the process that has imported torch already.
IDLE_PROCESSES = 3


class Fault:
    """What happens to `machine` between begin() and heal()."""

    # The machine is lost, and comes back behind heal().
    loses = True
    # What the run's log says of its node where it costs an attempt though the machine is there; "" for what does not.
    says = ""
    # What costs nothing lasts so long; 0: until the next step has been made.
    seconds = 0

    def __init__(self, run, machine, generator):
        self.run, self.machine, self.generator = run, machine, generator
        self.agent = run.cluster.agents[machine.name]

    def heal(self):
        pass


class Unplugged(Fault):
    def begin(self):
        self.machine.unplug()

    def heal(self):
        self.machine.plug()


class UnpluggedBriefly(Unplugged):
    loses = False
    seconds = LEASE_S / 4


class InterfaceGone(Fault):
    def begin(self):
        self.machine.remove_interface()

    def heal(self):
        self.machine.connect_badly(self.generator.randrange(1000))


class HalfOpen(Fault):
    def begin(self):
        self.machine.spoil(**{self.generator.choice(["up", "down"]): {"loss": 1}})

    def heal(self):
        self.machine.spoil()


class BadNetwork(HalfOpen):
    loses = False

    def begin(self):
        bad = {"delay_ms": self.generator.choice([0, 5, 30]), "jitter_ms": self.generator.choice([0, 10])}
        bad |= {"loss": self.generator.choice([0, 0.02]), "repeat": self.generator.choice([0, 0.02])}
        self.machine.spoil(up=bad, down=bad)


class AgentKilled(Fault):
    def begin(self):
        self.agent.signal(signal.SIGKILL)

    def heal(self):
        wait_until(lambda: not self.machine.processes(), "all that the agent had started has ended")
        self.run.cluster.start_agents()


class AgentStopped(Fault):
    def begin(self):
        self.agent.signal(signal.SIGSTOP)

    def heal(self):
        self.agent.signal(signal.SIGCONT)


class MachineStopped(Fault):
    def begin(self):
        self.machine.pause()

    def heal(self):
        self.machine.resume()


class WorkerKilled(Fault):
    """Where there is none: nothing."""

    loses, says = False, "SIGKILL"

    def begin(self):
        last = self.run.reports[-1]
        for machine, process in zip(last["machines"], last["processes"]):
            if machine == self.machine.name:
                self.machine.run("sh", "-c", f"kill -KILL {process}")


class DiskFull(Fault):
    """Ends attempts while it lasts, where a worker is on the machine."""

    loses, says = False, "No space left on device"

    def begin(self):
        self.machine.fill_disk()

    def heal(self):
        self.machine.free_disk()


FAULTS = (
    Unplugged,
    UnpluggedBriefly,
    InterfaceGone,
    HalfOpen,
    BadNetwork,
    AgentKilled,
    AgentStopped,
    MachineStopped,
    WorkerKilled,
    DiskFull,
)


def suffer(run, gate, fault):
    """The fault falls between two steps, and is healed."""
    name = fault.machine.name
    costs = fault.says and name in run.reports[-1]["machines"]
    lost, blamed, ready = run.lost().count(name), run.count(name, fault.says), run.ready().count(name)
    fault.begin()
    run.open_gate(gate)
    if fault.loses:
        wait_until(lambda: run.lost().count(name) > lost, f"node {name} is lost", PATIENCE_S)
    elif costs:
        run.wait_blamed(name, fault.says, blamed + 1)
    elif fault.seconds:
        hold(fault.seconds)
    else:
        run.wait_for_step(gate)
    fault.heal()
    if fault.loses:
        wait_until(lambda: run.ready().count(name) > ready, f"the driver knows that {name} is back", PATIENCE_S)


def play(cluster, number, reference):
    generator = random.Random(number)
    run = cluster.begin(f"round_{number}", STEPS, (*GATES, LAST_GATE), nodes=len(cluster.machines))
    drawn = [(generator.choice(FAULTS), generator.choice(list(cluster.machines.values()))) for _ in GATES]
    print(f"round {number}:", ", ".join(f"{kind.__name__} {machine.name}" for kind, machine in drawn), flush=True)
    for gate, (kind, machine) in zip(GATES, drawn):
        run.wait_for_step(gate - 1)
        suffer(run, gate, kind(run, machine, generator))
    run.open_gate(LAST_GATE)
    run.finish()
    run.check(reference)
    assert len(run.reports) == STEPS
    lost = [machine.name for kind, machine in drawn if kind.loses]
    assert run.lost() == lost, "those nodes, and no others"
    assert all(run.count(name, "is lost") for name in lost), "and the log names them"
    for name, machine in cluster.machines.items():
        wait_until(lambda: len(machine.processes()) <= IDLE_PROCESSES, f"no worker is left on {name}")


def test_random_faults(make_cluster, reference):
    cluster = make_cluster(seed=FIRST_ROUND, keep=True)
    for number in range(FIRST_ROUND, FIRST_ROUND + ROUNDS):
        try:
            play(cluster, number, reference)
        except BaseException:
            print(f"PACELINE_TEST_FIRST_ROUND={number} PACELINE_TEST_ROUNDS=1 repeats round {number}")
            print(cluster.evidence())
            raise
    cluster.end_agents()
