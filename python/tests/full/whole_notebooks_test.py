"""The notebooks of examples/python/notebooks, executed as a reader would, and what they keep of their last execution."""

import pathlib
import re
import sys

import nbformat
import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(PROJECT / "tools"))

import notebooks  # noqa: E402

FILES = sorted((PROJECT / "examples/python/notebooks").glob("*.ipynb"))
# What their cells must come to, as regular expressions.
KEY_OUTPUTS = {
    "introduction": [
        r"epoch 2: loss 0\.",
        r"\(rank 1\) worker 1 of 2 trains",
        r"checkpoint_000003",
        r"training from the checkpoint of report 3",
        r"18 +2 +9 .*checkpoint_000010",
        r"mat1 and mat2 shapes cannot be multiplied",
        r"at broken_train_loop \(Cell In\[\d+\]:7\): model\(points\)",
        r"what cannot be pickled is the variable 'lock' of locking_train_loop",
    ],
    "fsdp2": [
        r"\(rank 1\) this worker holds 118,528 of 237,056 parameters, 50%",
        r"one process (3\.\d{3})\d*, two workers \1",
        r"its part is torch\.float32 on cpu",
        r"\(rank 0\) attempt 2 goes on with step 10",
        r"__1_0\.distcp",
        r"\(rank 3\) attempt 3 goes on with step 40",
        r"untrained 5\.\d+, trained 2\.",
    ],
    "deepspeed": [
        r"one process +loss (3\.\d{3})\d*\nstage 1: 100% of values, +50% of averages, loss \1",
        r"stage 3: +50% of values, +50% of averages, loss 3\.",
        r"\(rank 0\) attempt 2 goes on with step 10",
        r"zero_pp_rank_1_mp_rank_00_optim_states\.pt",
        r"untrained 5\.\d+, trained 2\.",
    ],
}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_cell_runs_and_shows_what_it_should(path, tmp_path):
    text = notebooks.printed(notebooks.execute(path, tmp_path))
    for wanted in KEY_OUTPUTS.get(path.stem, []):
        assert re.search(wanted, text), f"{wanted} is not in\n{text}"


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_file_keeps_the_outputs_of_all_its_cells_and_no_paths_of_a_machine(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not re.findall(r"(?<![\w.:/-])/(?:tmp|home|root|work|mnt|opt)/[^\s\"]*", path.read_text())
