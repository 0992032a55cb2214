"""What the MLflow tracker sends, to a server of the test's own that fails as told. mlflow_server_test.py has a real one."""

import base64
import contextlib
import http.server
import json
import threading
import urllib.parse

import pytest
from tracker_program import TrackerProgram


class Server(http.server.ThreadingHTTPServer):
    """MLflow's REST interface as far as the tracker uses it, in memory."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.experiments = {}
        self.runs = {}
        self.headers_seen = []
        self.failures = []  # status codes of the next answers; 0 closes the connection without one

    @property
    def uri(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self._answer(urllib.parse.urlsplit(self.path), None)

    def do_POST(self):
        self._answer(urllib.parse.urlsplit(self.path), json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, url, body):
        self.server.headers_seen.append(dict(self.headers))
        if self.server.failures:
            code = self.server.failures.pop(0)
            return self._send(code, {"message": "told to fail"}) if code else None
        prefix = "/api/2.0/mlflow/"
        assert url.path.startswith(prefix)
        name = url.path.removeprefix(prefix).replace("/", "_").replace("-", "_")
        try:
            self._send(200, getattr(self, name)(body or dict(urllib.parse.parse_qsl(url.query))))
        except KeyError as missing:
            self._send(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"no {missing}"})

    def _send(self, code, answer):
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def experiments_get_by_name(self, request):
        identity = self.server.experiments[request["experiment_name"]]
        return {"experiment": {"experiment_id": identity, "lifecycle_stage": "active"}}

    def experiments_create(self, request):
        identity = self.server.experiments.setdefault(request["name"], str(len(self.server.experiments) + 1))
        return {"experiment_id": identity}

    def runs_create(self, request):
        identity = f"run{len(self.server.runs)}"
        tags = {tag["key"]: tag["value"] for tag in request.get("tags", [])}
        self.server.runs[identity] = request | {"tags": tags, "status": "RUNNING", "metrics": [], "params": {}, "batches": []}
        return {"run": {"info": {"run_id": identity}}}

    def runs_update(self, request):
        self.server.runs[request["run_id"]].update(request)
        return {}

    def runs_log_batch(self, request):
        run = self.server.runs[request["run_id"]]
        run["batches"].append({key: len(request.get(key, [])) for key in ("metrics", "params", "tags")})
        run["metrics"] += request.get("metrics", [])
        run["params"].update({param["key"]: param["value"] for param in request.get("params", [])})
        run["tags"].update({tag["key"]: tag["value"] for tag in request.get("tags", [])})
        return {}


@pytest.fixture
def server():
    with contextlib.closing(Server()) as running:
        running.close = lambda: (running.shutdown(), running.server_close())
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running


def config(server, **more):
    return {"kind": "mlflow", "uri": server.uri, **more}


def run_in(folder, **more):
    return {"name": "sample", "folder": str(folder), **more}


def row(step, **metrics):
    return {"step": step, "time": 1000.5 + step, "metrics": metrics}


def test_a_run_with_params_metrics_and_its_end(server, tmp_path):
    loop = {"lr": 0.5, "model": {"layers": 12}, **{f"p{i}": i for i in range(150)}}
    with TrackerProgram(config(server, project="digits", tags={"team": "a"}), run_in(tmp_path, train_loop_config=loop)) as tracker:
        assert tracker.begin(time=1000.0) == ""
        assert tracker.write(row(1, loss=0.5, eval={"a b": True}), row(2, loss={"$number": "nan"}, text="no number")) == ""
        assert tracker.write({"checkpoint": "checkpoint_000003", **row(3, **{"größe,x": 1})}) == ""
        assert tracker.finish(state="errored", message="rank 1 died", time=2000.0) == ""
    assert server.experiments == {"digits": "1"}
    (run,) = server.runs.values()
    assert (run["run_name"], run["start_time"], run["status"], run["end_time"]) == ("sample", 1_000_000, "FAILED", 2_000_000)
    assert run["params"] == {"lr": "0.5", "model/layers": "12", **{f"p{i}": str(i) for i in range(150)}}
    assert run["tags"]["team"] == "a"
    assert run["tags"]["paceline.run_folder"] == str(tmp_path)
    assert run["tags"]["paceline.checkpoint"] == f"{tmp_path}/checkpoint_000003"
    assert run["tags"]["paceline.message"] == "rank 1 died"
    assert run["metrics"] == [
        {"key": "eval/a b", "value": 1.0, "timestamp": 1_001_500, "step": 1},
        {"key": "loss", "value": 0.5, "timestamp": 1_001_500, "step": 1},
        {"key": "loss", "value": "NaN", "timestamp": 1_002_500, "step": 2},
        {"key": "gr____e_x", "value": 1.0, "timestamp": 1_003_500, "step": 3},
    ]


def test_batches_keep_to_mlflows_limits(server, tmp_path):
    loop = {f"p{i}": i for i in range(250)}
    with TrackerProgram(config(server), run_in(tmp_path, train_loop_config=loop)) as tracker:
        tracker.begin()
        assert tracker.write(*(row(step, **{f"m{i}": i for i in range(7)}) for step in range(300))) == ""
    (run,) = server.runs.values()
    assert len(run["metrics"]) == 2100
    assert max(batch["metrics"] for batch in run["batches"]) == 1000
    assert max(batch["params"] for batch in run["batches"]) == 100


def test_the_next_driver_goes_on_with_the_same_run(server, tmp_path):
    with TrackerProgram(config(server), run_in(tmp_path)) as tracker:
        tracker.begin()
        tracker.write(row(1, loss=1))
        tracker.finish(state="aborted")
        memory = tracker.memory
    (run,) = server.runs.values()
    assert run["status"] == "KILLED"
    with TrackerProgram(config(server), run_in(tmp_path, train_loop_config={"lr": 2}), memory) as tracker:
        assert tracker.write(row(2, loss=2)) == "", "what the first driver has left"
        assert tracker.begin(attempt=2, resume_step=2) == ""
        assert run["status"] == "RUNNING"
        tracker.finish(state="finished")
    assert len(server.runs) == 1
    assert [metric["step"] for metric in run["metrics"]] == [1, 2]
    assert run["params"] == {}, "MLflow refuses params that change"
    assert (run["status"], run["tags"]["paceline.attempt"]) == ("FINISHED", "2")


@pytest.mark.parametrize("code", [503, 429, 0])
def test_what_may_pass_is_an_io_error(server, tmp_path, code):
    with TrackerProgram(config(server), run_in(tmp_path)) as tracker:
        assert tracker.begin() == ""
        server.failures = [code]
        assert tracker.write(row(1, loss=1)).startswith("IOError: " + server.uri)
        assert tracker.write(row(1, loss=1)) == ""
    (run,) = server.runs.values()
    assert len(run["metrics"]) == 1


def test_what_will_not_pass_says_what_the_server_said(server, tmp_path):
    with TrackerProgram(config(server), run_in(tmp_path)) as tracker:
        server.failures = [403]
        error = tracker.begin()
        assert error.startswith("Invalid") and "answered 403 to experiments/get-by-name: told to fail" in error


def test_a_server_that_is_away_is_an_io_error(tmp_path):
    with contextlib.closing(Server()) as gone:
        gone.close = gone.server_close
    with TrackerProgram(config(gone), run_in(tmp_path)) as tracker:
        assert tracker.begin().startswith("IOError")


@pytest.mark.parametrize(
    "variables, header",
    [
        ({"MLFLOW_TRACKING_TOKEN": "t0ken", "MLFLOW_TRACKING_USERNAME": "ada"}, "Bearer t0ken"),
        (
            {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "love:lace"},
            "Basic " + base64.b64encode(b"ada:love:lace").decode(),
        ),
    ],
)
def test_credentials_come_from_mlflows_variables(server, tmp_path, monkeypatch, variables, header):
    for name, value in {**variables, "MLFLOW_TRACKING_URI": server.uri, "MLFLOW_EXPERIMENT_NAME": "named"}.items():
        monkeypatch.setenv(name, value)
    with TrackerProgram({"kind": "mlflow"}, run_in(tmp_path)) as tracker:
        assert tracker.begin() == ""
    assert list(server.experiments) == ["named"]
    assert {seen.get("Authorization") for seen in server.headers_seen} == {header}
