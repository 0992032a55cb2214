"""One dashboard, beside the driver, shows and profiles the ranks of all machines."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from cluster import PATIENCE_S, PROGRAM
from network import wait_until

# ask(): prints what the dashboard answers; it listens at the loopback of the driver's machine only.
CLIENT = """
import sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], sys.argv[3].encode() or None, {"Cookie": sys.argv[2], "X-Paceline": "1"})
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as problem:
    answer = problem
print(answer.status, answer.headers.get("Set-Cookie", "").partition(";")[0], answer.read().decode(), sep="\\n")
"""


class Dashboard:
    def __init__(self, cluster):
        self.machine = cluster.driver_machine
        command = [PROGRAM, "dashboard", "--port", "0", "--storage-path", cluster.folder]
        self.process = self.machine.start(command, stdout=subprocess.PIPE, text=True, env=cluster.environment())
        lines = iter(self.process.process.stdout.readline, "")
        self.url, code = next(filter(None, (re.search(r"(http://\S+)/#code=(\w+)", line) for line in lines))).groups()
        self.cookie = ""
        self.cookie, _ = self._ask("session", {"code": code})
        _, found = self._ask("runs")
        self.run = f"runs/{found['runs'][0]['id']}"

    def _ask(self, path, body=None):
        said = self.machine.run(
            sys.executable, "-SE", "-c", CLIENT, f"{self.url}/api/v1/{path}", self.cookie, json.dumps(body) if body else ""
        )
        status, cookie, text = said.split("\n", 2)
        assert status == "200", text
        return cookie, json.loads(text)

    def of_run(self, path, body=None):
        return self._ask(f"{self.run}/{path}" if path else self.run, body)[1]

    def act(self, action, **more):
        return self.of_run("actions", {"action": action, **more})


def test_all_machines_are_shown_and_profiled(make_cluster):
    cluster = make_cluster(agents=("one", "two"))
    run = cluster.begin(gates=[3], nodes=2)
    machines = run.wait_for_step(2)
    assert sorted(machines) == ["one", "two"]
    dashboard = Dashboard(cluster)

    workers = dashboard.of_run("")["workers"]
    assert {worker["rank"]: worker["node"] for worker in workers} == dict(enumerate(machines))

    def sampled():
        nodes = dashboard.of_run("nodes")["nodes"]
        return nodes if len(nodes) == 2 and all(node.get("sample") for node in nodes) else None

    nodes = wait_until(sampled, "both agents have sampled their machines", PATIENCE_S)
    assert sorted(node["name"] for node in nodes) == ["one", "two"]
    for name in machines:
        samples = dashboard.of_run(f"samples?node={name}&names=memory/used,cpu/")
        assert samples["time"], f"what {name} did over time"

    # Each waits at the gate, in time.sleep().
    stacks = dashboard.act("stacks")["workers"]
    assert sorted(worker["rank"] for worker in stacks) == [0, 1]
    assert all("trains" in json.dumps(worker) for worker in stacks), json.dumps(stacks)
    for kind in ("off_cpu", "memory"):
        profile = dashboard.act("profile", kind=kind, seconds=1)["profile"]
        assert profile["problems"] == [] and sorted(profile["ranks"]) == [0, 1], f"{kind}: {profile}"

    logs = dashboard.of_run("logs")["streams"]
    assert {log["rank"] for log in logs if log["kind"] == "worker"} == {0, 1}

    run.open_gate(3)
    run.finish()
    assert dashboard.of_run("")["state"] == "finished"
    assert {worker["node"] for worker in dashboard.of_run("")["workers"]} == {"one", "two"}, "history has them"
    dashboard.process.signal(signal.SIGTERM)
    assert dashboard.process.wait() in (0, 143, -15)


def test_the_whole_heap_of_ranks_on_all_machines(make_cluster):
    cluster = make_cluster(agents=("one", "two"))
    run = cluster.begin(gates=[3], nodes=2, debug={"heap_profile": True})
    run.wait_for_step(2)
    dashboard = Dashboard(cluster)
    profile = dashboard.act("profile", kind="memory", seconds=1)["profile"]
    assert profile["problems"] == [] and sorted(profile["ranks"]) == [0, 1], profile
    graph = dashboard.of_run(f"profiles/{profile['name']}")
    assert [process["ways"] for process in graph["processes"]] == [["jemalloc"]] * 2
    assert all(sum(thread["counts"]) > 1 << 20 for thread in graph["threads"]), "each has LibTorch"
    run.open_gate(3)
    run.finish()
    dashboard.process.signal(signal.SIGTERM)
    dashboard.process.wait()
