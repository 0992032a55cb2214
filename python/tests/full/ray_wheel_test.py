"""The record of Ray's public tree is what its wheel has."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ray_tree


def test_the_record_is_that_of_the_wheel():
    assert ray_tree.text(ray_tree.read(ray_tree.wheel())) == ray_tree.TREE.read_text(), "run python/tests/ray_tree.py"


def test_the_regression_example_reads_a_csv_file(example, tmp_path):
    numbers = random.Random(1)
    lines = [",".join([*(f"x{i:03d}" for i in range(100)), "y"])]
    # The example's loss compares each row with all rows of its batch, which only a constant can fit.
    lines += [",".join(f"{numbers.gauss(mean, 0.1):.4f}" for mean in [0] * 100 + [5]) for _ in range(400)]
    (tmp_path / "regression.csv").write_text("\n".join(lines) + "\n")
    program = example("torch_regression_example")
    text = program.read_text()
    assert "s3://anonymous@air-example-data/regression.csv" in text
    program.write_text(text.replace("s3://anonymous@air-example-data/regression.csv", str(tmp_path / "regression.csv")))
    shown, _ = run(tmp_path, program, "--smoke-test")
    assert float(re.search(r"'loss': ([\d.]+)", shown)[1]) < 1  # it begins with some 5
