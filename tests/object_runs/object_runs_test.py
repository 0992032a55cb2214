"""Runs on an object store, moto's S3: real drivers and workers, which are killed, refused and lied to.

Usage: object_runs_test.py SCENARIOS_PROGRAM COMMAND_LINE_PROGRAM CASE
"""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "paceline" / "testing"))
import object_servers

SKIPPED = 77
program, paceline, case = sys.argv[1:]


class Machine:
    """A user's state directory, and programs that run with it."""

    def __init__(self, server, folder, has_keys):
        self.server = server
        self.uri = server.uri
        self.folder = Path(folder)
        self.state = self.folder / "state"
        self.environment = os.environ | server.environment | {
            "PACELINE_STATE_DIR": str(self.state), "PACELINE_STORAGE_RETRY_S": "30", "XDG_RUNTIME_DIR": folder}
        if not has_keys:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                del self.environment[name]

    def start(self, scenario, **environment):
        return Driver([program, scenario, self.uri, "run"], self.environment | environment)

    def run(self, scenario, **environment):
        with self.start(scenario, **environment) as driver:
            return driver.wait()

    def result(self, uri=None):
        """What a program makes of the run that has nothing but its URI."""
        output = subprocess.run([program, "result", uri or run_uri(self.server)], env=self.environment, capture_output=True,
                                text=True)
        assert output.returncode == 0, output.stdout + output.stderr
        return output.stdout

    def command(self, *arguments, exit_code=0):
        """What `paceline ARGUMENTS` prints; `exit_code` None: of one that fails."""
        output = subprocess.run([paceline, *arguments], env=self.environment, capture_output=True, text=True)
        as_wanted = output.returncode != 0 if exit_code is None else output.returncode == exit_code
        assert as_wanted, (arguments, output.returncode, output.stdout + output.stderr)
        return output.stdout + output.stderr


class Driver:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        self.output = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def wait_for(self, text):
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return
        raise AssertionError(f"the driver ended without {text!r}:\n{self.output}")

    def kill(self):
        self.process.kill()
        self.output += self.process.stdout.read()
        self.process.wait()

    def wait(self):
        self.output += self.process.stdout.read()
        return self.process.wait(), self.output


@contextlib.contextmanager
def machine(server, has_keys=True):
    with tempfile.TemporaryDirectory() as folder:
        yield Machine(server, folder, has_keys)


def run_uri(server):
    return server.uri.replace("s3://bucket", "s3://bucket/run")


def objects(server, prefix="run/"):
    """Arrow leaves empty objects, whose names end with '/', for folders in which it has deleted the last file."""
    listed = server.client().list_objects_v2(Bucket=object_servers.BUCKET, Prefix=prefix)
    keys = [entry["Key"] for entry in listed.get("Contents", [])]
    return {key.removeprefix(prefix) for key in keys if not key.endswith("/")}


def read(server, name):
    return server.client().get_object(Bucket=object_servers.BUCKET, Key="run/" + name)["Body"].read()


def lines(server, name):
    return [json.loads(line) for line in read(server, f"records/{name}/000000").splitlines()]


def reports_in(server):
    """Pairs of report and rank that are in the mirrored history."""
    try:
        return {(row["report"], row["rank"]) for row in lines(server, "metrics.jsonl") if row["rank"] >= 0}
    except server.client().exceptions.NoSuchKey:
        return set()


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        expect(time.monotonic() < deadline, "a minute has passed")
        time.sleep(0.05)


def expect(condition, text):
    assert condition, text


def expect_whole(server, here, reports=5):
    """Every report has its checkpoint and its rows; nothing else is left."""
    found = objects(server)
    for name in found:
        expect(name.startswith(("checkpoint_", "records/", ".lease/")), f"{name} is left over: {found}")
    claims = [name for name in found if name.startswith(".lease/")]
    expect(len(claims) == 1 and json.loads(read(server, claims[0]))["ended"], f"claims: {claims}")
    folders = {name.split("/")[0] for name in found if name.startswith("checkpoint_")}
    expect(folders == {f"checkpoint_{report:06}" for report in range(1, reports + 1)}, f"checkpoints: {folders}")
    for folder in folders:
        manifest = json.loads(read(server, folder + "/paceline_manifest.json"))
        for file, entry in manifest["files"].items():
            expect(len(read(server, f"{folder}/{file}")) == entry["size"], f"{folder}/{file} is torn")
    rows = reports_in(server)
    wanted = {(report, rank) for report in range(1, reports + 1) for rank in (0, 1)}
    expect(wanted <= rows, f"history: {sorted(rows)}")
    result = here.result()
    expect("state finished" in result and f"checkpoint {run_uri(server).split('?')[0]}/checkpoint_{reports:06}" in result,
           result)


def trains(server):
    with machine(server) as here, machine(server) as elsewhere:
        code, output = here.run("sees_its_checkpoints")
        expect(code == 0 and "state finished" in output, output)
        expect_whole(server, elsewhere)
        expect((here.state / "working").exists() and not elsewhere.state.exists(), "reading needs no working folder")
        log = read(server, "records/logs/controller.log/000000").decode()
        expect("the checkpoint of report 5 is published" in log, log)
        # A run that was deleted starts afresh.
        client = server.client()
        for name in objects(server):
            client.delete_object(Bucket=object_servers.BUCKET, Key="run/" + name)
        code, output = here.run("well")
        expect(code == 0 and "continu" not in output, output)
        expect_whole(server, here)


def driver_killed(server):
    with machine(server) as here, machine(server) as elsewhere:
        with here.start("hang_in_user_code") as first:
            first.wait_for("checkpoint of report 2 is published")
            code, output = elsewhere.run("well")
            expect(code == 2 and re.search(rf"is held by process {first.process.pid} on host", output), output)
            first.kill()
        # What it may have been uploading.
        server.client().put_object(Bucket=object_servers.BUCKET, Key="run/checkpoint_000003/half", Body=b"x")
        code, output = here.run("hang_in_user_code")
        expect(code == 0 and "continue from checkpoint_000002" in output, output)
        expect_whole(server, elsewhere)
        expect([event["event"] for event in lines(server, "journal.jsonl")].count("run_opened") == 2, "one journal")


def other_machine(server):
    with machine(server) as here, machine(server) as elsewhere:
        with here.start("hang_in_user_code") as first:
            first.wait_for("checkpoint of report 2 is published")
            wait_until(lambda: (2, 1) in reports_in(server))
            first.kill()
        claims = [name for name in objects(server) if name.startswith(".lease/")]
        expect(len(claims) == 1, claims)
        # As if it had been silent for a minute.
        server.client().delete_object(Bucket=object_servers.BUCKET, Key="run/" + claims[0])
        code, output = elsewhere.run("hang_in_user_code")
        expect(code == 0 and "continue from checkpoint_000002" in output, output)
        expect_whole(server, elsewhere)
        # The first machine finds that its own copy is out of date.
        code, output = here.run("one_report")
        expect(code == 0 and "the run had finished" in output, output)
        opened = [event for event in lines(server, "journal.jsonl") if event["event"] == "run_opened"]
        expect(len(opened) == 3, opened)


def command_line(server):
    uri, place = run_uri(server), run_uri(server).split("?")[0]
    with machine(server) as here, machine(server) as elsewhere:
        with here.start("hang_in_user_code") as driver:
            driver.wait_for("checkpoint of report 2 is published")
            wait_until(lambda: (2, 1) in reports_in(server))
            # On the driver's machine the URI is another name of the run; on another it shows what was copied.
            expect("hang" in here.command("show", uri) or "running" in here.command("show", uri), here.command("show", uri))
            shown = json.loads(elsewhere.command("show", uri, "--json"))
            expect((shown["state"], shown["report"]) == ("running", 2), shown)
            expect(shown["location"].split("?")[0] == place, shown)
            expect("which cannot be seen from here" in shown["remark"] or shown["host"] == os.uname().nodename, shown)
            driver.kill()
        expect("is held by process" not in here.run("hang_in_user_code")[1], "the killed driver holds nothing")
        # The copy follows; by its name too, once it is known.
        expect("1 run indexed" in elsewhere.command("index", server.uri), "the storage path is indexed")
        expect("1 run indexed" in elsewhere.command("index", uri), "the run is indexed")
        listed = json.loads(elsewhere.command("list", "--json"))
        expect([(run["name"], run["state"], run["report"]) for run in listed] == [("run", "finished", 5)], listed)
        expect(place in elsewhere.command("list"), "the list names the URI")
        expect("checkpoint_000005" in elsewhere.command("show", "run"), "the run is known by name")
        expect("the checkpoint of report 5 is published" in elsewhere.command("logs", "run", "--controller"), "logs")
        expect("5" in elsewhere.command("metrics", uri), "metrics")
        checkpoints = json.loads(elsewhere.command("checkpoint", "ls", "run", "--json"))
        expect([one["name"] for one in checkpoints] == [f"checkpoint_{n:06}" for n in range(1, 6)], checkpoints)
        last = uri.replace("/run", "/run/checkpoint_000005")
        expect("is whole" in elsewhere.command("checkpoint", "verify", last), "a checkpoint by its URI")
        expect("is finished already" in elsewhere.command("stop", uri, exit_code=1), "nothing to stop")
        # Looking at it has changed nothing for those who train.
        code, output = elsewhere.run("one_report")
        expect(code == 0 and "the run had finished" in output, output)
        expect("holds no run" in elsewhere.command("show", uri.replace("/run", "/other"), exit_code=2), "no such run")
        with machine(server) as reader:
            expect("1 run indexed" in reader.command("index", uri), "the run is indexed")
            keys_in_uris(server, uri.replace("s3://", "s3://test:test@"))
            # Where it was only read it shows as deleted as soon as somebody looks.
            expect("its folder was deleted" in reader.command("show", "run"), "it shows as deleted")
            expect("deleted" in reader.command("list"), "and is listed so")
            expect("deleted" in reader.command("rm", "run", "--yes"), "it is forgotten")
            expect(json.loads(reader.command("list", "--json")) == [], "by all")
        expect("deleted" in elsewhere.command("rm", "run", "--yes"), "what a driver here had is deleted")
        expect(json.loads(elsewhere.command("list", "--json")) == [], "and forgotten")


class Dashboard:
    """`paceline dashboard` of a machine, as a browser asks it."""

    def __init__(self, machine, *arguments):
        self.driver = Driver([paceline, "dashboard", "--port", "0", *arguments], machine.environment)

    def __enter__(self):
        self.driver.wait_for("open http://")
        port, code = re.search(r"open http://127\.0\.0\.1:(\d+)/#code=(\w+)", self.driver.output).groups()
        self.connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        self.cookie = self.answer("POST", "session", json.dumps({"code": code}))[0].getheader("Set-Cookie").partition(";")[0]
        return self

    def __exit__(self, *_):
        self.driver.kill()

    def answer(self, method, path, body=None):
        headers = {"Cookie": getattr(self, "cookie", "")}
        self.connection.request(method, "/api/v1/" + path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status == 200, (path, answer.status, text)
        return answer, json.loads(text)

    def get(self, path):
        return self.answer("GET", path)[1]


def dashboard(server):
    uri = run_uri(server)
    with machine(server) as here, machine(server) as elsewhere:
        with here.start("hang_in_user_code") as driver:
            driver.wait_for("checkpoint of report 2 is published")
            wait_until(lambda: (2, 1) in reports_in(server))
            with Dashboard(here) as near:
                run = near.get("runs")["runs"][0]
                shown = near.get(f"runs/{run['id']}")
                expect(shown["live"] and len(shown["workers"]) == 2, shown)
                expect(shown["location"].split("?")[0] == uri.split("?")[0], shown["location"])
            with Dashboard(elsewhere, "--storage-path", server.uri) as far:
                run = far.get("runs")["runs"][0]
                path = f"runs/{run['id']}"
                expect((run["name"], run["state"], run["report"]) == ("run", "running", 2), run)
                expect(far.get(path)["report"] == 2, "the run")
                driver.kill()
                here.run("hang_in_user_code")
                # Its copy of the records follows by itself.
                wait_until(lambda: far.get(path)["state"] == "finished")
                expect(far.get(path)["report"] == 5, "the last report")
                expect([one["name"] for one in far.get(path + "/checkpoints")["checkpoints"]] == [
                    f"checkpoint_{n:06}" for n in range(1, 6)], "checkpoints")
                metrics = far.get(path + "/metrics")
                name = metrics["names"][0]
                expect(far.get(f"{path}/metrics?names={name}")["series"][name]["report"][-1] == 5, "curves")
                expect(any(event["event"] == "checkpoint_published" for event in far.get(path + "/events")["events"]), "events")
                streams = [one["stream"] for one in far.get(path + "/logs")["streams"]]
                expect("controller" in streams, streams)
                expect("checkpoint of report 5 is published" in far.get(path + "/logs/controller")["text"], "the log")
                expect(far.get(path + "/configuration")["options"], "the configuration")


def keys_in_uris(server, uri):
    """Keys in a URI do for what is asked with it, and are kept nowhere."""
    with machine(server, has_keys=False) as keyless:
        expect("finished" in keyless.command("show", uri), "show")
        expect("checkpoint_000005" in keyless.command("checkpoint", "ls", uri), "checkpoint ls")
        expect("1 run indexed" in keyless.command("index", uri), "index")
        expect("are not kept; give the URI with them" in keyless.command("rm", "run", "--yes", exit_code=1), "no keys, no deletion")
        expect("test:test" not in keyless.command("list"), "shown")
        expect("deleted" in keyless.command("rm", uri, "--yes"), "it is deleted")
        expect(not objects(server), objects(server))
        expect(json.loads(keyless.command("list", "--json")) == [], "and forgotten")


# A slash and a plus are in many keys of AWS's; in a URI they are escaped.
KEY, SECRET, WRITTEN = "AKIDPACELINE", "sEcReT/kEy+PaCeLiNe", "sEcReT%2FkEy%2BPaCeLiNe"


def without_secrets(server, here, said):
    """Nothing that has been said, and nothing that is on the disk or in the bucket, has the key in any form."""
    forms = [form.encode() for form in (SECRET, WRITTEN, "kEy+PaCeLiNe", "kEy%2BPaCeLiNe")]

    found = []

    def check(where, content):
        at = max(content.find(form) for form in forms)
        if at >= 0:
            found.append(f"{where}: …{content[max(0, at - 200):at + 100]!r}…")

    for what, text in said.items():
        check(what, text.encode())
    looked_at = [path for path in here.folder.rglob("*") if path.is_file()]
    for path in looked_at:
        check(path, path.read_bytes())
        check("the name of a file", str(path).encode())
    for name in objects(server, prefix=""):
        check(name, server.client().get_object(Bucket=object_servers.BUCKET, Key=name)["Body"].read())
    names = {path.name for path in looked_at}
    wanted = {"journal.jsonl", "metrics.jsonl", "controller.log", "runs.sqlite", "metrics.csv", "location"}
    expect(not found, "the key is in\n" + "\n".join(found))
    expect(wanted <= names, f"not looked at: {wanted - names}; there is {sorted(names)}")


def secrets(server):
    """A key in a URI does for everything, and is nowhere to be found afterwards."""
    with machine(server, has_keys=False) as here:
        here.environment |= {"TMPDIR": str(here.folder), "TRACKERS": "csv"}
        here.uri = server.uri.replace("s3://", f"s3://{KEY}:{WRITTEN}@")
        uri = here.uri.replace("@bucket", "@bucket/run")
        said = {}

        def run(scenario, code, wanted, **environment):
            got, output = here.run(scenario, **environment)
            expect(got == code and wanted in output, (scenario, got, output))
            said[f"{scenario} {len(said)}"] = output

        def ask(*arguments, exit_code=0, wanted=""):
            output = here.command(*arguments, exit_code=exit_code)
            expect(wanted in output, output)
            said[f"{arguments[:2]} {len(said)}"] = output

        with here.start("hang_in_user_code") as driver:
            driver.wait_for("checkpoint of report 2 is published")
            ask("show", uri, "--json", wanted="checkpoint_000002")
            ask("show", "run", wanted="s3://")
            ask("stacks", "run", "--json")
            ask("list", "--json", wanted="s3://")
            driver.kill()
        said["a driver that was killed"] = driver.output
        run("hang_in_user_code", 0, "continue from checkpoint_000002")
        last = uri.replace("/run", "/run/checkpoint_000005")
        run("one_report", 0, "is ignored", RESUME_FROM=last)
        for arguments in (["show"], ["show", "--json"], ["logs", "--controller"], ["metrics", "--json"], ["index", "--json"],
                          ["checkpoint", "ls"], ["checkpoint", "ls", "--json"]):
            ask(*arguments, uri)
        ask("checkpoint", "verify", last, wanted="is whole")
        said["result"] = here.result(uri)
        # What fails: files that are gone, what is not in a checkpoint, a validation.
        server.client().delete_object(Bucket=object_servers.BUCKET, Key="run/checkpoint_000005/model.safetensors")
        ask("checkpoint", "verify", last, exit_code=1, wanted="model.safetensors")
        run("one_report", 2, "is gone or damaged")
        run("loads_in_vain", 2, "there are no files below", RESUME_FROM=uri.replace("/run", "/nothing"))
        here.uri = here.uri.replace("@bucket", "@bucket/others")
        first = uri.replace("/run", "/run/checkpoint_000001")
        run("loads_in_vain", 1, "has no", RESUME_FROM=first)
        run("validated", 0, "looking at", RESUME_FROM=first)
        # What cannot be opened.
        for number, wrong in enumerate((
            uri.replace("s3://", "s4://"), uri.replace(WRITTEN, SECRET), uri.replace("@bucket", "@"),
            uri + f"&secret_key={WRITTEN}", uri + f"&{WRITTEN}", uri + "&scheme=%zz", uri.replace("@bucket", "@no_bucket"),
            uri.replace("s3://", "S3://").replace("scheme=http", "scheme=nothing"),
        )):
            here.uri = wrong
            code, said[f"wrong {number}"] = here.run("one_report", PACELINE_STORAGE_RETRY_S="1")
            expect(code != 0, said[f"wrong {number}"])
            said[f"wrong {number}, command line"] = here.command("show", wrong, exit_code=None)
        ask("show", uri.replace("@bucket/run", "@bucket/nothing"), exit_code=2, wanted="holds no run")
        without_secrets(server, here, said)
        # Kept nowhere: what needs them says what is missing.
        folder = next(path.parent for path in here.state.glob("working/*/location") if "@bucket/run?" in path.read_text())
        ask("rm", str(folder), "--yes", exit_code=1, wanted="are not kept; give the URI with them")
        ask("rm", uri, "--yes", wanted="deleted")
        without_secrets(server, here, said)


def calling_process(server):
    """Without workers too, records follow each published checkpoint, not only the mirror's clock."""
    with machine(server) as here:
        with here.start("publish_and_wait", WORKERS="0", PACELINE_FAIL_POINTS="mirror.due=error@*") as driver:
            driver.wait_for("checkpoint_000001 is published")
            wait_until(lambda: (1, 0) in reports_in(server))
            driver.kill()
        events = [event["event"] for event in lines(server, "journal.jsonl")]
        expect("checkpoint_published" in events, events)


def storage_fails(server):
    with machine(server) as here:
        code, output = here.run("well")
        expect(code == 0 and "state finished" in output, output)
        server.faults_are_on = False
        expect_whole(server, here)


def proof(server):
    server.hidden = "run/.storage_proof"
    with machine(server) as here:
        code, output = here.run("well")
        expect(code == 1 and "does not see the run's storage" in output, output)
        expect("Rank" in output and "s3://bucket/run/.storage_proof" in output, output)
        expect(not any(name.startswith("checkpoint_") for name in objects(server)), "it trained")


try:
    with object_servers.S3(every_nth=4 if case == "storage_fails" else 0) as server:
        globals()[case](server)
except ImportError as missing:
    print(f"{missing}: run `make setup`")
    sys.exit(SKIPPED)
