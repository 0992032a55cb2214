"""Plans of datasets: what they are made of, and how they travel to other processes."""

import contextlib
import dataclasses
import hashlib
import inspect
import os
from typing import Any, Dict, Iterator, List, Optional

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


def steps(plan) -> Iterator[Any]:
    """All of a plan, inputs first. Not by recursion: plans may be longer than what Python takes."""
    waiting = [(plan, False)]
    while waiting:
        one, is_seen = waiting.pop()
        if is_seen:
            yield one
        else:
            waiting.append((one, True))
            waiting.extend((input, False) for input in reversed(one.inputs))


def has_rows(plan) -> bool:
    """Whether rows are in memory."""
    return any(one.rows for one in steps(plan))


def keeps_blocks(plan) -> bool:
    """Whether the blocks that an epoch reads are those of the epoch before: rows in memory, or cache()."""
    return any(one.rows or one.kind == "cache" for one in steps(plan))


def functions(plan):
    """Its steps that call code of the user's: functions, and sources of rows."""
    for one in steps(plan):
        if one.function is not None and hasattr(one.function.function, "function"):
            yield one.function
        if one.source is not None:
            yield one.source


def version(plan) -> str:
    """Another text where a function of the plan is another: of its code, and what it holds."""
    import cloudpickle

    versions: List[str] = []  # of what is done whose outputs are not taken yet
    for one in steps(plan):
        digest = hashlib.sha256()
        first = len(versions) - len(one.inputs)
        for input in versions[first:]:
            digest.update(input.encode())
        del versions[first:]
        for held in (one.function, one.source):
            if held is None:
                continue
            step = held.function
            digest.update(cloudpickle.dumps(step))  # of a module's function that is its name
            with contextlib.suppress(AttributeError, OSError, TypeError):
                digest.update(inspect.getsource(step.function.fn).encode())
        versions.append(digest.hexdigest())
    return versions[0]


def described(plan):
    """A plan as plain objects, which can be pickled, with the file systems that were given as objects."""
    return list(map(_described, steps(plan))), _filesystem.added_of(_locations(plan))


def made_of(description):
    """The plan that described() described."""
    steps, filesystems = description
    _filesystem.add(filesystems)
    plans: List[Any] = []  # which are no inputs yet
    for kind, options, inputs, function, rows, source in steps:
        function, source = function and native.DataFunction(*function), source and native.DataSource(*source)
        first = len(plans) - inputs
        plans[first:] = [native.DataPlan(kind, options, plans[first:], function, rows, source)]
    return plans[0]


def _described(plan):
    function, source = plan.function, plan.source
    return (plan.kind, plan.options, len(plan.inputs),
            function and (function.name, function.keeps_rows, function.function, function.arguments), plan.rows,
            source and (source.name, source.chunks, source.counts_rows, source.function))  # fmt: skip


def _locations(plan):
    for one in steps(plan):
        yield from one.options.get("paths", [])
