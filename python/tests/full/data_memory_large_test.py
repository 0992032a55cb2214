"""Memory, as ../data_memory_test.py has it: larger budgets, a row group of a gigabyte, consumers that are slow for long."""

import pytest

from data_memory import MB, files_of, scalars, tensors
from data_memory_test import assert_within

BUDGETS = pytest.mark.parametrize("budget", [512 * MB, 1000 * MB, 4000 * MB], ids=lambda budget: f"{budget // MB} MB")
TABLES = {"tensors": lambda rows: tensors(rows), "scalars": lambda rows: scalars(rows)}
ROW_BYTES = 264  # of tensors; of scalars 200


@pytest.fixture(scope="module", params=TABLES)
def files(request, tmp_path_factory):
    """5 GB, of a file that is named several times."""
    return files_of(tmp_path_factory.mktemp(request.param), TABLES[request.param](1_000_000), times=25)


@pytest.fixture(scope="module", params=TABLES)
def one_row_group(request, tmp_path_factory):
    """A gigabyte."""
    rows = 1000 * MB // ROW_BYTES
    return files_of(tmp_path_factory.mktemp(request.param), TABLES[request.param](rows), row_group_size=rows)


@BUDGETS
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"functions": True}, {"cache": {}, "epochs": 2}, {"workers": 2}],
                         ids=lambda options: next(iter(options), "in order"))
def test_large_budgets(files, tmp_path, budget, options):
    assert_within(budget, tmp_path, files, **options)


@pytest.mark.parametrize("budget", [256 * MB, 1000 * MB], ids=lambda budget: f"{budget // MB} MB")
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"functions": True}], ids=lambda options: next(iter(options), "in order"))
def test_a_row_group_of_a_gigabyte(one_row_group, tmp_path, budget, options):
    assert_within(budget, tmp_path, one_row_group, **options)


@pytest.mark.parametrize("options", [{"shuffle": True, "pause": 60}, {"slow": 0.002}, {"workers": 2, "pause": 60}],
                         ids=["a minute", "each batch", "a worker for a minute"])
def test_slow_consumers(tmp_path, options):
    assert_within(256 * MB, tmp_path, files_of(tmp_path, tensors(500_000), times=10), **options)
