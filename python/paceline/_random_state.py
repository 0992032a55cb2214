"""Random generators that a forked worker has inherited: each worker draws numbers of its own, as a new interpreter would.

torch's, Python's and numpy's global generators get a new seed, and so does a generator or a numpy SeedSequence that a
library keeps for itself, if it had seeded itself from the operating system. What an import has given a seed or a state
keeps it: a new interpreter would have the same.
"""

import contextlib
import functools
import gc
import importlib
import random
import sys
import weakref
from typing import Any, FrozenSet, Iterator, List, Set

_put_back: List[Any] = []  # undoes what watch() has done
_self_seeded: "weakref.WeakSet[random.Random]" = weakref.WeakSet()
_own_states: Set[int] = set()  # of those, while somebody may put them back
_entropy: Set[int] = set()  # what numpy was given by the operating system
_torch_seeds: Set[int] = set()  # what torch has given itself
_seed_sequences: List[Any] = []  # numpy's of such numbers
_bit_generators: List[Any] = []  # numpy's that began with such a number
_given: List[Any] = []  # the state of Python's global generator, which gets another when a process is forked
_random_states: List[Any] = []  # numpy's old ones, which keep a drawn number


def _everybodys() -> Any:
    """Python's global generator."""
    return getattr(random, "_inst")


def watch() -> None:
    """From now on generators that seed themselves are noted. For before libraries are imported."""
    seed, getstate, setstate = random.Random.seed, random.Random.getstate, random.Random.setstate

    def note(generator, seeded_itself):
        with contextlib.suppress(TypeError):  # a class with __eq__ alone has no hash
            (_self_seeded.add if seeded_itself else _self_seeded.discard)(generator)

    def noting_seed(self, a=None, version=2):
        seed(self, a, version)
        note(self, a is None)

    def noting_getstate(self):
        state = getstate(self)
        with contextlib.suppress(TypeError):
            if self in _self_seeded:
                _own_states.add(hash(state))
        return state

    def noting_setstate(self, state):
        setstate(self, state)
        try:
            is_own = hash(tuple(state)) in _own_states
        except TypeError:  # it holds a list, as one from JSON does
            is_own = False
        note(self, is_own)

    def use(seed, getstate, setstate):
        for name, function in (("seed", seed), ("getstate", getstate), ("setstate", setstate)):
            setattr(random.Random, name, function)
            setattr(random, name, getattr(_everybodys(), name))

    _self_seeded.add(_everybodys())
    use(noting_seed, noting_getstate, noting_setstate)
    _put_back.append(lambda: use(seed, getstate, setstate))
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
    _put_back.append(lambda: setattr(bit_generator, "randbits", randbits))
    _entropy.add(sys.modules["numpy"].random.mtrand._rand._bit_generator.seed_seq.entropy)  # made by the import


def watch_torch() -> None:
    """The same for torch, once it is imported."""
    import torch

    seed = torch.random.seed

    @functools.wraps(seed)
    def noting_seed() -> int:
        number = seed()
        _torch_seeds.add(number)
        return number

    def use(function):
        torch.seed = torch.random.seed = function

    use(noting_seed)
    _put_back.append(lambda: use(seed))
    _torch_seeds.add(torch.initial_seed())


def find() -> None:
    """Notes numpy's generators that are there. For after libraries were imported, before gc.freeze(), which hides them."""
    _given[:] = [] if _everybodys() in _self_seeded else [random.getstate()]
    if "numpy" not in sys.modules:
        return
    from numpy.random import BitGenerator, RandomState, SeedSequence

    others: Set[int] = set()  # kinds
    for thing in gc.get_objects():
        kind = type(thing)
        if id(kind) in others:
            continue
        if kind is SeedSequence:
            if _is_noted(thing):
                _seed_sequences.append(thing)
        elif issubclass(kind, BitGenerator):
            if _is_own(thing):
                _bit_generators.append(thing)
        elif issubclass(kind, RandomState):
            _random_states.append(thing)
        else:
            others.add(id(kind))


def _is_noted(sequence: Any) -> bool:
    entropy = getattr(sequence, "entropy", None)
    return isinstance(entropy, int) and entropy in _entropy


def _is_own(generator: Any) -> bool:
    """Whether it draws what such a number has led to. It does not if it was given a seed or a state afterwards."""
    kind, sequence = type(generator).__name__, getattr(generator, "seed_seq", None)
    if sequence is None:  # so RandomState.seed() leaves it, with a seed or without
        return kind == "MT19937" and _key(generator) in _keys_of(frozenset(_entropy))
    if not _is_noted(sequence):
        return False
    if kind == "MT19937":
        return _key(generator) in _keys(sequence, 1000)
    name = {"PCG64": "inc", "PCG64DXSM": "inc", "Philox": "key"}.get(kind)  # which no draw changes
    return name is None or str(generator.state["state"][name]) == str(type(generator)(sequence).state["state"][name])


@functools.lru_cache(maxsize=1)
def _keys_of(entropy: FrozenSet[int]) -> Set[bytes]:
    from numpy.random import SeedSequence

    return {key for number in entropy for key in _keys(SeedSequence(number), max(2, 1000 // len(entropy)))}


def _keys(sequence: Any, blocks: int) -> Iterator[bytes]:
    """A Mersenne Twister's states that begin with `sequence`, for so many blocks of 624 numbers."""
    from numpy.random import MT19937

    generator = MT19937(sequence)
    for _ in range(blocks):
        yield _key(generator)
        generator.random_raw(624, output=False)


def _key(twister: Any) -> bytes:
    return twister.state["state"]["key"].tobytes()


def renew() -> None:
    """In a worker: new seeds for all of them. Nothing is noted any more: users' classes may be what that does not expect."""
    while _put_back:
        _put_back.pop()()
    for state in _given:
        random.setstate(state)
    for generator in list(_self_seeded):
        generator.seed()
    fresh = {number: random.SystemRandom().getrandbits(128) for number in _entropy}
    for sequence in _seed_sequences:
        sequence.__init__(
            fresh[sequence.entropy],
            spawn_key=sequence.spawn_key,
            pool_size=sequence.pool_size,
            n_children_spawned=sequence.n_children_spawned,
        )
    for generator in _bit_generators:
        generator.state = (type(generator)() if generator.seed_seq is None else type(generator)(generator.seed_seq)).state
    for generator in _random_states:
        if any(generator._bit_generator is own for own in _bit_generators):
            generator.set_state({**generator.get_state(legacy=False), "has_gauss": 0, "gauss": 0.0})
    if "torch" in sys.modules and sys.modules["torch"].initial_seed() in _torch_seeds:
        sys.modules["torch"].seed()  # a device that has not been opened is left as it is, and gets its seed when it is
