"""Plans of datasets: what they are made of, and how they travel to other processes."""

import contextlib
import dataclasses
import hashlib
import inspect
import os
from typing import Any, Dict, Optional

import pyarrow

from paceline import _filesystem
from paceline._native import native
from paceline.data.context import DataContext


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


@dataclasses.dataclass
class RandomSeedConfig:
    """A seed as Ray's scripts may give it.

    Args:
        seed: None draws one.
        reseed_after_execution: Taken for Ray's scripts: each epoch has another order, which the seed and the epoch fix.
        use_timestamp_as_default: Taken for Ray's scripts.
    """

    seed: Optional[int] = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False


def bad_rows(on_error: Optional[str], quarantine: Optional[str]) -> Dict[str, Any]:
    """The options of a step that say what becomes of bad rows; None: what the DataContext says."""
    options: Dict[str, Any] = {}
    if on_error is None:
        most = DataContext.get_current().max_errored_blocks
        on_error = "skip" if most else "raise"
        if most > 0:
            options["most_errored_blocks"] = most
    if on_error not in ("raise", "skip", "replace"):
        raise ValueError(f"on_error is {on_error!r}; allowed: 'raise', 'skip', 'replace'")
    if quarantine is not None:
        if on_error == "raise":
            raise ValueError("a quarantine is for on_error='skip' and 'replace'")
        options["quarantine"] = os.path.abspath(quarantine)  # workers may have another current directory
    return {"on_error": on_error, **options} if on_error != "raise" else {}


def seed(given: Any) -> Optional[int]:
    """A number, or that of a RandomSeedConfig. None: the step draws one, so that every process that opens the plan has it."""
    number = getattr(given, "seed", given)
    return None if number is None else int(number)


def has_rows(plan) -> bool:
    """Whether rows are in memory."""
    return bool(plan.rows) or any(map(has_rows, plan.inputs))


def keeps_blocks(plan) -> bool:
    """Whether the blocks that an epoch reads are those of the epoch before: rows in memory, or cache()."""
    return bool(plan.rows) or plan.kind == "cache" or any(map(keeps_blocks, plan.inputs))


def functions(plan):
    """Its steps that call code of the user's: functions, and sources of rows."""
    for one in plan.inputs:
        yield from functions(one)
    if plan.function is not None and hasattr(plan.function.function, "function"):
        yield plan.function
    if plan.source is not None:
        yield plan.source


def version(plan) -> str:
    """Another text where a function of the plan is another: of its code, and what it holds."""
    import cloudpickle

    digest = hashlib.sha256()
    for one in plan.inputs:
        digest.update(version(one).encode())
    for held in (plan.function, plan.source):
        if held is None:
            continue
        step = held.function
        digest.update(cloudpickle.dumps(step))  # of a module's function that is its name
        with contextlib.suppress(AttributeError, OSError, TypeError):
            digest.update(inspect.getsource(step.function.fn).encode())
    return digest.hexdigest()


def described(plan):
    """A plan as plain objects, which can be pickled, with the file systems that were given as objects."""
    return _steps_of(plan), _filesystem.added_of(_locations(plan))


def made_of(description):
    """The plan that described() described."""
    steps, filesystems = description
    _filesystem.add(filesystems)
    return _plan_of(steps)


def _steps_of(plan):
    function = plan.function and (plan.function.name, plan.function.keeps_rows, plan.function.function, plan.function.arguments)
    source = plan.source and (plan.source.name, plan.source.chunks, plan.source.counts_rows, plan.source.function)
    return plan.kind, plan.options, [_steps_of(one) for one in plan.inputs], function, plan.rows, source


def _plan_of(steps):
    kind, options, inputs, function, rows, source = steps
    function, source = function and native.DataFunction(*function), source and native.DataSource(*source)
    return native.DataPlan(kind, options, [_plan_of(one) for one in inputs], function, rows, source)


def _locations(plan):
    yield from plan.options.get("paths", [])
    for one in plan.inputs:
        yield from _locations(one)
