"""Memory: what reading takes of the machine, in all its processes and in shared memory, is what it may take, and 5 %."""

import pytest

from data_memory import MB, files_of, measured, scalars, tensors, texts

BUDGET = 256 * MB
TIMES = 4  # that a program reads the file: more than the budget has room for


@pytest.fixture(scope="module")
def tensor_files(tmp_path_factory):
    return files_of(tmp_path_factory.mktemp("tensors"), tensors(400_000), TIMES)


@pytest.fixture(scope="module")
def scalar_files(tmp_path_factory):
    return files_of(tmp_path_factory.mktemp("scalars"), scalars(512_000), TIMES)


def assert_within(budget, folder, files, least=0.25, **options):
    """The program's rows are all there, and it reads ahead, but not beyond the budget, at any time."""
    taken = measured(folder, files, budget, **options)
    assert taken.rows == options.get("epochs", 1) * files.rows, taken
    assert least * budget < taken.paused <= taken.peak <= 1.05 * budget, taken
    return taken


def test_tensors(tensor_files, tmp_path):
    assert_within(BUDGET, tmp_path, tensor_files)


@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
def test_scalars(scalar_files, tmp_path, shuffle):
    assert_within(BUDGET, tmp_path, scalar_files, shuffle=shuffle)


def test_functions(tensor_files, tmp_path):
    assert_within(BUDGET, tmp_path, tensor_files, functions=True)


def test_cached(tensor_files, tmp_path):
    assert_within(BUDGET, tmp_path, tensor_files, cache={}, epochs=2)


def test_a_large_row_group(tmp_path):
    assert_within(BUDGET, tmp_path, files_of(tmp_path, tensors(2_000_000), row_group_size=2_000_000))


def test_scalars_of_a_large_row_group(tmp_path):
    assert_within(BUDGET, tmp_path, files_of(tmp_path, scalars(2_000_000), row_group_size=2_000_000))


def test_blocks_that_are_parts_of_a_row_group(tmp_path):
    """A part holds no more than its rows, though all of the row group was read for it."""
    assert_within(BUDGET, tmp_path, files_of(tmp_path, tensors(1_000_000), row_group_size=180_000), blocks=600)


def test_texts(tmp_path):
    assert_within(BUDGET, tmp_path, files_of(tmp_path, texts(500_000), times=8, row_group_size=134_000))


@pytest.mark.parametrize("apart", [False, True], ids=["in step", "one after the other"])
def test_workers(tensor_files, tmp_path, apart):
    assert_within(BUDGET, tmp_path, tensor_files, workers=2, apart=apart)


def test_memory_does_not_grow_from_epoch_to_epoch(tensor_files, tmp_path):
    few, many = (measured(tmp_path, tensor_files, BUDGET, epochs=epochs, shuffle=True) for epochs in (1, 4))
    assert many.left < few.left + 32 * MB, (few, many)
