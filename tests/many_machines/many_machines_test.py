"""Training on several machines whose network, disks, clocks and processes fail: same weights, nothing lost, nothing left.

Each fault falls between two steps: the ranks wait at a gate (driver_program.py) until it is there.
"""

import os
import signal
import time

import pytest
from cluster import LEASE_S, PATIENCE_S, hold
from conftest import STEPS
from network import wait_until

# Well within the lease, and longer than a connection of TCP waits before it sends again.
SHORT_S = LEASE_S / 4
# How much later than the lease an agent has ended its workers, on a machine that does other things too.
SLACK_S = 10


def begin_faulty(cluster, steps=STEPS, **settings):
    """A run that waits before step 3, with a committed checkpoint of step 2; and the machines of its ranks."""
    run = cluster.begin(steps=steps, gates=[3], **{"nodes": len(cluster.machines), **settings})
    machines = run.wait_for_step(2)
    return run, [cluster.machines[name] for name in machines]


def check_loss(cluster, run, reference, lost):
    """The run went on without `lost`, which was named, and only that."""
    run.finish()
    run.check(reference)
    assert run.lost() == [lost.name]
    first, *_, last = run.attempts.values()
    assert [report["step"] for report in first] == [0, 1, 2]
    assert lost.name not in last[-1]["machines"] and len(run.reports) == STEPS


def check_no_loss(run, reference):
    run.finish()
    run.check(reference)
    assert list(run.attempts) == [1] and run.lost() == [] and len(run.reports) == STEPS


def listening_addresses(machine):
    """Of TCP sockets there; as the kernel writes them, of IPv4 also where the socket is one of IPv6."""
    tables = [f"/proc/{machine.pid}/net/{name}" for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in open(table).readlines()[1:]]
    return {row[1].split(":")[0].removeprefix("0000000000000000FFFF0000") for row in rows if row[3] == "0A"}


def packets_on_loopback(machine):
    row = next(line for line in open(f"/proc/{machine.pid}/net/dev") if line.strip().startswith("lo:"))
    return int(row.split()[2])


def test_two_machines_compute_what_one_does(make_cluster, reference):
    cluster = make_cluster(agents=("one", "two"))
    run, machines = begin_faulty(cluster)
    assert {machine.name for machine in machines} == {"one", "two"}
    for machine in cluster.network.machines.values():
        address = "".join(f"{int(part):02X}" for part in reversed(machine.address.split(".")))
        assert listening_addresses(machine) <= {address}, f"{machine.name} listens where nobody chose"
        assert packets_on_loopback(machine) == 0, f"{machine.name} talks to itself over the network"
    run.open_gate(3)
    check_no_loss(run, reference)
    for agent in cluster.agents.values():
        assert agent.wait(PATIENCE_S) == 0
    assert [machine.processes() for machine in machines] == [{}, {}]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_partition_longer_than_the_lease_costs_an_attempt(make_cluster, reference, rank):
    cluster = make_cluster()
    run, machines = begin_faulty(cluster)
    lost = machines[rank]
    lost.unplug()
    began = time.monotonic()
    run.open_gate(3)
    wait_until(lambda: not lost.processes(), f"the workers on {lost.name} and their agent have ended", LEASE_S + SLACK_S)
    assert time.monotonic() - began > LEASE_S / 2, "its agent had hoped"
    check_loss(cluster, run, reference, lost)
    assert cluster.agents[lost.name].wait() == 75
    assert "nothing was heard from the controller of run" in cluster.agent_log(lost.name)


def test_a_partition_shorter_than_the_lease_costs_nothing(make_cluster, reference):
    cluster = make_cluster()
    run, machines = begin_faulty(cluster)
    for machine in machines:
        machine.unplug()
    run.open_gate(3)
    hold(SHORT_S)
    for machine in machines:
        machine.plug()
    check_no_loss(run, reference)


def test_a_driver_that_is_cut_off_takes_all_workers_with_it(make_cluster, reference):
    cluster = make_cluster()
    run, _ = begin_faulty(cluster)
    cluster.driver_machine.unplug()
    run.open_gate(3)
    for name, machine in cluster.machines.items():
        wait_until(lambda: not machine.processes(), f"everything on {name} has ended", LEASE_S + SLACK_S)
        assert cluster.agents[name].wait() == 75
    cluster.driver_machine.plug()
    cluster.start_agents()
    run.finish()
    run.check(reference)


def test_a_driver_that_dies_takes_all_workers_with_it(make_cluster):
    cluster = make_cluster()
    begin_faulty(cluster)
    cluster.kill_driver()
    for name, machine in cluster.machines.items():
        wait_until(lambda: not machine.processes(), f"everything on {name} has ended", LEASE_S + SLACK_S)
        assert cluster.agents[name].wait() == 75


@pytest.mark.parametrize("kind", ["slow", "lossy", "out_of_order"])
def test_a_bad_network_changes_nothing(make_cluster, reference, kind):
    cluster = make_cluster(agents=("one", "two"), seed=1)
    bad = {
        "slow": {"delay_ms": 50},
        "lossy": {"loss": 0.02, "repeat": 0.02},
        "out_of_order": {"delay_ms": 2, "jitter_ms": 10},
    }[kind]
    for machine in cluster.machines.values():
        machine.spoil(up=bad, down=bad)
    run, _ = begin_faulty(cluster)
    run.open_gate(3)
    check_no_loss(run, reference)


def test_a_network_interface_that_goes_costs_an_attempt(make_cluster, reference):
    cluster = make_cluster()
    run, machines = begin_faulty(cluster)
    machines[1].remove_interface()
    run.open_gate(3)
    check_loss(cluster, run, reference, machines[1])
    wait_until(lambda: not machines[1].processes(), "everything there has ended", SLACK_S)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_connection_that_is_half_open_is_found(make_cluster, reference, direction):
    cluster = make_cluster(seed=1)
    run, machines = begin_faulty(cluster)
    machines[1].spoil(**{direction: {"loss": 1}})
    run.open_gate(3)
    check_loss(cluster, run, reference, machines[1])
    wait_until(lambda: not machines[1].processes(), "everything there has ended", LEASE_S + SLACK_S)


def test_clocks_that_differ_by_hours_change_nothing(make_cluster, reference):
    hours = {"one": 7, "two": -7}
    cluster = make_cluster(agents=())
    for name, fast in hours.items():
        cluster.network.add(name)
        cluster.environments[name] = {"LD_PRELOAD": os.environ["OTHER_CLOCK"], "PACELINE_TEST_CLOCK": str(3600 * fast)}
        clock = cluster.environment(**cluster.environments[name])
        with cluster.machines[name].start(["date", "+%s"], stdout=-1, env=clock) as date:
            assert abs(int(date.process.stdout.read()) - time.time() - 3600 * fast) < 60
    cluster.start_agents()
    run, _ = begin_faulty(cluster)
    run.open_gate(3)
    check_no_loss(run, reference)


def test_a_full_disk_is_named(make_cluster, reference):
    cluster = make_cluster()
    run, machines = begin_faulty(cluster, max_failures=0)
    machines[1].fill_disk()
    run.open_gate(3)
    error = run.follow_to_end()["error"]
    assert f"ank 1 of 2 on node {machines[1].name} failed" in error and "No space left on device" in error
    run.check(reference)


def test_a_disk_that_was_full_costs_attempts_until_it_has_room(make_cluster, reference):
    cluster = make_cluster()
    run, machines = begin_faulty(cluster)
    machines[0].fill_disk()
    run.open_gate(3)
    run.wait_blamed(machines[0].name, "No space left on device")
    machines[0].free_disk()
    run.finish()
    run.check(reference)
    assert len(run.attempts) == 2 and run.lost() == []


def test_agents_need_no_disk(make_cluster, reference):
    cluster = make_cluster()
    for machine in cluster.machines.values():
        machine.fill_disk()
    run, _ = begin_faulty(cluster, work_folder=cluster.folder)
    run.open_gate(3)
    check_no_loss(run, reference)


@pytest.mark.parametrize("what", ["agent", "machine"])
def test_who_stood_still_for_longer_than_the_lease_does_nothing_for_the_run_any_more(make_cluster, reference, what):
    cluster = make_cluster()
    run, machines = begin_faulty(cluster)
    late = machines[1]
    agent = cluster.agents[late.name]
    agent.signal(signal.SIGSTOP) if what == "agent" else late.pause()
    run.open_gate(3)
    run.wait_blamed(late.name, "is lost")
    run.wait_for_step(4)
    agent.signal(signal.SIGCONT) if what == "agent" else late.resume()
    wait_until(lambda: not late.processes(), f"everything on {late.name} has ended", SLACK_S)
    assert agent.wait() == 75
    check_loss(cluster, run, reference, late)
    assert not list((run.folder / ".staging").glob("*")), "what it has written meanwhile belongs to nobody"
