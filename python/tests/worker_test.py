"""Worker processes: what they run in, what becomes of their output, and how they fail together."""

import contextlib
import io
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import paceline.train as train
from paceline.train import DebugConfig, FailureConfig, RunConfig, ScalingConfig
from paceline.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model


def fit(loop, settings, workers=2, **more):
    return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=settings, **more).fit()


def test_workers_say_who_they_are(run_config):
    def loop():
        with open("/proc/self/cmdline") as file:
            return file.read().rstrip("\0")

    assert fit(loop, run_config(name="mine")).return_value == "paceline worker 0 of mine"


def test_workers_have_the_drivers_directory_or_one_of_the_run(run_config, monkeypatch):
    assert fit(os.getcwd, run_config(), workers=1).return_value == os.getcwd()
    monkeypatch.setenv("PACELINE_TRAIN_CHDIR_TO_TRIAL_DIR", "1")
    result = fit(os.getcwd, run_config())
    assert result.return_value == os.path.join(result.path, "artifacts")


def test_variables_of_the_run_go_over_the_drivers(run_config, monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "the driver's")
    monkeypatch.setenv("ANOTHER_VARIABLE", "the driver's")
    settings = run_config(worker_runtime_env={"env_vars": {"A_VARIABLE": "the run's", "A_NUMBER": 3}})
    found = fit(lambda: [os.environ[name] for name in ("A_VARIABLE", "ANOTHER_VARIABLE", "A_NUMBER")], settings)
    assert found.return_value == ["the run's", "the driver's", "3"]


def test_what_workers_cannot_be_given_is_refused_by_name():
    with pytest.raises(ValueError, match="'pip'.*install packages there"):
        RunConfig(worker_runtime_env={"pip": ["torch"]})
    with pytest.raises(ValueError, match="names without '='"):
        RunConfig(worker_runtime_env={"env_vars": {"A=B": "1"}})


def test_variables_read_when_libraries_are_loaded_reach_them(run_config, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    def started_with():
        with open("/proc/self/environ") as file:  # of the process that the worker was forked from
            return file.read().split("\0")

    settings = run_config(worker_runtime_env={"env_vars": {"MKL_VERBOSE": "0"}})
    assert {"OMP_NUM_THREADS=1", "MKL_VERBOSE=0"} <= set(fit(started_with, settings, workers=1).return_value)


def run_program(tmp_path, text, **environment):
    """A driver of its own: its standard output and its standard error, where its workers' output goes too."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=200, env={**os.environ, **environment}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_output_of_all_kinds_arrives_in_order_marked_by_rank(tmp_path):
    printed, shown = run_program(
        tmp_path,
        """
        import logging, sys, warnings
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        def loop():
            from tqdm import tqdm
            rank = train.get_context().get_world_rank()
            print("one")
            print("two", file=sys.stderr)
            logging.getLogger("user").warning("three")
            warnings.warn("four")
            for _ in tqdm(range(2), desc="epochs"):
                for _ in tqdm(range(20), desc="steps", leave=False):
                    pass
                for _ in tqdm(range(3), desc="test", leave=True):
                    pass
            print("five")

        print("before")
        TorchTrainer(
            loop, scaling_config=train.ScalingConfig(num_workers=2), run_config=train.RunConfig(storage_path="results")
        ).fit()
        print("after")
        """,
    )
    assert printed.startswith("before\n") and printed.endswith("after\n")
    assert shown.splitlines()[-1] == f"results: {next((tmp_path / 'results').iterdir())}"
    for rank in (0, 1):
        mark = f"(rank {rank}) "
        own = [line.removeprefix(mark) for line in shown.splitlines() if line.startswith(mark)]
        assert [line for line in printed.splitlines() if line.startswith(mark)] == [mark + "one", mark + "five"]
        assert own.index("two") < own.index("three") and any("UserWarning: four" in line for line in own)
        # What its bars showed in the end is left of them, once.
        bars = ["test: 100%", "test: 100%", "epochs: 100%"]
        assert [line.partition("|")[0] for line in own if "it/s]" in line] == bars
        log = next((tmp_path / "results").glob(f"*/logs/worker_{rank + 1}.log")).read_text()
        assert [line.partition("|")[0] for line in log.splitlines() if "it/s]" in line] == bars
        assert "\x1b" not in log and "steps" not in log


def test_output_goes_to_the_streams_that_the_program_has_put_in_place_of_its_own(run_config, capsys):
    def loop():
        print("one")
        print("two", file=sys.stderr)

    fit(loop, run_config(), workers=1)
    captured = capsys.readouterr()
    assert captured.out == "(rank 0) one\n" and "(rank 0) two\n" in captured.err
    assert "(rank 0) one" not in captured.err

    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        fit(loop, run_config(), workers=1)
    assert {"(rank 0) one", "(rank 0) two"} <= set(written.getvalue().splitlines())
    assert capsys.readouterr() == ("", "")


def test_a_stream_that_raises_costs_its_text_and_no_run(run_config, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise ValueError("the stream is closed")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(str(unraisable.exc_value)))
    with contextlib.redirect_stdout(Closed()):
        result = fit(lambda: [print(line) for line in range(3)], run_config(), workers=1)
    assert result.state == "finished" and told == ["the stream is closed"]
    with open(os.path.join(result.path, "logs/worker_1.log")) as log:
        assert log.read().split() == ["0", "1", "2"]


def test_sys_exit_ends_a_worker_as_it_ends_a_program(run_config):
    assert fit(lambda: sys.exit(0), run_config()).state == "finished"
    with pytest.raises(train.WorkerGroupError, match="SystemExit: 3"):
        fit(lambda: sys.exit(3), run_config(), workers=1)


@pytest.mark.parametrize("call", [lambda: input("name? "), breakpoint, lambda: __import__("pdb").set_trace()])
def test_what_wants_a_terminal_says_how_a_worker_gets_one(run_config, call):
    def loop():
        call()
        return None

    with pytest.raises(train.WorkerGroupError, match=r"a worker has no terminal; .*debug_rank=0"):
        fit(loop, run_config(), workers=1)


def test_the_rank_that_is_debugged_has_the_terminal(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import paceline.train as train
            from paceline.train.torch import TorchTrainer

            def loop():
                rank, secret = train.get_context().get_world_rank(), 41
                if rank == 1:
                    breakpoint()
                    return print("got", input("name? "))

            settings = train.RunConfig(storage_path="results", debug_config=train.DebugConfig(debug_rank=1))
            TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=2), run_config=settings).fit()
            print("the driver's", input("again? "))
            """
        )
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, str(program)])
    shown = b""
    for prompt, answer in ((b"(Pdb)", b"p secret + 1"), (b"(Pdb)", b"c"), (b"name?", b"Ada"), (b"again?", b"Grace")):
        while prompt not in shown:
            shown += os.read(terminal, 4096)
        text, shown = shown, b""
        os.write(terminal, answer + b"\n")
        if answer == b"c":
            assert b"42" in text
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:
        pass  # the program has ended
    assert os.waitpid(pid, 0)[1] == 0 and b"the driver's Grace" in shown and b"got Ada" in text + shown


def test_children_that_are_spawned_find_the_programs_functions_and_classes(tmp_path):
    # The program has no `if __name__ == "__main__"`: a child that ran it would begin a run.
    shown, _ = run_program(
        tmp_path,
        """
        import concurrent.futures, io, multiprocessing
        import torch
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        class Squares(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return square(index)

        class Number:
            def __init__(self, value):
                self.value = value

        def square(value):
            return value * value

        def number(value):
            return Number(square(value))

        def loop():
            loader = torch.utils.data.DataLoader(Squares(), num_workers=1, multiprocessing_context="spawn")
            rows = [row.item() for row in loader]
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                three = pool.submit(number, 3).result()
            torch.save(Squares(), io.BytesIO())
            return [rows, three.value, isinstance(three, Number)]

        settings = train.RunConfig(storage_path="results")
        print(TorchTrainer(loop, run_config=settings).fit().return_value)
        """,
    )
    assert shown.splitlines() == ["[[0, 1, 4, 9], 9, True]"]


def test_a_driver_that_was_spawned_sends_its_script(tmp_path):
    shown, _ = run_program(
        tmp_path,
        """
        import multiprocessing
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        class Number:
            def __init__(self, value):
                self.value = value

        def loop():
            return Number(3)

        def fit(shown):
            result = TorchTrainer(loop, run_config=train.RunConfig(storage_path="results")).fit()
            shown.put([result.return_value.value, isinstance(result.return_value, Number)])

        if __name__ == "__main__":
            spawn = multiprocessing.get_context("spawn")
            shown = spawn.Queue()
            driver = spawn.Process(target=fit, args=(shown,))
            driver.start()
            driver.join()
            print(driver.exitcode or shown.get())
        """,
    )
    assert shown.splitlines() == ["[3, True]"]


def test_settings_of_ray_train_get_one_notice(tmp_path):
    _, shown = run_program(
        tmp_path,
        """
        import paceline
        paceline.init()
        paceline.shutdown()
        paceline.init()
        """,
        RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S="90",
        RAY_TRAIN_HEALTH_CHECK_INTERVAL_S="1",
        PACELINE_TRAIN_ENABLE_PRINT_PATCH="0",
    )
    assert shown.splitlines() == [
        "paceline: PACELINE_TRAIN_ENABLE_PRINT_PATCH has no effect: all output of workers arrives, marked by rank",
        "paceline: RAY_TRAIN_HEALTH_CHECK_INTERVAL_S is Ray Train's; Paceline does without: nothing is polled",
        "paceline: RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S is Ray Train's; Paceline reads "
        "PACELINE_TRAIN_WORKER_GROUP_START_TIMEOUT_S",
    ]


class FromTheEnvironment(train.UserCallback):
    finished = []

    def after_finish(self, run_context, state, error, stop_reason):
        self.finished.append(state)


def test_settings_come_from_the_environment(run_config, monkeypatch):
    monkeypatch.setenv("PACELINE_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "90")
    monkeypatch.setenv("PACELINE_TRAIN_CALLBACKS", f"{__name__}.FromTheEnvironment")
    assert FailureConfig().start_timeout_s == 90 and FailureConfig(start_timeout_s=5).start_timeout_s == 5
    assert fit(lambda: None, run_config(), workers=1).state == "finished"
    assert FromTheEnvironment.finished == ["finished"]
    monkeypatch.setenv("PACELINE_TRAIN_CALLBACKS", "nowhere.Nothing")
    with pytest.raises(ValueError, match="'nowhere.Nothing', which is not there"):
        RunConfig()
    monkeypatch.setenv("PACELINE_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "soon")
    with pytest.raises(ValueError, match="WORKER_GROUP_START_TIMEOUT_S is 'soon'"):
        FailureConfig()


def test_an_import_that_fails_on_a_worker_says_so(run_config):
    def loop():
        import a_module_that_is_not_there  # noqa: F401

    with pytest.raises(train.WorkerGroupError, match="ModuleNotFoundError: No module named 'a_module_that_is_not_there'"):
        fit(loop, run_config())


def test_a_rank_that_waits_for_a_failed_one_is_folded_under_it(run_config):
    def loop():
        if train.get_context().get_world_rank() == 1:
            raise ValueError("the cause")
        dist.all_reduce(torch.ones(1))

    def in_backward():
        model = prepare_model(torch.nn.Linear(1, 1))
        loss = model(torch.ones(1, 1)).sum()
        if train.get_context().get_world_rank() == 1:
            raise ValueError("the cause")
        loss.backward()

    for failing in (loop, in_backward):
        with pytest.raises(train.WorkerGroupError) as caught:
            fit(failing, run_config())
        first = str(caught.value).splitlines()[0]
        assert first.startswith("Rank 1 of 2") and first.endswith("ValueError: the cause")


@pytest.mark.parametrize("collective", ["backward", "barrier", "broadcast"])
def test_a_collective_that_lost_a_rank_is_known_as_a_consequence(run_config, collective):
    def loop():
        model = prepare_model(torch.nn.Linear(2, 2))
        dist.barrier()
        if train.get_context().get_world_rank() == 1:
            return
        try:
            if collective == "backward":
                model(torch.ones(1, 2)).sum().backward()
            elif collective == "barrier":
                dist.barrier()
            else:
                dist.broadcast(torch.ones(1), 1)
        except dist.DistBackendError as failure:
            raise ValueError("and what became of it") from failure

    settings = run_config(name="run", debug_config=DebugConfig(hang_action="off"))  # so that the collective ends by itself
    trainer = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        torch_config=train.torch.TorchConfig(timeout_s=5),
        run_config=settings,
    )
    with pytest.raises(train.WorkerGroupError, match="what became of it.*failed on rank 0 of 2"):
        trainer.fit()
    with open(os.path.join(settings.storage_path, "run", "journal.jsonl")) as journal:
        failed = [event for event in map(json.loads, journal) if event.get("event") == "worker_failed"]
    assert [event["collateral"] for event in failed] == [True]


def test_a_rank_that_waits_in_a_collective_is_stopped_at_once(run_config):
    class Stops(train.UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            run_context.stop("enough")

    def loop():
        train.report({"n": 1})
        if train.get_context().get_world_rank() == 0:
            dist.all_reduce(torch.ones(1))  # rank 1 never comes
        else:
            loader = prepare_data_loader(DataLoader(TensorDataset(torch.ones(4))))
            while True:
                try:
                    list(loader)
                except Exception:
                    pass  # the end of the run is none

    settings = run_config(callbacks=[Stops()], failure_config=FailureConfig(stop_grace_s=100))
    result = fit(loop, settings)
    assert result.state == "finished" and result.stop_reason == "enough"


def test_a_hang_names_the_collective_and_who_is_not_there(run_config):
    def loop():
        for _ in range(4):
            train.report({"n": 1})
            dist.all_reduce(torch.ones(1))
        if train.get_context().get_world_rank() == 0:
            dist.all_reduce(torch.ones(1))
        else:
            import threading

            threading.Event().wait()

    debug = DebugConfig(hang_action="fail", hang_floor_s=0.5, hang_factor=1, hang_start_s=1)
    with pytest.raises(train.TrainingFailedError, match="The run hangs.*rank 1.*rank 0 waits in all_reduce 5"):
        fit(loop, run_config(debug_config=debug))


def test_a_rank_that_can_never_come_ends_the_run_in_seconds(run_config):
    def loop():
        dist.barrier()
        if train.get_context().get_world_rank() == 0:
            sum_over_all_ranks()

    def sum_over_all_ranks():
        dist.all_reduce(torch.ones(1))

    with pytest.raises(train.TrainingFailedError, match="rank 0 waits in all_reduce 2, which rank 1 can never join") as caught:
        fit(loop, run_config(debug_config=DebugConfig(hang_action="fail")))
    assert re.search(r"at sum_over_all_ranks \(.*worker_test.py:\d+\): dist.all_reduce", str(caught.value))


def test_a_rank_whose_collective_did_not_fit_those_of_ranks_that_have_returned_ends_the_run_in_seconds(run_config):
    def loop():
        dist.barrier()
        sum_over_all_ranks(torch.ones(2 + train.get_context().get_world_rank()))

    def sum_over_all_ranks(tensor):
        dist.all_reduce(tensor)

    debug = DebugConfig(hang_action="fail", hang_floor_s=2)
    over_gloo = TorchConfig(backend="gloo")  # through shared memory such calls are refused at once
    text = "rank 1 waits in all_reduce 2 for nobody: the train loop of rank 0 has returned.*DebugConfig.check_collectives"
    with pytest.raises(train.TrainingFailedError, match=text) as caught:
        fit(loop, run_config(debug_config=debug), torch_config=over_gloo)
    assert re.search(r"at sum_over_all_ranks \(.*worker_test.py:\d+\): dist.all_reduce", str(caught.value))


def test_the_first_gradient_that_is_not_finite_is_named(run_config):
    def loop():
        model = prepare_model(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)))
        for _ in prepare_data_loader(DataLoader(TensorDataset(torch.ones(4)), batch_size=2)):
            (model(torch.ones(1, 1)) * float("nan")).sum().backward()

    with pytest.raises(train.WorkerGroupError, match=r"step 1: the gradient of 1\.\w+ is not finite"):
        fit(loop, run_config(debug_config=DebugConfig(nan_watch="stop")))


def test_collectives_that_do_not_fit_together_are_named_where_they_are_compared(run_config):
    def loop():
        rank = train.get_context().get_world_rank()
        dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(2 + rank))

    with pytest.raises(train.WorkerGroupError, match=r"(?s)ALLREDUCE.*\[2\].*\[3\]|ALLREDUCE.*\[3\].*\[2\]"):
        fit(loop, run_config(debug_config=DebugConfig(check_collectives=True)))


@pytest.mark.parametrize(
    "layers, difference",
    [
        (lambda rank: [torch.nn.Linear(1, 2 + rank)], r'parameter "0.weight" on rank 1: wanted=float32 \[2, 1\] trained.*got='),
        (lambda rank: [torch.nn.Linear(1, 1) for _ in range(1 + rank)], r'parameter "1.bias" on rank 1 does not exist on rank 0'),
        (lambda rank: [torch.nn.BatchNorm1d(1, track_running_stats=rank == 0)], r'buffer "0.\w+" is missing on rank 1'),
    ],
)
def test_a_model_that_differs_between_ranks_is_named_by_parameter(run_config, layers, difference):
    def loop():
        prepare_model(torch.nn.Sequential(*layers(train.get_context().get_world_rank())))

    with pytest.raises(train.WorkerGroupError, match="the ranks hold different models: " + difference):
        fit(loop, run_config())


def test_weights_that_differ_between_ranks_are_found(run_config):
    def loop():
        model = prepare_model(torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)))
        for step in range(4):
            if step == 2 and train.get_context().get_world_rank() == 1:
                with torch.no_grad():
                    model.module[1].weight += 1e-6
            model(torch.ones(1, 1)).sum().backward()

    with pytest.raises(train.WorkerGroupError, match=r'different weights: "1.weight" on rank 1 is not .* before step 4'):
        fit(loop, run_config(debug_config=DebugConfig(check_ranks_every=2)))


def test_loops_in_the_calling_process_have_a_process_group_and_leave_nothing_behind(run_config):
    def loop():
        train.torch.enable_reproducibility(3)
        train.torch.accelerate(amp=True)
        total = torch.ones(1)
        dist.all_reduce(total)
        return [dist.get_world_size(), total.item()]

    for _ in range(2):
        assert fit(loop, run_config(), workers=0).return_value == [1, 1.0]
        assert not dist.is_initialized() and not torch.are_deterministic_algorithms_enabled()


def test_under_torchrun_loops_join_its_group(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import os
            import torch
            import torch.distributed as dist
            import paceline.train as train
            from paceline.train.torch import TorchTrainer, prepare_model

            def loop():
                prepare_model(torch.nn.Linear(2, 2))
                total = torch.tensor([train.get_context().get_world_rank() + 1.0])
                dist.all_reduce(total)
                train.report({"total": total.item()})

            result = TorchTrainer(
                loop, scaling_config=train.ScalingConfig(num_workers=0), run_config=train.RunConfig(storage_path="results", name="run")
            ).fit()
            assert result.metrics == {"total": 3.0}, result
            # A thread that holds a tensor while Python ends would abort it.
            threads = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
            assert "pt_gloo_runloop" not in threads, threads
            """
        )
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_page_on_porting_names_every_setting_of_the_environment():
    from paceline import _environment

    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/porting/ray_train.md").read_text()
    assert set(re.findall(r"^\| `PACELINE_TRAIN_(\w+)`", page, re.MULTILINE)) == set(_environment.SETTINGS)


def test_an_error_in_the_calling_process_is_told_as_python_s(run_config):
    def loop():
        raise ValueError("row 7 is bad")

    with pytest.raises(train.TrainingFailedError) as failed:
        fit(loop, run_config(), workers=0)
    text = str(failed.value)
    assert "ValueError" in text and "row 7 is bad" in text and "worker_test.py" in text
    assert "error_already_set" not in text


def test_steps_of_an_optimizer_count_where_no_loader_does(run_config):
    """Of two, those of the first."""
    program = pathlib.Path(train.__file__).parents[3] / "paceline/cli/paceline"

    def loop(config):
        models = [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        for _ in range(7):
            for model, optimizer in zip(models, optimizers):
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
        step = 0
        while step < 7:  # once a second the driver looks
            shown = subprocess.run([config["program"], "show", config["run"], "--json"], capture_output=True, text=True)
            step = json.loads(shown.stdout)["workers"][0]["step"]
        return step

    settings = run_config(name="counted")
    config = {"program": str(program), "run": f"{settings.storage_path}/counted"}
    assert fit(loop, settings, workers=1, train_loop_config=config).return_value == 7
