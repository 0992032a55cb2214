"""The process that workers are forked from: one thread, no lock, and what the driver has imported, where that is safe."""

import gc
import json
import os
import random
import subprocess
import sys
import textwrap
import threading

import torch

import paceline.train as train
from paceline.train import ScalingConfig
from paceline.train.torch import TorchTrainer
from worker_test import run_program


def fit(loop, settings, workers=2):
    return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=settings).fit()


def seen_by_a_worker():
    """Of the warm processes of this worker's guardian: their threads. Of the worker itself: what it was forked with."""
    import _imp
    import logging

    def parent_and_command(pid):
        with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as command:
            return int(stat.read().rpartition(")")[2].split()[1]), command.read()

    guardian, servers = os.getppid(), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent, command = parent_and_command(pid)
        except OSError:
            continue  # it has ended
        if parent == guardian and "paceline._warm" in command:
            servers.append(len(os.listdir(f"/proc/{pid}/task")))
    locks = [handler.lock for handler in logging.root.handlers] + [logging._lock]
    return {
        "servers": servers,
        "is_forked": gc.get_freeze_count() > 0,
        "imports": _imp.lock_held(),
        "locks": [not lock.acquire(blocking=False) for lock in locks],
        "threads": [thread.name for thread in threading.enumerate()],
        "modules": sorted(sys.modules),
    }


def test_no_thread_lives_in_it_and_no_lock_is_held(run_config):
    seen = fit(seen_by_a_worker, run_config()).return_value
    assert seen["is_forked"] and seen["servers"] and set(seen["servers"]) == {1}
    assert not seen["imports"] and not any(seen["locks"])
    assert seen["threads"] == ["MainThread"]


def test_later_runs_find_what_data_parallelism_imports(run_config):
    def loop():
        return "torch._dynamo" in sys.modules

    # It is imported after the first run, and runs that come meanwhile do not wait for it.
    assert any(fit(loop, run_config(), workers=1).return_value for _ in range(50))


def test_what_the_driver_has_imported_is_there_and_what_starts_a_thread_is_left_to_the_workers(tmp_path):
    site = tmp_path / "site-packages"
    (site / "lazy_package").mkdir(parents=True)
    (site / "lazy_package/__init__.py").write_text("def __getattr__(name): raise AttributeError(name)\n")
    (site / "lazy_package/part.py").write_text("")
    for name in ("harmless_module", "another_module"):
        (site / f"{name}.py").write_text("")
    (site / "module_with_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    shown, _ = run_program(
        tmp_path,
        """
        import sys
        import another_module, harmless_module, lazy_package.part, module_with_a_thread
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        def loop():
            names = {"another_module", "harmless_module", "lazy_package.part", "module_with_a_thread"}
            at_start = sorted(names & set(sys.modules))
            import module_with_a_thread
            return at_start

        settings = train.RunConfig(storage_path="results")
        print(TorchTrainer(loop, run_config=settings).fit().return_value)
        """,
        PYTHONPATH=os.pathsep.join([str(site), os.environ["PYTHONPATH"]]),
    )
    assert shown.strip() == "['another_module', 'harmless_module', 'lazy_package.part']"


def test_random_numbers_differ_between_workers_and_runs(tmp_path):
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "library_with_generators.py").write_text(
        "import random, numpy\n"
        "own, fixed = random.Random(), random.Random(5)\n"
        "bits, fixed_bits, legacy = numpy.random.default_rng(), numpy.random.default_rng(5), numpy.random.RandomState()\n"
    )
    shown, _ = run_program(
        tmp_path,
        """
        import json
        import library_with_generators as library
        import numpy
        import torch
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        def loop():
            import random

            drawn = {
                "dropout": torch.nn.functional.dropout(torch.ones(64)).tolist(),
                "torch": torch.rand(1).item(),
                "order": torch.randperm(64).tolist(),
                "random": random.random(),
                "numpy": numpy.random.rand(),
                "a library's": library.own.random(),
                "a library's of numpy": library.bits.random(),
                "a library's old one of numpy": library.legacy.rand(),
                "a library's with a seed": [library.fixed.random(), library.fixed_bits.random()],
            }
            ranks = [None] * train.get_context().get_world_size()
            torch.distributed.all_gather_object(ranks, drawn)
            return ranks

        torch.manual_seed(1)  # the driver's, which means nothing to workers
        settings = train.RunConfig(storage_path="results")
        trainer = TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=2), run_config=settings)
        print(json.dumps([trainer.fit().return_value for _ in range(2)]))
        """,
        PYTHONPATH=os.pathsep.join([str(site), os.environ["PYTHONPATH"]]),
    )
    drawn = [rank for run in json.loads(shown.splitlines()[-1]) for rank in run]
    assert len(drawn) == 4
    for name in drawn[0]:
        different = {str(rank[name]) for rank in drawn}
        assert len(different) == (1 if name == "a library's with a seed" else 4), name


def test_generators_of_libraries_are_as_in_a_new_interpreter(tmp_path):
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "library_that_seeds.py").write_text(
        "import random, numpy, torch\nrandom.seed(1), numpy.random.seed(1), torch.manual_seed(1)\n"
    )
    (site / "library_with_states.py").write_text(
        textwrap.dedent(
            """
            import random, numpy

            sequence, given_sequence = numpy.random.SeedSequence(), numpy.random.SeedSequence(5)
            (child,) = sequence.spawn(1)
            parent = numpy.random.default_rng()
            normals, reseeded, reseeded_itself = (numpy.random.RandomState() for _ in range(3))
            normals.randn()  # a second number is kept
            reseeded.seed(7), reseeded_itself.seed()
            of_state, of_list = numpy.random.default_rng(), numpy.random.default_rng([1, 2])
            of_twister = numpy.random.RandomState()
            of_state.bit_generator.state = numpy.random.PCG64(5).state
            of_twister.set_state(numpy.random.RandomState(5).get_state())
            drawn_from, put_back = numpy.random.RandomState(), random.Random()
            drawn_from.rand(5000)
            state = put_back.getstate()
            put_back.seed(3), put_back.setstate(state)
            """
        )
    )
    program = """
        import json
        import library_with_states as library
        import numpy
        import torch
        import paceline.train as train
        from paceline.train.torch import TorchTrainer
        {}

        def loop():
            import random

            drawn = {{
                "torch": torch.rand(1).item(),
                "random": random.random(),
                "numpy": numpy.random.rand(),
                "sequence": int(library.sequence.generate_state(1)[0]),
                "sequence's child": int(library.child.generate_state(1)[0]),
                "sequence's next child": int(library.sequence.spawn(1)[0].generate_state(1)[0]),
                "generator": library.parent.random(),
                "generator's child": library.parent.spawn(1)[0].random(),
                "normals": library.normals.randn(),
                "reseeded itself": library.reseeded_itself.rand(),
                "drawn from": library.drawn_from.rand(),
                "put back": library.put_back.random(),
                "given: sequence": int(library.given_sequence.generate_state(1)[0]),
                "given: reseeded": library.reseeded.rand(),
                "given: state": library.of_state.random(),
                "given: list": library.of_list.random(),
                "given: twister's state": library.of_twister.rand(),
            }}
            ranks = [None] * train.get_context().get_world_size()
            torch.distributed.all_gather_object(ranks, drawn)
            return ranks

        settings = train.RunConfig(storage_path="results")
        trainer = TorchTrainer(loop, scaling_config=train.ScalingConfig(num_workers=2), run_config=settings)
        print(json.dumps([trainer.fit().return_value for _ in range(2)]))
        """

    def drawn_with(line):
        path = os.pathsep.join([str(site), os.environ["PYTHONPATH"]])
        shown, _ = run_program(tmp_path, program.format(line), PYTHONPATH=path)
        return [rank for run in json.loads(shown.splitlines()[-1]) for rank in run]

    for line, of_all in (("", ()), ("import library_that_seeds", ("torch", "random", "numpy"))):
        drawn = drawn_with(line)
        assert len(drawn) == 4
        for name in drawn[0]:
            different = {str(rank[name]) for rank in drawn}
            assert len(different) == (1 if name.startswith("given") or name in of_all else 4), (name, line)
    generator = torch.Generator().manual_seed(1)
    assert drawn[0]["torch"] == torch.rand(1, generator=generator).item()
    assert drawn[0]["random"] == random.Random(1).random()


def test_modules_of_the_user_are_found_and_may_change_between_runs(tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("VALUE = 1\n")
    (package / "loops.py").write_text(
        textwrap.dedent(
            """
            from . import part


            def loop():
                from .part import VALUE
                return VALUE
            """
        )
    )
    shown, _ = run_program(
        tmp_path,
        """
        import importlib, pathlib
        import mine.loops
        import paceline.train as train
        from paceline.train.torch import TorchTrainer

        for value in ("1", "2"):
            pathlib.Path("mine/part.py").write_text(f"VALUE = {value}  # another length\\n" * int(value))
            print(TorchTrainer(mine.loops.loop, run_config=train.RunConfig(storage_path="results")).fit().return_value)
        """,
    )
    assert shown.split() == ["1", "2"]




def test_cuda_that_has_begun_is_seen_and_nvml_is_not_taken_for_it(tmp_path):
    def has_opened_a_gpu():
        call = f"from paceline._warm import _has_opened_a_gpu; print(_has_opened_a_gpu({str(tmp_path)!r}))"
        return subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True).stdout.strip()

    (tmp_path / "0").write_text("no link")
    (tmp_path / "3").symlink_to("/dev/nvidiactl")
    assert has_opened_a_gpu() == "False"
    (tmp_path / "4").symlink_to("/dev/nvidia-uvm")
    assert has_opened_a_gpu() == "True"
