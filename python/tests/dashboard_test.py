"""RunConfig(dashboard=True): the driver serves a dashboard of its own, which opens with what it prints and ends with it."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent(
    """
    import sys
    import threading

    import paceline.train as train
    from paceline.train.torch import TorchTrainer


    def loop():
        train.report({"loss": 0.5})
        if sys.argv[3:]:
            threading.Event().wait()


    def fit(name, workers):
        settings = train.RunConfig(storage_path=sys.argv[1], name=name, dashboard=True)
        scaling = train.ScalingConfig(num_workers=workers)
        TorchTrainer(loop, scaling_config=scaling, run_config=settings).fit()


    fit("first", int(sys.argv[2]))
    for name in ("second", "third"):
        fit(name, 1)
        print("fitted", flush=True)
        sys.stdin.readline()
    """
)


@pytest.fixture
def driver(tmp_path):
    """start(workers): the program, when its first two runs are over; and what it has printed. start(workers, "for ever"):
    when the first has begun."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    started = []

    def start(workers, *more):
        process = subprocess.Popen(
            [sys.executable, program, tmp_path / "results", str(workers), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PACELINE_STATE_DIR": str(tmp_path / "state")},
        )
        started.append(process)
        return process, printed_until(process, ADDRESS if more else "^fitted$")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def printed_until(process, pattern):
    printed = ""
    for line in process.stdout:
        printed += line
        if re.search(pattern, line):
            return printed
    raise AssertionError(f"it has ended: {printed}")


ADDRESS = r"dashboard: http://127\.0\.0\.1:(\d+)/#code=([0-9a-f]{32})/runs/([0-9a-f]{32})"


def asked(port, path, body=None, headers=None):
    """A connection that is kept, and the answer's status, cookie and text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET" if body is None else "POST", path, body=body, headers=headers or {})
    answer = connection.getresponse()
    return connection, answer.status, answer.getheader("Set-Cookie", "").partition(";")[0], answer.read()


@pytest.mark.parametrize("workers", [1, 0])
def test_it_serves_until_the_driver_dies(driver, workers):
    process, printed = driver(workers)
    first, second = re.findall(ADDRESS, printed)
    assert second[0] == first[0] and second[1] != first[1], "one serves both"
    port, code, run = int(first[0]), first[1], first[2]
    connection, status, cookie, text = asked(port, "/api/v1/session", json.dumps({"code": code}))
    assert status == 200, text
    opened = [asked(port, "/api/v1/session", json.dumps({"code": second[1]}))[1] for _ in range(2)]
    assert opened == [200, 401], "each address opens it, once"
    process.stdin.write("\n")
    process.stdin.flush()
    (third,) = re.findall(ADDRESS, printed_until(process, "^fitted$"))
    assert third[0] == first[0] and third[1] != code
    assert asked(port, "/api/v1/session", json.dumps({"code": third[1]}))[1] == 200, "each address opens it"
    _, status, _, text = asked(port, f"/api/v1/runs/{run}", headers={"Cookie": cookie})
    assert (status, json.loads(text)["state"]) == (200, "finished"), "also after the run has ended"
    log = (process.args[2] / "first" / "logs" / "controller.log").read_text()
    assert code not in log, "others may read it"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert connection.sock.recv(1) == b"", "the server has ended with its driver"
    with pytest.raises(ConnectionError):
        asked(port, "/healthz")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool: apt-get install prometheus")
def test_its_metrics_are_as_prometheus_wants_them(driver):
    """But for names and labels that are Ray's, whose dashboards look for them."""
    process, printed = driver(2, "for ever")
    port = int(re.findall(ADDRESS, printed)[0][0])
    token = (process.args[2].parent / "state" / "metrics_token").read_text().strip()
    text = b""
    while b"paceline_process_cpu_cores" not in text or b"ray_node_cpu_utilization" not in text:  # agents sample each second
        _, status, _, text = asked(port, "/metrics", headers={"Authorization": f"Bearer {token}"})
        assert status == 200, text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    lint = 3
    assert checked.returncode in (0, lint), checked.stderr
    assert b"paceline_" not in checked.stderr, checked.stderr
