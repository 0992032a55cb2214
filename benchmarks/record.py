"""What a measurement says: medians, spread, whether the target is met; ROW.json and docs/benchmarks.md.

Nothing here measures: numbers in, text out. `ratio` is how many times better than the peer, whichever direction is
better: 2.0 is twice as fast, or half the memory.
"""

import dataclasses
import json
import pathlib
import re
import statistics
from collections.abc import Callable

PACELINE = "paceline"


@dataclasses.dataclass(frozen=True)
class Figure:
    """One contestant's figure: the median over runs (each run's value is the median of its samples)."""

    runs: tuple[float, ...]

    @property
    def value(self) -> float:
        return statistics.median(self.runs)

    @property
    def low(self) -> float:
        return min(self.runs)

    @property
    def high(self) -> float:
        return max(self.runs)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a row's measurement gave. `also` holds further observations, by their description."""

    ours: Figure
    peers: dict[str, Figure]  # the first is the principal one
    lower_is_better: bool
    also: dict[str, Figure] = dataclasses.field(default_factory=dict)

    def ratio(self, peer: str) -> float:
        ours, theirs = self.ours.value, self.peers[peer].value
        better, worse = (theirs, ours) if self.lower_is_better else (ours, theirs)
        return better / worse if worse else float("inf")

    def within_spread(self) -> bool:
        """Our median is better than every peer's, or lies within the range of that peer's runs."""
        if self.lower_is_better:
            return all(self.ours.value <= peer.high for peer in self.peers.values())
        return all(self.ours.value >= peer.low for peer in self.peers.values())


@dataclasses.dataclass(frozen=True)
class Target:
    sentence: str
    met: Callable[[Outcome], bool]


def rounded(number: float) -> float:
    """To four significant digits: more would be noise."""
    return float(f"{number:.4g}")


def to_record(name: str, unit: str, target: Target, outcome: Outcome, versions: dict[str, str]) -> dict:
    """The content of ROW.json."""
    principal = next(iter(outcome.peers), None)  # nobody else does it, of some rows
    beside = {}
    if principal is not None:
        theirs, ratio = rounded(outcome.peers[principal].value), rounded(outcome.ratio(principal))
        beside = {"peer": principal, "peer_value": theirs, "ratio": ratio}
    figures = {PACELINE: outcome.ours} | outcome.peers
    record = {
        "name": name,
        "value": rounded(outcome.ours.value),
        "unit": unit,
        **beside,
        "target": target.sentence,
        "met": target.met(outcome),
        "runs": min(len(figure.runs) for figure in figures.values()),
        "spread": {label: [rounded(figure.low), rounded(figure.high)] for label, figure in figures.items()},
        "versions": versions,
    }
    if len(outcome.peers) > 1:
        record["peers"] = {
            label: {"value": rounded(figure.value), "ratio": rounded(outcome.ratio(label))}
            for label, figure in outcome.peers.items()
        }
    if outcome.also:
        record["also"] = {label: rounded(figure.value) for label, figure in outcome.also.items()}
    return record


def write_record(folder: pathlib.Path, record: dict) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return path


def number(value: float) -> str:
    """For readers: three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


RESULTS_HEADING = "## Results"
CIRCUMSTANCES_HEADING = "## Circumstances"

INTRODUCTION = """\
# Benchmarks

Written by `make bench`; do not edit. `make bench ONLY=row,row` measures some rows and leaves the others as they are;
`make bench GPU=1` measures those that need a GPU, which are left out otherwise.

Paceline and its peers run in turns (A B A B …) on the same machine. A run's value is the median of its samples; a
figure is the median over the runs, its range the lowest and the highest run. *Times better* is how many times Paceline
is faster or smaller than the peer; more than 1 is better. "Within the spread": our median is better than the peer's
or lies within the range of the peer's runs. Reasons for missed targets are kept in `benchmarks/reasons.json`.
"""


def kept_lines(document: str, heading: str) -> dict[str, str]:
    """The lines of the table under `heading`, by row: what earlier measurements said."""
    section = document.partition(heading + "\n")[2].partition("\n## ")[0]
    return {match[1]: match[0] for match in re.finditer(r"^\| `(\w+)` \|.*$", section, re.MULTILINE)}


def result_line(record: dict, what: str, reason: str) -> str:
    alone = {record["peer"]: {"value": record["peer_value"], "ratio": record["ratio"]}} if "peer" in record else {}
    peers = record.get("peers", alone)
    theirs = "<br>".join(f"{label}: {number(peer['value'])}" for label, peer in peers.items()) or "–"
    better = "<br>".join(number(peer["ratio"]) for peer in peers.values()) or "–"
    also = "".join(f"<br>{label}: {number(value)}" for label, value in record.get("also", {}).items())
    cells = [
        f"`{record['name']}`",
        what + also,
        record["unit"],
        f"**{number(record['value'])}**",
        theirs,
        better,
        record["target"],
        "yes" if record["met"] else "no",
        "" if record["met"] else reason,
    ]
    return f"| {' | '.join(cells)} |"


def circumstances_line(record: dict, date: str, machine: str) -> str:
    spread = "<br>".join(f"{label}: {number(low)} – {number(high)}" for label, (low, high) in record["spread"].items())
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return f"| `{record['name']}` | {date} | {record['runs']} | {spread} | {machine} | {versions} |"


def to_document(rows: dict[str, str], records: dict[str, tuple[dict, str]], machine: str, reasons: dict[str, str],
                trainings: str, earlier: str) -> str:
    """docs/benchmarks.md.

    rows: what each row measures, by name, in their order. records: this clone's records and their dates; rows without
    one keep their lines of `earlier`, the document as it was. trainings: its last section.
    """
    results, circumstances = kept_lines(earlier, RESULTS_HEADING), kept_lines(earlier, CIRCUMSTANCES_HEADING)
    for name, (record, date) in records.items():
        results[name] = result_line(record, rows[name], reasons.get(name, "not known yet"))
        circumstances[name] = circumstances_line(record, date, machine)
    in_order = [name for name in rows if name in results]
    return "\n".join([
        INTRODUCTION,
        RESULTS_HEADING,
        "",
        "| row | what | unit | Paceline | peer | times better | target | met | reason |",
        "|---|---|---|---|---|---|---|---|---|",
        *(results[name] for name in in_order),
        "",
        CIRCUMSTANCES_HEADING,
        "",
        "| row | date | runs | range of the runs | machine | versions |",
        "|---|---|---|---|---|---|",
        *(circumstances[name] for name in in_order if name in circumstances),
        "",
        trainings,
    ])
