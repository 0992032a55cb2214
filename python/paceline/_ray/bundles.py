"""What a run asks of Ray, and which agent offers what to the run: pure functions, without Ray."""

import dataclasses
import math
from typing import Any, Collection, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence

Resources = Dict[str, float]


@dataclasses.dataclass(frozen=True)
class Request:
    """What the placement group of a run is asked for: a bundle for each worker, as Ray Train has it."""

    each: Resources
    workers: int
    strategy: str
    labels: Optional[List[Dict[str, str]]] = None  # a selector for each bundle

    @property
    def bundles(self) -> List[Resources]:
        return [dict(self.each) for _ in range(self.workers)]

    def __str__(self) -> str:
        """ "2 × {CPU: 1} (SPREAD)"."""
        labels = sorted({f"{name}={value}" for one in self.labels or () for name, value in one.items()})
        where = f" on nodes with {', '.join(labels)}" if labels else ""
        return f"{self.workers} × {{{amounts(self.each)}}}{where} ({self.strategy})"


@dataclasses.dataclass(frozen=True)
class Share:
    """Bundles on one node, which one agent offers to the run."""

    node: str
    bundles: FrozenSet[int]


def request_of(scaling_config: Any) -> Request:
    """ValueError where the workers ask for nothing, of which Ray can place none."""
    each = {name: int(amount) if name == "memory" else float(amount) for name, amount in scaling_config._each().items()}
    if not each:
        raise ValueError(
            "ScalingConfig.resources_per_worker asks for nothing; with engine \"ray\" each worker needs something, such as "
            '{"CPU": 1}: Ray places workers by it'
        )
    selector, workers = scaling_config.label_selector, scaling_config.max_workers
    labels = [dict(one) for one in selector] if isinstance(selector, list) else [dict(selector)] * workers if selector else None
    return Request(each, workers, scaling_config.placement_strategy, labels)


def shares(placed: Mapping[int, str], request: Request, served: Iterable[Share] = ()) -> List[Share]:
    """Who is to serve the bundles that no agent serves yet: one share a node, in the order of the bundles.

    Args:
        placed: The node of each bundle that has one.
        request: The run's.
        served: What agents serve already. A bundle that Ray has moved to another node meanwhile is not among it.
    """
    done = {index for share in served for index in share.bundles if placed.get(index) == share.node}
    by_node: Dict[str, List[int]] = {}
    for index in sorted(placed):
        if placed[index] and index not in done:
            by_node.setdefault(placed[index], []).append(index)
    # Two parts may be of one GPU or of two, which the run's own placement could not tell: each has an agent of its own.
    apart = 0 < request.each.get("GPU", 0) < 1
    return [
        Share(node, frozenset(part))
        for node, indices in by_node.items()
        for part in ([[index] for index in indices] if apart else [indices])
    ]


def bundle_options(request: Request) -> Dict[str, Any]:
    """Of an actor that takes a bundle whole, as Ray's options name it."""
    rest = dict(request.each)
    options: Dict[str, Any] = {"num_cpus": rest.pop("CPU", 0), "num_gpus": rest.pop("GPU", 0)}
    if memory := rest.pop("memory", 0):
        options["memory"] = int(memory)
    return {**options, "resources": rest}


def counted(request: Request) -> Resources:
    """What each worker needs in the run's own placement, which then fits as many workers on a node as it has bundles.

    Ray has seen to all the rest: labels, memory, other resources, and parts of CPUs, of which the run knows none.
    """
    cpus, gpus = request.each.get("CPU", 0), request.each.get("GPU", 0)
    if cpus >= 1 or gpus >= 1:
        return {"CPU": cpus if cpus >= 1 else 0, **({"GPU": gpus} if gpus else {})}
    return {"CPU": 1, **({"GPU": gpus} if gpus else {})}


def agent_arguments(share: Share, request: Request, address: str, name: str) -> List[str]:
    """Of `paceline agent`, which offers what Ray has given instead of what the machine has."""
    each, bundles = counted(request), len(share.bundles)
    arguments = ["agent", "--token-file", "-", "--keep", "--with-parent", "--name", name, "--address", address]
    if each["CPU"]:  # else the GPUs are what counts, and workers have all cores
        arguments += ["--cpus", str(math.ceil(bundles * each["CPU"] - 1e-9))]
    return [*arguments, "--gpus", str(math.ceil(bundles * each.get("GPU", 0) - 1e-9))]


def amounts(resources: Mapping[str, float]) -> str:
    """ "CPU: 1, GPU: 0.5"."""
    return ", ".join(f"{name}: {amount:g}" for name, amount in resources.items())


def table_of(nodes: Sequence[Mapping[str, Any]], free: Mapping[str, Mapping[str, float]]) -> str:
    """What the cluster has: "a has 2 of 4 CPU; b is lost".

    Args:
        nodes: As ray.nodes() has them.
        free: What is left on each of them by its id; a node that is not in it counts as free.
    """
    lines = []
    for node in nodes:
        total = node["Resources"]
        shown = [name for name in total if ":" not in name and name != "object_store_memory" and not name.startswith("node")]
        left = free.get(node["NodeID"], total)
        parts = [f"{_amount(name, left.get(name, 0))} of {_amount(name, total[name])} {name}" for name in sorted(shown)]
        lines.append(f"{name_of(node)} has {', '.join(parts) or 'nothing'}" if node["Alive"] else f"{name_of(node)} is lost")
    return "; ".join(lines) or "the cluster has no node"


def _amount(name: str, amount: float) -> str:
    return f"{amount / 1e9:.3g} GB" if name == "memory" else f"{amount:g}"


def name_of(node: Mapping[str, Any]) -> str:
    """ "gpu-host-3f2a1c": several nodes of a cluster may have one machine."""
    return f"{node['NodeManagerHostname']}-{node['NodeID'][:6]}"


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """In which versions a node differs from the driver: "torch 2.12.1 there, 2.13.0 here"; "" for none."""
    parts = [f"{name} {there[name] or 'is missing'} there, {here[name]} here" for name in here if not _fits(here, there, name)]
    return "; ".join(parts)


def _fits(here: Mapping[str, str], there: Mapping[str, str], name: str) -> bool:
    # "2.13.0+cpu" and "2.13.0+cu130" are of one version: a cluster may have nodes with GPUs and nodes without.
    return here[name].partition("+")[0] == there[name].partition("+")[0]


def without(draining: Mapping[str, int], told: Collection[str], nodes: Collection[str]) -> Dict[str, int]:
    """The nodes of the run that Ray is about to take away and that it has not heard of, with their deadlines."""
    return {node: deadline for node, deadline in draining.items() if node in nodes and node not in told}
