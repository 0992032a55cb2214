"""`paceline run --engine ray` and what it asks a cluster: a server of the test's own that answers as Ray's dashboard does.

python/tests/full/ray_cluster_test.py has a real one.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import json
import os
import signal
import subprocess
import threading
import zipfile

import pytest

PROGRAM = os.environ["PACELINE_PROGRAM"]


class Cluster(http.server.ThreadingHTTPServer):
    """Ray's Jobs interface as far as it is used, in memory. Jobs do what `script` says: (status, log, exit code), one for
    each time that somebody asks; the last stays.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.packages, self.jobs, self.requests, self.stopped = {}, {}, [], []
        self.script = [("SUCCEEDED", "", 0)]
        self.failures = {}  # codes of the next answers, by a part of the path
        self.wanted_headers = {}
        self.tails, self.followed = [], 0  # what WebSockets send, one after the other
        self.seen = threading.Condition()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def wait_for(self, what):
        with self.seen:
            assert self.seen.wait_for(what, 60)


FAILURE = b"Traceback (most recent call last):\n  File x\nValueError: told to fail\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer()

    do_PUT = do_POST = do_GET

    def _answer(self):
        server = self.server
        if server.tails and self.path.endswith("/logs/tail"):
            return self._follow(server.tails.pop(0))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with server.seen:
            server.requests.append((self.command, self.path, dict(self.headers)))
            for part, codes in server.failures.items():
                if part in self.path and codes:
                    code = codes.pop(0)
                    return self._send(*(code if isinstance(code, tuple) else (code, FAILURE)))
            if any(self.headers.get(name) != value for name, value in server.wanted_headers.items()):
                return self._send(401, b"Unauthorized: Missing authentication token")
            code, answer = self._act(self.path.strip("/").split("/")[1:], body)
            server.seen.notify_all()
        self._send(code, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def _act(self, path, body):
        server = self.server
        if path == ["version"]:
            return 200, {"version": "4", "ray_version": "2.60.0"}
        if path[0] == "packages":
            if self.command == "PUT":
                server.packages[path[2]] = body
            return (200, b"") if path[2] in server.packages else (404, b"Package does not exist")
        if path == ["jobs"]:
            request = json.loads(body)
            server.jobs[request["submission_id"]] = request
            return 200, {"submission_id": request["submission_id"], "job_id": request["submission_id"]}
        if path[1] not in server.jobs:
            return 404, b"Job does not exist"
        if path[2:] == ["stop"]:
            server.stopped.append(path[1])
            return 200, {"stopped": True}
        status, log, code = server.script[0]
        if server.stopped:
            status, code = "STOPPED", None
        if path[2:] == ["logs", "tail"]:
            return 404, b"no WebSockets pass here"
        if path[2:] == ["logs"]:
            if len(server.script) > 1:
                server.script.pop(0)
            return 200, {"logs": log}
        return 200, {"status": status, "message": "told by the script", "driver_exit_code": code}

    def _follow(self, texts):
        """Sends them over a WebSocket, each after a ping that has to be answered, then closes."""
        with self.server.seen:
            self.server.requests.append((self.command, self.path, dict(self.headers)))
        digest = hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade")):
            self.send_header(name, value)
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        for text in texts:
            self.wfile.write(bytes([0x89, 2]) + b"hi" + bytes([0x81, len(text.encode())]) + text.encode())
            pong = self.rfile.read(8)
            assert pong[:2] == bytes([0x8A, 0x82]) and bytes(a ^ b for a, b in zip(pong[6:], pong[2:])) == b"hi"
        self.wfile.write(bytes([0x88, 0]))
        self.close_connection = True
        with self.server.seen:
            self.server.followed += 1
            self.server.seen.notify_all()

    def _send(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def cluster():
    with contextlib.closing(Cluster()) as running:
        running.close = lambda: (running.shutdown(), running.server_close())
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train").write_text("#!/bin/sh\n")
    (folder / "train").chmod(0o755)
    return folder


def command(cluster, *arguments):
    return [PROGRAM, "run", "--engine", "ray", "--address", cluster.address, *map(str, arguments)]


def run(cluster, *arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        command(cluster, *arguments), env={**environment, **variables}, capture_output=True, text=True, timeout=60
    )
    return done


def test_the_working_directory_goes_there_once(cluster, work):
    done = run(cluster, "-n", 4, "--name", "mnist", "--working-dir", work, "--", "./train", "--epochs", 3)
    assert done.returncode == 0, done.stderr
    ((name, package),) = cluster.packages.items()
    with zipfile.ZipFile(io.BytesIO(package)) as files:
        assert files.namelist() == ["train"] and files.read("train") == b"#!/bin/sh\n"
        assert files.getinfo("train").external_attr >> 16 == 0o100755
    (job,) = cluster.jobs.values()
    assert job["entrypoint"] == "exec python -m paceline._ray.program --num-workers=4 --name=mnist -- ./train --epochs 3"
    assert job["runtime_env"]["working_dir"] == f"gcs://{name}"
    assert int(job["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) > 30, "a stopped run ends in order"
    assert "sent to the cluster" in done.stderr and next(iter(cluster.jobs)) in done.stderr
    again = run(cluster, "--working-dir", work, "--", "./train")
    assert "on the cluster already" in again.stderr
    assert [method for method, path, _ in cluster.requests if "packages" in path] == ["GET", "PUT", "GET"]


def test_what_the_job_writes_is_shown_as_it_comes(cluster):
    cluster.script = [
        ("PENDING", "", None), ("RUNNING", "one\n", None), ("RUNNING", "one\ntwo é\n", None),
        ("SUCCEEDED", "one\ntwo é\nthree\n", 0), ("SUCCEEDED", "one\ntwo é\nthree\nfour", 0),
    ]  # fmt: skip
    done = run(cluster, "-q", "/bin/true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\ntwo é\nthree\n", "")


def test_a_log_is_followed_and_goes_on_where_it_was_cut(cluster):
    cluster.script = [("RUNNING", "", None)]
    cluster.tails = [["one\n", "two é\n"], ["one\ntwo é\nthr", "ee\n"]]
    with subprocess.Popen(command(cluster, "-q", "/bin/true"), stdout=subprocess.PIPE, text=True) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["one\n", "two é\n"]
        cluster.wait_for(lambda: cluster.followed == 1)
        cluster.script = [("SUCCEEDED", "one\ntwo é\nthree\r\nfour\n", 0)]
        assert process.stdout.read() == "three\nfour\n"
    assert process.returncode == 0


@pytest.mark.parametrize(("status", "code", "expected"), [("FAILED", 3, 3), ("FAILED", -9, 137), ("STOPPED", None, 143)])
def test_the_exit_code_is_the_jobs(cluster, status, code, expected):
    cluster.script = [(status, "", code)]
    assert run(cluster, "/bin/true").returncode == expected


def test_a_job_that_never_ran_says_why(cluster):
    cluster.script = [("FAILED", "", None)]
    done = run(cluster, "/bin/true")
    assert done.returncode == 1 and "has failed: told by the script" in done.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_job(cluster, stop):
    cluster.script = [("RUNNING", "working\n", None)]
    with subprocess.Popen(command(cluster, "/bin/true"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "working\n"
        process.send_signal(stop)
        _, said = process.communicate(timeout=60)
    assert cluster.stopped == list(cluster.jobs)
    assert process.returncode == 128 + stop and "stopping the job" in said


def test_an_outage_of_the_dashboard_is_waited_for(cluster):
    cluster.script = [("RUNNING", "one\n", None), ("SUCCEEDED", "one\ntwo\n", 0)]
    cluster.failures = {"/logs": [500, 500]}
    done = run(cluster, "/bin/true")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")


def test_what_the_cluster_refuses_is_told_in_its_words(cluster, work):
    cluster.failures = {"/api/packages": [500]}
    done = run(cluster, "--working-dir", work, "./train")
    assert done.returncode == 1 and "answered 500 to GET api/packages" in done.stderr
    assert done.stderr.strip().endswith("ValueError: told to fail") and not cluster.jobs


def test_a_head_that_takes_no_jobs_yet_is_waited_for(cluster):
    cluster.failures = {"/api/jobs/": [(500, b"No available agent to submit job, please try again later.")]}
    assert run(cluster, "/bin/true").returncode == 0
    assert [method for method, path, _ in cluster.requests if path == "/api/jobs/"] == ["POST", "POST"]


def test_runtime_env_is_the_users_and_never_in_the_command(cluster, work, tmp_path):
    file = tmp_path / "runtime_env.json"
    file.write_text(json.dumps({"working_dir": str(work), "env_vars": {"KEY": "s3cret", "RAY_JOB_STOP_WAIT_TIME_S": "7"}}))
    done = run(cluster, "--runtime-env", file, "./train")
    (job,) = cluster.jobs.values()
    assert job["runtime_env"]["env_vars"] == {"KEY": "s3cret", "RAY_JOB_STOP_WAIT_TIME_S": "7"}
    assert job["runtime_env"]["working_dir"].startswith("gcs://_ray_pkg_")
    assert "s3cret" not in job["entrypoint"] + done.stdout + done.stderr


def test_who_asks_is_said_as_rays_client_does(cluster, tmp_path):
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    ways = [
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t0ken"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)},
        {"RAY_JOB_HEADERS": '{"Authorization": "Bearer t0ken"}', "RAY_AUTH_MODE": "token"},
    ]
    cluster.wanted_headers = {"Authorization": "Bearer t0ken"}
    for variables in ways:
        assert run(cluster, "/bin/true", **variables).returncode == 0, variables
    unknown = run(cluster, "/bin/true", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="other")
    assert unknown.returncode == 1 and "does not know who asks (401)" in unknown.stderr and "other" not in unknown.stderr
    missing = run(cluster, "/bin/true", RAY_AUTH_MODE="token", HOME=str(tmp_path))
    assert missing.returncode == 1 and f"{tmp_path}/.ray/auth_token" in missing.stderr
    wrong = run(cluster, "/bin/true", RAY_JOB_HEADERS='{"X-Key": ["s3cret"]}')
    assert wrong.returncode == 1 and "RAY_JOB_HEADERS" in wrong.stderr and "s3cret" not in wrong.stderr


def test_a_password_in_the_address_is_shown_nowhere(cluster):
    cluster.wanted_headers = {"Authorization": "Basic " + base64.b64encode(b"ada:love").decode()}
    address = cluster.address.replace("://", "://ada:love@")
    done = run(cluster, "--address", address, "/bin/true")
    assert done.returncode == 0 and f"on {cluster.address}," in done.stderr and "love" not in done.stderr
    wrong = run(cluster, "--address", address.replace("love", "hate"), "/bin/true")
    assert wrong.returncode == 1 and "does not know who asks" in wrong.stderr and "hate" not in wrong.stderr


def test_where_no_cluster_is_the_address_is_named():
    with contextlib.closing(Cluster()) as gone:
        gone.close = gone.server_close
    done = run(gone, "/bin/true")
    assert done.returncode == 1 and f"no Ray cluster answers at {gone.address}" in done.stderr and "--address" in done.stderr


def test_another_server_is_no_cluster(cluster):
    cluster.failures = {"/api/version": [404]}
    done = run(cluster, "/bin/true")
    assert done.returncode == 1 and "knows no api/version" in done.stderr


@pytest.mark.parametrize(("arguments", "said"), [
    (["./train"], "--working-dir FOLDER takes it there"),
    (["train.py"], "--working-dir FOLDER takes it there"),
    (["--working-dir", ".", "./no_such_program"], "there is no program ./no_such_program in ."),
    (["--working-dir", "/no/such/folder", "-m", "train"], "there is no folder /no/such/folder"),
    (["-n", "cpu", "/bin/true"], "give a number of ranks"),
    (["--debug-rank", "0", "/bin/true"], "--debug-rank needs this terminal"),
    (["--address", "ray://head:10001", "/bin/true"], "wanted: the address of the cluster's dashboard"),
    (["--resources-per-worker", "GPU", "/bin/true"], "allowed: NAME=AMOUNT"),
])
def test_what_cannot_be_is_said_before_anything_is_sent(cluster, arguments, said):
    done = run(cluster, *arguments)
    assert done.returncode in (1, 2) and said in done.stderr
    assert not cluster.jobs and not cluster.packages


def test_flags_of_a_cluster_need_one():
    done = subprocess.run([PROGRAM, "run", "--address", "http://head:8265", "/bin/true"], capture_output=True, text=True)
    assert done.returncode == 2 and "add --engine ray" in done.stderr
