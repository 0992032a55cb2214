"""Parts of a dataset by proportions, which are floats a little beside what was meant."""

import pytest

import paceline.data


@pytest.mark.parametrize(
    ("rows", "proportions", "sizes"),
    [
        (10, [0.7, 0.1, 0.1], [7, 1, 1, 1]),
        (10, [0.1] * 9, [1] * 10),
        (3, [1 / 3, 1 / 3], [1, 1, 1]),
        (1000, [0.29, 0.57], [290, 570, 140]),
        (3, [0.9, 0.05], [1, 1, 1]),  # none is empty
    ],
)
def test_parts_are_as_large_as_they_were_meant_to_be(rows, proportions, sizes):
    parts = paceline.data.range(rows).split_proportionately(proportions)
    assert [part.count() for part in parts] == sizes
    assert [row["id"] for part in parts for row in part.take_all()] == list(range(rows))


def test_too_few_rows_for_all_parts():
    with pytest.raises(ValueError, match="5 rows are too few"):
        paceline.data.range(5).split_proportionately([0.1, 0.1])
