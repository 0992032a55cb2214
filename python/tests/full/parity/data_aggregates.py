"""Aggregates of datasets, with and without nulls."""

import pandas
import pyarrow

import ray.data
from ray.data import aggregate as of

outcome = {}


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


rows = [{"x": 1, "f": 0.5, "name": "a"}, {"x": -7, "f": 2.5, "name": "b"}, {"x": 2, "f": -1.0, "name": "a"},
        {"x": 0, "f": 0.0, "name": "c"}]  # fmt: skip
whole = ray.data.from_arrow([pyarrow.Table.from_pylist(rows[:3]), pyarrow.Table.from_pylist(rows[3:])])
gaps = ray.data.from_arrow(pyarrow.table({"x": [1, None, 3], "name": ["a", None, "a"]}))

for name, dataset in {"whole": whole, "gaps": gaps}.items():
    outcome[name] = plain(
        dataset.aggregate(
            of.Count(), of.Count("x", ignore_nulls=True), of.Sum("x"), of.Min("x"), of.Max("x"), of.Mean("x"), of.Std("x"),
            of.Std("x", ddof=0, alias_name="spread"), of.AbsMax("x"), of.Quantile("x", q=0.25), of.MissingValuePercentage("x"),
            of.ZeroPercentage("x"), of.CountDistinct("name"),
        )
    )  # fmt: skip
    outcome[f"{name} strict"] = plain(
        dataset.aggregate(*(kind("x", ignore_nulls=False) for kind in (of.Sum, of.Min, of.Max, of.Mean, of.Std)))
    )
    outcome[f"{name} unique"] = sorted(map(str, dataset.unique("name")))
    outcome[f"{name} methods"] = plain(
        [dataset.sum("x"), dataset.min("x"), dataset.max("x"), dataset.mean("x"), dataset.std("x"), dataset.sum(["x"])]
    )
outcome["several"] = plain([whole.sum(["x", "f"]), whole.mean(["x", "f"]), whole.max(["x", "f"])])
outcome["by row"] = whole.aggregate(
    of.AggregateFn(
        init=lambda _: 0,
        accumulate_row=lambda total, row: total + row["x"] ** 2,
        merge=lambda first, second: first + second,
        name="squares",
    )
)
counter = whole.aggregate(of.ValueCounter("name"))["value_counter(name)"]
outcome["counted"] = sorted(zip(counter["values"], counter["counts"]))
outcome["empty"] = plain(ray.data.from_pandas(pandas.DataFrame({"x": pandas.Series([], dtype="int64")})).sum("x"))
