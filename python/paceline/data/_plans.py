"""Plans of datasets: what they are made of, and how they travel to other processes."""

import random
from typing import Any, Optional

import pyarrow

from paceline._native import native


def of_blocks(blocks):
    """A plan whose rows are in memory. Types that differ become one that holds both."""
    return native.DataPlan("rows", {}, [], rows=_of_one_schema(blocks))


def _of_one_schema(blocks):
    schemas = {str(block.schema) for block in blocks}
    if len(schemas) == 1:
        return blocks
    tables = [pyarrow.Table.from_batches([block]) for block in blocks]
    return pyarrow.concat_tables(tables, promote_options="permissive").to_batches()


def count(name: str, value: Any, least: int = 0) -> int:
    """`value`, if it is a number of rows or blocks."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; allowed: a whole number from {least}")
    return value


def seed(given: Optional[int]) -> int:
    """Drawn once: every process that opens the plan has the same."""
    return random.SystemRandom().getrandbits(62) if given is None else int(given)


def has_functions(plan) -> bool:
    """Whether a step is a function of Python."""
    return plan.function is not None or any(map(has_functions, plan.inputs))


def paths(plan):
    """What it reads, as users named it."""
    yield from plan.options.get("paths", [])
    for one in plan.inputs:
        yield from paths(one)


def described(plan):
    """A plan as plain objects, which can be pickled."""
    function = plan.function and (plan.function.name, plan.function.keeps_rows, plan.function.function)
    return plan.kind, plan.options, [described(one) for one in plan.inputs], function, plan.rows


def made_of(description):
    """The plan that described() described."""
    kind, options, inputs, function, rows = description
    made = function and native.DataFunction(*function)
    return native.DataPlan(kind, options, [made_of(one) for one in inputs], made, rows)
