"""Plans of thousands of steps: made in a loop, as programs make them."""

import cloudpickle
import pytest

import paceline.data


def test_a_union_that_grows_one_by_one():
    united = paceline.data.range(10)
    for number in range(5000):
        united = united.union(paceline.data.range(1))
    assert len(united._plan.inputs) == 5001 and united._plan.kind == "union"
    assert united.sum("id") == 45 and united.count() == 5010


def test_unions_of_unions_have_their_rows_in_order():
    one, two, three, four = (paceline.data.from_items([{"x": 10 * part}, {"x": 10 * part + 1}]) for part in range(4))
    united = one.union(two).union(three.union(four), one)
    united.schema()
    united = two.union(united)
    assert [row["x"] for row in united.take_all()] == [10, 11, 0, 1, 10, 11, 20, 21, 30, 31, 0, 1]
    assert len(united._plan.inputs) == 6


@pytest.mark.parametrize("step", [lambda data: data.rename_columns({"id": "id"}), lambda data: data.limit(5)])
def test_many_steps(step, tmp_path):
    dataset = paceline.data.range(10).union(paceline.data.range(3))
    for _ in range(1900):
        dataset = step(dataset)
    rows = dataset.count()
    assert dataset.sum("id") in (10, 48) and dataset.input_files() == []
    assert dataset.has_serializable_lineage() and cloudpickle.loads(cloudpickle.dumps(dataset)).count() == rows
    assert dataset.cache(path=str(tmp_path)).count() == rows
    for _ in range(3000):
        dataset = step(dataset)
    with pytest.raises(ValueError, match="more than 2000 steps one behind the other"):
        dataset.count()
    assert dataset.has_serializable_lineage()


def test_the_version_of_a_cache_is_of_all_functions_in_their_places(tmp_path):
    def version(*datasets):
        return datasets[0].union(*datasets[1:]).cache(path=str(tmp_path))._plan.options["version"]

    numbers = paceline.data.range(3)
    more, less = numbers.map(lambda row: {"id": row["id"] + 1}), numbers.map(lambda row: {"id": row["id"] - 1})
    assert version(more, less) == version(more, less) != version(less, more)
    assert version(more, numbers) != version(numbers, more)
