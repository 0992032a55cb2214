"""A driver that is interrupted or killed: what it says, and that nothing is left of it."""

import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent(
    """
    import sys
    import time

    import paceline.train as train
    from paceline.train.torch import TorchTrainer


    def loop():
        print(f"looping in {train.get_context().get_world_rank()}", flush=True)
        while True:
            train.report({"n": 1})
            time.sleep(0.001)


    settings = train.RunConfig(storage_path=sys.argv[1], name="run")
    try:
        result = TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=2), run_config=settings).fit()
        print(f"{result.state}: {result.stop_cause}, {result.stop_reason}")
    except KeyboardInterrupt as error:
        print(f"interrupted: {error}")
    """
)


@pytest.fixture
def driver(tmp_path):
    """The program, when both its workers train; all processes that belong to it have its mark in their environment."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "DRIVER_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, program, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # where the workers' output goes
        text=True,
        env=environment,
        start_new_session=True,
    )
    looping = set()
    for line in process.stdout:
        looping |= {rank for rank in "01" if f"looping in {rank}" in line}
        if len(looping) == 2:
            break
    yield process
    process.kill()
    process.wait()


def marked(tmp_path):
    """Pidfds of the processes with the mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"DRIVER_TEST_MARK={tmp_path}".encode() in file.read().split(b"\0"):
                    found.append(os.pidfd_open(int(pid)))
        except OSError:
            pass  # it has ended, or is another user's
    return found


def wait_for_all(pidfds):
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 60)[0], "a process was left behind"
        os.close(pidfd)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "interrupted: the run was stopped; fit() with the same name continues it"),
        (signal.SIGTERM, "aborted: StopCause.TERMINATED, the driver got SIGTERM"),  # nobody is at a keyboard
    ],
)
def test_an_interrupt_raises_and_sigterm_gives_the_result(driver, tmp_path, number, said):
    processes = marked(tmp_path)
    assert len(processes) >= 4  # driver, guardian, warm process, workers
    driver.send_signal(number)
    output = driver.stdout.read()
    assert driver.wait() == 0
    assert said in output
    wait_for_all(processes)


def test_nothing_is_left_of_a_driver_that_was_killed(driver, tmp_path):
    processes = marked(tmp_path)
    driver.kill()
    driver.wait()
    wait_for_all(processes)
    assert marked(tmp_path) == []


@pytest.mark.parametrize(
    ("command", "name"), [(["my program.py"], "my_program_20"), (["-m", "package.train"], "package.train_20")], ids=["script", "module"]
)
def test_a_run_without_a_name_has_that_of_the_program(tmp_path, command, name):
    program = textwrap.dedent(
        """
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        if __name__ == "__main__":
            settings = train.RunConfig(storage_path="runs")
            TorchTrainer(lambda: None, scaling_config=train.ScalingConfig(num_workers=0), run_config=settings).fit()
        """
    )
    (tmp_path / "package").mkdir()
    for file in ("my program.py", "package/__init__.py", "package/train.py"):
        (tmp_path / file).write_text(program)
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=True, timeout=120)
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith(name)
