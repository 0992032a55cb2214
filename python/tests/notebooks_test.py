"""fit() in a notebook: what cells define travels to the workers, what workers print and raise arrives in the cell."""

import dataclasses
import pathlib
import re
import sys
import textwrap

import pytest
from jupyter_client.manager import start_new_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import notebooks  # noqa: E402


@dataclasses.dataclass
class Outcome:
    """What a cell has come to."""

    printed: str = ""  # on both streams
    shown: str = ""  # as HTML
    value: str = ""  # repr of the last expression
    error: str = ""  # name and text of what it raised


class Notebook:
    """Cells that are run one after another in one kernel."""

    def __init__(self, folder, environment):
        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder), env=environment)
        setting_up = """
            import paceline.train as train
            from paceline.train.torch import TorchTrainer, prepare_model
            import torch

            def fit(train_loop, config=None):
                scaling = train.ScalingConfig(num_workers=2)
                settings = train.RunConfig(storage_path="results")
                return TorchTrainer(train_loop, train_loop_config=config, scaling_config=scaling, run_config=settings).fit()
        """
        assert not self.run(setting_up).error

    def run(self, cell, interrupt_after=None) -> Outcome:
        """`interrupt_after`: interrupts the kernel, as its stop button does, as soon as this was printed."""
        request = self.client.execute(textwrap.dedent(cell))
        outcome = Outcome()
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                outcome.printed += content["text"]
            elif kind == "display_data":
                outcome.shown += content["data"].get("text/html", "")
            elif kind == "execute_result":
                outcome.value = content["data"]["text/plain"]
            elif kind == "error":
                outcome.error = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                return outcome
            if interrupt_after and interrupt_after in outcome.printed:
                interrupt_after = None
                self.manager.interrupt_kernel()

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    with notebooks.kernel(folder / ".jupyter") as environment:
        notebook = Notebook(folder, environment)
        yield notebook
        notebook.close()


def test_what_cells_define_travels_to_the_workers(notebook):
    notebook.run(
        """
        class Double(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.factor = torch.nn.Parameter(torch.tensor(2.0))

            def forward(self, x):
                return self.factor * x

        def loop_with(offset):
            def loop(config):
                model = prepare_model(Double())
                train.report({"answer": config["then"](model(torch.ones(1)).item()) + offset})
            return loop
        """
    )
    outcome = notebook.run("fit(loop_with(100), {'then': lambda x: 10 * x}).metrics")
    assert outcome.value == "{'answer': 120.0}", outcome
    # Cells are edited and run again.
    notebook.run("class Double(torch.nn.Module):\n    def forward(self, x):\n        return 3 * x")
    assert notebook.run("fit(lambda: train.report({'answer': Double()(1)})).metrics").value == "{'answer': 3}"


def test_what_workers_print_arrives_in_the_cell(notebook):
    outcome = notebook.run("fit(lambda: print('hello from', train.get_context().get_world_rank())).state")
    assert outcome.value == "'finished'"
    for rank in range(2):
        assert f"(rank {rank}) hello from {rank}\n" in outcome.printed


def test_what_workers_print_is_captured_with_the_cell(notebook):
    outcome = notebook.run("%%capture captured\nfit(lambda: print('hello')).state")
    assert not outcome.error and "hello" not in outcome.printed
    assert notebook.run("sorted(captured.stdout.splitlines())").value == "['(rank 0) hello', '(rank 1) hello']"


def test_an_error_names_the_cell_and_shows_its_line(notebook):
    assert not notebook.run("def broken_step(x):\n    return torch.ones(3) @ x").error
    outcome = notebook.run("fit(lambda: broken_step(torch.ones(4)))")
    assert outcome.error.startswith("WorkerGroupError: ") and "RuntimeError" in outcome.error
    assert "at broken_step (Cell In[" in outcome.error and "]:2): return torch.ones(3) @ x\n" in outcome.error


def test_an_interrupt_stops_the_run_and_leaves_the_kernel_alive(notebook):
    outcome = notebook.run(
        """
        import time

        def endless():
            print("looping")
            while True:
                train.report({"n": 1})
                time.sleep(0.001)

        fit(endless)
        """,
        interrupt_after="(rank 1) looping",
    )
    assert outcome.error.startswith("KeyboardInterrupt: the run was stopped; fit() with the same name continues it")
    assert notebook.run("fit(lambda: train.report({'n': 2})).metrics").value == "{'n': 2}"


def test_the_dashboard_is_a_link(notebook):
    notebook.run(
        """
        import os

        os.environ["PACELINE_STATE_DIR"] = os.path.abspath("state")  # where nobody serves one yet
        settings = train.RunConfig(storage_path="results", dashboard=True)
        trainer = TorchTrainer(lambda: None, scaling_config=train.ScalingConfig(num_workers=1), run_config=settings)
        """
    )
    shown = notebook.run("result = trainer.fit()")
    assert re.search(r'<a href="http://127\.0\.0\.1:\d+/#code=[0-9a-f]{32}/runs/[0-9a-f]{32}" target="_blank"', shown.shown)
    assert "#code=" not in shown.printed, "once is enough"
