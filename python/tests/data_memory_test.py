"""Memory: what reading takes of the machine, in all its processes and in shared memory."""

import pytest

from data_memory import columns_of, files_of, measured

MB = 1_000_000
BUDGET = 128 * MB
ROWS, BYTES = 2_000_010, 530 * MB


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Half a gigabyte of rows, of which a file of ten comes first: what a program reads to be warm."""
    return files_of(tmp_path_factory.mktemp("rows"), columns_of(400_000), times=5)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"functions": True}, {"workers": 2}], ids=lambda one: next(iter(one)))
def test_who_takes_no_batch_is_not_read_ahead_for_beyond_the_budget(files, tmp_path, options):
    taken = measured(tmp_path, files, BUDGET, **options)
    assert 0.5 * BUDGET < taken.paused < 0.5 * BYTES, taken
    assert taken.rows == ROWS


def test_memory_does_not_grow_from_epoch_to_epoch(files, tmp_path):
    few, many = (measured(tmp_path, files[:3], BUDGET, epochs=epochs, shuffle=True) for epochs in (3, 9))
    assert many.left < few.left + 0.25 * BUDGET, (few, many)
