"""The engine "ray", as far as it needs no Ray: what is asked of a cluster, who serves what, what is said."""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

import paceline
from paceline._ray import bundles, connection, program
from paceline._ray.bundles import Request, Share
from paceline.train import RunConfig, ScalingConfig
from paceline.train.torch import TorchTrainer


def request(workers=4, strategy="PACK", labels=None, **each):
    return Request(each or {"CPU": 1.0}, workers, strategy, labels)


@pytest.mark.parametrize(("settings", "each"), [
    ({"num_workers": 2}, {"CPU": 1}),
    ({"num_workers": 2, "use_gpu": True}, {"GPU": 1}),
    ({"num_workers": 2, "resources_per_worker": {"CPU": 2, "memory": 9e8, "disk": 1}}, {"CPU": 2, "memory": 9 * 10**8, "disk": 1}),
    ({"num_workers": 2, "use_gpu": True, "resources_per_worker": {"CPU": 4}}, {"CPU": 4, "GPU": 1}),
    ({"num_workers": (1, 2), "accelerator_type": "A100", "use_gpu": True}, {"GPU": 1, "accelerator_type:A100": 0.001}),
])  # fmt: skip
def test_each_worker_is_a_bundle_with_what_it_asks_for(settings, each):
    asked = bundles.request_of(ScalingConfig(**settings, placement_strategy="SPREAD"))
    assert asked.bundles == [each, each] and asked.strategy == "SPREAD" and asked.labels is None
    assert isinstance(asked.each.get("memory", 0), int), "Ray takes no other"


def test_each_bundle_has_its_label_selector():
    each = bundles.request_of(ScalingConfig(num_workers=2, label_selector={"zone": "a"}))
    assert each.labels == [{"zone": "a"}] * 2
    assert str(each) == "2 × {CPU: 1} on nodes with zone=a (PACK)"


def test_workers_that_ask_for_nothing_cannot_be_placed():
    with pytest.raises(ValueError, match="asks for nothing.*such as .*CPU"):
        bundles.request_of(ScalingConfig(resources_per_worker={"CPU": 0}))


def test_a_node_has_one_agent_for_all_its_bundles():
    assert bundles.shares({0: "a", 1: "b", 2: "a", 3: "b"}, request()) == [
        Share("a", frozenset({0, 2})),
        Share("b", frozenset({1, 3})),
    ]


def test_parts_of_gpus_have_an_agent_each():
    halves = bundles.shares({0: "a", 1: "a"}, request(2, GPU=0.5))
    assert halves == [Share("a", frozenset({0})), Share("a", frozenset({1}))]


def test_lost_bundles_are_served_where_ray_has_moved_them():
    served = [Share("a", frozenset({0, 1})), Share("b", frozenset({2, 3}))]
    assert bundles.shares({0: "a", 1: "a", 2: "b", 3: "b"}, request(), served) == []
    assert bundles.shares({0: "a", 1: "a", 2: "", 3: ""}, request(), served) == [], "Ray has no place yet"
    moved = bundles.shares({0: "a", 1: "a", 2: "a", 3: "c"}, request(), served)
    assert moved == [Share("a", frozenset({2})), Share("c", frozenset({3}))]


def test_a_holder_takes_a_bundle_whole():
    options = bundles.bundle_options(request(CPU=2, GPU=1, memory=100, disk=0.5))
    assert options == {"num_cpus": 2, "num_gpus": 1, "memory": 100, "resources": {"disk": 0.5}}


def flags(count, **each):
    asked = request(**each)
    arguments = bundles.agent_arguments(Share("a", frozenset(range(count))), asked, "10.0.0.1", "host-a")
    assert arguments[5:9] == ["--name", "host-a", "--address", "10.0.0.1"]
    return dict(zip(arguments[9::2], map(int, arguments[10::2]))), bundles.counted(asked)


@pytest.mark.parametrize(("each", "offered", "counted"), [
    ({"CPU": 1}, {"--cpus": 3, "--gpus": 0}, {"CPU": 1}),
    ({"CPU": 1.5}, {"--cpus": 5, "--gpus": 0}, {"CPU": 1.5}),
    ({"CPU": 0.25}, {"--cpus": 3, "--gpus": 0}, {"CPU": 1}),
    ({"disk": 1}, {"--cpus": 3, "--gpus": 0}, {"CPU": 1}),
    ({"GPU": 2}, {"--gpus": 6}, {"CPU": 0, "GPU": 2}),
    ({"CPU": 8, "GPU": 1}, {"--cpus": 24, "--gpus": 3}, {"CPU": 8, "GPU": 1}),
])
def test_a_node_has_room_for_as_many_workers_as_it_has_bundles(each, offered, counted):
    assert flags(3, **each) == (offered, counted)
    for wanted, flag in (("CPU", "--cpus"), ("GPU", "--gpus")):
        if counted.get(wanted):
            assert offered[flag] // counted[wanted] == 3


def node(identity, alive=True, **resources):
    return {"NodeID": identity * 8, "NodeManagerHostname": "host", "Alive": alive, "Resources": resources}


def test_the_table_names_what_each_node_has_and_what_is_free():
    nodes = [node("a", CPU=4.0, memory=8e9, **{"node:10.0.0.1": 1.0}), node("b", GPU=1.0), node("c", alive=False)]
    table = bundles.table_of(nodes, {"a" * 8: {"CPU": 1.5, "memory": 2e9}})
    assert table == (
        "host-aaaaaa has 1.5 of 4 CPU, 2 GB of 8 GB memory; host-bbbbbb has 1 of 1 GPU; host-cccccc is lost"
    )
    assert bundles.table_of([], {}) == "the cluster has no node"


def test_versions_that_differ_are_named_for_both():
    here = {"Python": "3.11", "torch": "2.13.0+cpu", "paceline": "0.1.0"}
    assert bundles.difference(here, {**here, "torch": "2.13.0+cu130"}) == "", "a node with GPUs beside one without"
    assert bundles.difference(here, {**here, "torch": "2.12.1", "Python": "3.12"}) == (
        "Python 3.12 there, 3.11 here; torch 2.12.1 there, 2.13.0+cpu here"
    )
    assert bundles.difference(here, {**here, "torch": ""}) == "torch is missing there, 2.13.0+cpu here"


def test_a_node_that_goes_is_told_once():
    assert bundles.without({"a": 5, "b": 0, "c": 7}, told={"a": 5}, nodes={"a", "b"}) == {"b": 0}


@pytest.fixture
def no_ray(monkeypatch):
    monkeypatch.delenv(connection.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    yield
    paceline.shutdown()


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "ray://head:10001"])
def test_without_ray_the_address_of_a_cluster_says_what_to_install(no_ray, address):
    with pytest.raises(ImportError, match=r'needs Ray.*pip install "paceline\[ray\]"'):
        paceline.init(address=address)
    assert not paceline.is_initialized()


def test_without_ray_the_engine_says_so_before_anything_starts(no_ray, run_config, tmp_path):
    trainer = TorchTrainer(print, scaling_config=ScalingConfig(engine="ray"), run_config=run_config())
    with pytest.raises(ImportError, match=r'pip install "paceline\[ray\]"'):
        trainer.fit()
    assert not (tmp_path / "results").exists()


def test_this_machine_needs_no_ray(no_ray):
    for address in (None, "local"):
        assert paceline.init(address=address, ignore_reinit_error=True)["address"] == "local"
    assert ScalingConfig().engine == "auto"


def test_the_environments_address_counts_as_in_ray(no_ray, monkeypatch):
    monkeypatch.setenv(connection.VARIABLE, "10.0.0.1:6379")
    with pytest.raises(ImportError, match="needs Ray"):
        paceline.init()
    assert paceline.init(address="local")["address"] == "local"


def test_without_a_cluster_workers_have_the_drivers_environment(no_ray):
    with pytest.raises(ValueError, match="'pip'.*On a Ray cluster"):
        RunConfig(worker_runtime_env={"pip": ["a"]})


def test_ray_is_imported_by_its_engine_alone():
    code = "import paceline, paceline.train.torch, paceline.data, sys; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert "ray" not in importlib.import_module("paceline").__dict__


class FakeEngine:
    """Ray gives what is asked for once `gives` is set, or at once."""

    gives, log = None, []

    def __init__(self, scaling_config, failure_config, starts_python=True):
        assert scaling_config.engine == "ray" and not starts_python
        self.asked = scaling_config.num_workers, scaling_config.resources_per_worker, failure_config.start_timeout_s
        self._given_up = threading.Event()

    def __enter__(self):
        self.log.append(self.asked)
        if self.gives is False:
            assert self._given_up.wait(60)
            raise RuntimeError("not wanted any more")
        return {"nodes": 2}

    def __exit__(self, *exception):
        self.log.append("released")

    def give_up(self):
        self._given_up.set()


@pytest.fixture
def machines(monkeypatch):
    """The program's end of the socket, and what the other one does with Ray."""
    from paceline._ray import engine

    monkeypatch.setattr(engine, "Engine", FakeEngine)
    monkeypatch.setattr(FakeEngine, "log", [])
    ours, theirs = socket.socketpair()
    served = program.Machines(ours)
    thread = threading.Thread(target=served.serve)
    thread.start()
    with theirs, theirs.makefile("rw") as lines:
        yield lines
    theirs.close()
    thread.join()
    served.release()


def asked(lines, message):
    lines.write(json.dumps(message) + "\n")
    lines.flush()
    return json.loads(lines.readline())


def test_a_program_gets_machines_for_each_of_its_runs(machines):
    wanted = {"num_workers": 2, "resources_per_worker": {}, "nodes": None, "placement_strategy": "SPREAD"}
    for _ in range(2):
        assert asked(machines, {"reserve": wanted, "start_timeout_s": 7}) == {"settings": {"nodes": 2}}
        assert asked(machines, {"release": True}) == {"released": True}
    assert FakeEngine.log == [(2, None, 7), "released"] * 2


def test_a_program_may_give_up_what_ray_has_not_given(machines, monkeypatch):
    monkeypatch.setattr(FakeEngine, "gives", False)
    machines.write(json.dumps({"reserve": {"num_workers": [1, 3]}, "start_timeout_s": 60}) + "\n")
    assert asked(machines, {"release": True}) == {"error": "not wanted any more"}
    assert json.loads(machines.readline()) == {"released": True}
    assert FakeEngine.log == [((1, 3), None, 60)]


def test_what_no_cluster_can_give_is_said(machines):
    answer = asked(machines, {"reserve": {"num_workers": 2, "use_tpu": False, "label_selector": 3}, "start_timeout_s": 7})
    assert "label_selector" in answer["error"]


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)])
def test_the_program_is_started_with_the_words_of_the_job(tmp_path, script, code):
    fake = tmp_path / "paceline"
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\n[ -e /proc/self/fd/$PACELINE_RAY ] || exit 1\n{script}\n')
    fake.chmod(0o755)
    start = f"import sys; from paceline._ray import program; program.command_line.PROGRAM = {str(fake)!r}; "
    command = [sys.executable, "-c", start + "sys.exit(program.run(sys.argv[1:]))", "--name=job", "--", "./train", "a b"]
    assert subprocess.run(command, env=os.environ).returncode == code
    assert (tmp_path / "words").read_text() == "run --engine ray --name=job -- ./train a b\n"
