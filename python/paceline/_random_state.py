"""Random generators that a forked worker has inherited: each worker draws numbers of its own, as a new interpreter would.

torch's, Python's and numpy's global generators get a new seed. So does a generator that a library keeps for itself, if it
had seeded itself from the operating system. One that was given a seed keeps it: a new interpreter would have the same.
"""

import gc
import importlib
import random
import sys
import weakref
from typing import Any, List, Set

_self_seeded: "weakref.WeakSet[random.Random]" = weakref.WeakSet()
_entropy: Set[int] = set()  # what numpy was given by the operating system
_bit_generators: List[Any] = []  # numpy's that began with such a number


def watch() -> None:
    """From now on generators that seed themselves are noted. For before libraries are imported."""
    seed, setstate = random.Random.seed, random.Random.setstate

    def noting_seed(self, a=None, version=2):
        seed(self, a, version)
        (_self_seeded.add if a is None else _self_seeded.discard)(self)

    def noting_setstate(self, state):
        setstate(self, state)
        _self_seeded.discard(self)

    setattr(random.Random, "seed", noting_seed)
    setattr(random.Random, "setstate", noting_setstate)
    try:
        bit_generator: Any = importlib.import_module("numpy.random.bit_generator")
    except ImportError:
        return
    randbits = bit_generator.randbits

    def noting_randbits(bits):
        number = randbits(bits)
        _entropy.add(number)
        return number

    bit_generator.randbits = noting_randbits


def find() -> None:
    """Notes numpy's generators that are there. For after libraries were imported, before gc.freeze(), which hides them."""
    if "numpy" not in sys.modules:
        return
    from numpy.random import BitGenerator

    for thing in gc.get_objects():
        if issubclass(type(thing), BitGenerator) and getattr(thing.seed_seq, "entropy", None) in _entropy:
            _bit_generators.append(thing)


def renew() -> None:
    """In a worker: new seeds for all of them."""
    random.seed()
    for generator in list(_self_seeded):
        generator.seed()
    for generator in _bit_generators:
        generator.state = type(generator)().state
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()  # a device that has not been opened is left as it is, and gets its seed when it is
