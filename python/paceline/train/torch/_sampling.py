"""Samplers of loaders whose rows are split among the workers: epochs that count themselves, one order on all ranks."""

import dataclasses
import itertools
import random
import sys
from typing import Any, Callable, Iterable, Iterator, List, Optional

import torch
from torch.utils.data import DistributedSampler, Sampler

from paceline.train.collective import broadcast_from_rank_zero


class CountsEpochs:
    """Each pass is the next epoch, unless the script says which it is.

    A pass that ends at its first batch is none: a rank that looks at the data alone does not leave the others' epochs.
    """

    epoch = 0
    _is_used = False  # whether the next pass is the next epoch
    _looks = 0  # in a row

    def set_epoch(self, epoch: int) -> None:
        """Decides the epoch of the next pass."""
        self.epoch = epoch
        self._is_used = False
        self._looks = 0

    def begin_pass(self) -> None:
        """Whoever iterates begins one; a loader of ours then says how far it comes."""
        if self._is_used:
            self.epoch += 1
        self._is_used = True

    def first_batch(self) -> int:
        """Somebody gets the first batch of this epoch."""
        self._is_used = False
        self._looks += 1
        if self._looks == 3:
            print(
                "paceline: a pass that ends at its first batch does not count as an epoch, so the last three were of the "
                "same order; sampler.set_epoch() before each pass changes it"
            )
        return self.epoch

    def second_batch(self, epoch: int) -> None:
        """Somebody who has had the first batch of `epoch` asks for another."""
        if epoch == self.epoch:
            self._is_used = True
            self._looks = 0


class EpochSampler(CountsEpochs, DistributedSampler):
    """A DistributedSampler that counts the epochs itself where the script does not."""

    def __iter__(self):
        self.begin_pass()
        return super().__iter__()


class DistributedBatchSampler(CountsEpochs, Sampler):
    """Every world_size-th batch of the user's own batch sampler, whose order is the same on every rank.

    While it draws, the generators have seeds that all ranks share. Those of the process begin with the epoch, as in a
    DistributedSampler, and the sampler's own with rank 0's.
    """

    def __init__(self, batches: Iterable, rank: int, world_size: int):
        self.batches = batches
        self.rank = rank
        self.world_size = world_size
        self._generators = _of_the_process()
        own = [one for one in _generators_of(batches) if one not in self._generators]
        self._seeds = [0] * len(self._generators)
        if own:
            self._generators += own
            self._seeds += broadcast_from_rank_zero([_drawn(one) for one in own])

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        for sampler in (self.batches, getattr(self.batches, "sampler", None)):
            if (set_epoch := getattr(sampler, "set_epoch", None)) is not None:
                set_epoch(epoch)

    def __len__(self) -> int:
        return -(-len(self.batches) // self.world_size)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator:
        self.begin_pass()
        seeded = _Seeded(self._generators, [seed + self.epoch for seed in self._seeds])
        with seeded:
            batches = iter(self.batches)
        first: list = []
        while True:
            with seeded:
                turn = list(itertools.islice(batches, self.world_size))
            if not turn:
                return
            first = first or turn
            # All ranks have equally many: those without a batch get one of the first again.
            yield turn[self.rank] if self.rank < len(turn) else first[(self.rank - len(turn)) % len(first)]


class PlainSampler(Sampler):
    """A list, a range, or what else takes no attributes, as a sampler."""

    def __init__(self, rows: Any):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator:
        return iter(self.rows)


@dataclasses.dataclass(frozen=True)
class _Generator:
    """A random generator of any kind."""

    it: Any
    state: Callable[[], Any] = dataclasses.field(compare=False)
    set_state: Callable[[Any], Any] = dataclasses.field(compare=False)
    seed: Callable[[int], Any] = dataclasses.field(compare=False)
    draw: Callable[[], int] = dataclasses.field(compare=False)


class _Seeded:
    """Inside, generators begin with these seeds and go on where they were inside before; outside nothing has changed."""

    def __init__(self, generators: List[_Generator], seeds: List[int]):
        self._generators = generators
        self._seeds = seeds
        self._inside: Optional[list] = None
        self._outside: list = []

    def __enter__(self) -> None:
        self._outside = [generator.state() for generator in self._generators]
        for place, generator in enumerate(self._generators):
            if self._inside is None:
                generator.seed(self._seeds[place])
            else:
                generator.set_state(self._inside[place])

    def __exit__(self, *_: Any) -> None:
        self._inside = [generator.state() for generator in self._generators]
        for generator, state in zip(self._generators, self._outside):
            generator.set_state(state)


def _of_the_process() -> List[_Generator]:
    numpy = sys.modules.get("numpy")
    things = [torch.default_generator, random._inst, None if numpy is None else numpy.random.mtrand._rand]  # type: ignore
    return [generator for thing in things if (generator := _generator(thing)) is not None]


def _generators_of(sampler: Any) -> List[_Generator]:
    """Those that it keeps, and the samplers that it keeps."""
    found: List[_Generator] = []
    left, seen = [sampler], set()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in getattr(one, "__dict__", {}).items():
            generator = _generator(value)
            if generator is not None and generator not in found:
                found.append(generator)
            if isinstance(value, Sampler) or name.endswith("sampler"):
                left.append(value)
    return found


def _generator(thing: Any) -> Optional[_Generator]:
    if isinstance(thing, torch.Generator):

        def draw() -> int:
            return int(torch.randint(2**31, (), generator=thing, device=thing.device))

        return _Generator(thing, thing.get_state, thing.set_state, thing.manual_seed, draw)
    if isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):
        return _Generator(thing, thing.getstate, thing.setstate, thing.seed, lambda: thing.getrandbits(31))
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(thing, numpy.random.RandomState):
        return _Generator(thing, thing.get_state, thing.set_state, thing.seed, lambda: int(thing.randint(2**31 - 1)))
    if isinstance(thing, numpy.random.Generator):
        bits = thing.bit_generator

        def set_state(state: Any) -> None:
            bits.state = state

        def seed(number: int) -> None:
            bits.state = type(bits)(number).state

        return _Generator(thing, lambda: bits.state, set_state, seed, lambda: int(thing.integers(2**31)))
    return None


def _drawn(generator: _Generator) -> int:
    """A number from it, which it does not miss."""
    state = generator.state()
    number = generator.draw()
    generator.set_state(state)
    return number
