"""W&B's own program reads the files that we write: `wandb sync` uploads them to a server of the test's own."""

import contextlib
import gzip
import http.server
import json
import os
import subprocess
import sys
import threading

import pytest
from tracker_program import TrackerProgram

LOOP_CONFIG = {"lr": 0.125, "model": {"layers": 12}}


class Server(http.server.ThreadingHTTPServer):
    """As much of W&B's server as an upload needs; keeps what comes."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upserts = []
        self.history = []
        self.summary = {}
        self.exit_codes = []

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _answer(self):
        body = self._body()
        answer = {}
        if self.path.startswith("/graphql"):
            answer = {"data": self._graphql(json.loads(body))}
        elif self.path.endswith("/file_stream"):
            self._file_stream(json.loads(body))
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = _answer

    def _graphql(self, request):
        variables = request.get("variables", {})
        if "upsertBucket" in request["query"]:
            self.server.upserts.append(variables)
            project = {"name": variables.get("project"), "entity": {"id": "e", "name": "ada"}, "id": "p"}
            run = {"id": "r", "name": variables.get("name"), "displayName": variables.get("displayName"), "project": project}
            return {"upsertBucket": {"bucket": run | {"config": "{}", "historyLineCount": 0}, "inserted": True}}
        if "viewer" in request["query"]:
            return {"viewer": {"id": "v", "entity": "ada", "username": "ada", "flags": "{}", "teams": {"edges": []}}}
        return {}

    def _file_stream(self, request):
        files = request.get("files") or {}
        self.server.history += [json.loads(line) for line in files.get("wandb-history.jsonl", {}).get("content", [])]
        for line in files.get("wandb-summary.json", {}).get("content", []):
            self.server.summary = json.loads(line)
        if request.get("complete"):
            self.server.exit_codes.append(request.get("exitcode"))


@pytest.fixture
def server():
    with contextlib.closing(Server()) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running


def sync(server, folder, *paths):
    environment = os.environ | {
        "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}",
        "WANDB_API_KEY": "0123456789" * 4,
        "WANDB_DIR": str(folder),
        "WANDB_CONFIG_DIR": str(folder / "config"),
        "WANDB_CACHE_DIR": str(folder / "cache"),
        "WANDB_DATA_DIR": str(folder / "data"),
        "WANDB_ERROR_REPORTING": "false",
        "HOME": str(folder),
    }
    command = [sys.executable, "-m", "wandb", "sync", *map(str, paths)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def row(step, **metrics):
    return {"step": step, "time": 1_700_000_000.0 + step, "metrics": metrics}


def test_wandb_sync_uploads_all_drivers_of_a_run(server, tmp_path):
    config = {"kind": "wandb", "project": "digits", "tags": {"team": "a"}}
    run = {"name": "sample", "folder": str(tmp_path / "run"), "train_loop_config": LOOP_CONFIG}
    with TrackerProgram(config, run) as tracker:
        assert tracker.begin(time=1_700_000_000.0) == ""
        for step in range(1, 2001):  # many blocks of the log
            assert tracker.write(row(step, loss=1 / step, eval={"accuracy": step}, note="x" * (step % 100))) == ""
        memory = tracker.memory
    with TrackerProgram(config, run, memory) as tracker:  # the next driver
        tracker.begin(attempt=2, resume_step=2000, time=1_700_003_000.0)
        assert tracker.write(row(2001, loss={"$number": "nan"}, text="y" * 100_000)) == "", "longer than three blocks"
        assert tracker.finish(state="finished", time=1_700_003_100.0) == ""
    folders = sorted((tmp_path / "run/wandb").iterdir())
    assert [folder.name for folder in folders] == [
        f"offline-run-20231114_221320-{memory['id']}",
        f"offline-run-20231114_230320-{memory['id']}",
    ]
    for folder in folders:
        sync(server, tmp_path, folder)
    assert {upsert.get("name") for upsert in server.upserts} == {memory["id"]}
    assert {upsert.get("project") for upsert in server.upserts} == {"digits"}
    uploaded = json.loads(next(upsert["config"] for upsert in server.upserts if upsert.get("config")))
    assert uploaded["lr"]["value"] == 0.125 and uploaded["model"]["value"] == {"layers": 12}
    assert [line["_step"] for line in server.history] == list(range(1, 2002))
    assert server.history[1]["loss"] == 0.5 and server.history[1]["eval/accuracy"] == 2
    assert len(server.history[-1]["text"]) == 100_000
    assert server.exit_codes[-1] == 0
