"""Ray Train's and Ray Data's whole public trees are here, as ray_tree.json has it: modules, names, parameters, members, values of
enumerations. What is not has a row in paceline._absent; NOT_LIKE_RAYS has what is here in another form.
"""

import contextlib
import importlib
import importlib.util
import inspect
import json
import pathlib
import pickle
import pkgutil
import re
import subprocess
import sys
import types

import cloudpickle
import pytest

import paceline
import ray_tree
from paceline import _absent, _aliases
from paceline.air import session
from paceline.train import Checkpoint, DataConfig, ScalingConfig, TrainContext, constants

TREE = json.loads(ray_tree.TREE.read_text())
# Where scripts should find a name; other modules may have it too.
PLACES = ("train", "train.torch", "train.lightning", "data", "data.preprocessors")
# Ray's classes of objects that no module offers, and what stands for them here.
OBJECTS = {
    "RayContext": "_cluster.Context",
    "TrainRunContext": "train.callback.RunContext",
    "StorageContext": "train.storage_context.StorageContext",
}
NOT_LIKE_RAYS = {
    "_cluster.Context(…)": "init() makes it",
    "train.callback.RunContext(…)": "callbacks get it",
    "train.storage_context.StorageContext(…)": "get_context().get_storage() makes it",
    "data.Dataset(…)": "readers and steps make it",
    "data.DataContext(…)": "get_current() has the one that counts",
    "data.Schema(…)": "schema() makes it",
    "air.session.report(…)": "Ray AIR's; what Ray Train has added since is in paceline.train.report()",
}


def gaps():
    """What Ray has and Paceline has not, by name."""
    seen = set()
    for module in TREE["names"]:
        below = module.removeprefix("ray").lstrip(".")
        try:
            ours = importlib.import_module(f"paceline.{below}".rstrip("."))
        except ImportError:
            yield below
            continue
        for name, definition in TREE["names"][module].items():
            full = f"{below}.{name}".lstrip(".")
            if not hasattr(ours, name) and not is_module(f"paceline.{full}"):
                yield full
            elif definition and id(one := getattr(ours, name)) not in seen:
                seen.add(id(one))
                yield from differences(usual(full, one), one, TREE["definitions"][definition])
    for definition in TREE["objects"]:
        name = OBJECTS[definition.rpartition(".")[2]]
        yield from differences(name, pkgutil.resolve_name(f"paceline.{name}"), TREE["definitions"][definition])


def usual(full, one):
    """The name of the object `one`, which module and name `full` stands for, that scripts should use."""
    name = full.rpartition(".")[2]
    places = (place for place in PLACES if getattr(importlib.import_module(f"paceline.{place}"), name, None) is one)
    return next((f"{place}.{name}" for place in places), full)


def is_module(name):
    with contextlib.suppress(ImportError):
        return importlib.util.find_spec(name) is not None
    return False


def differences(name, ours, theirs):
    if isinstance(theirs, list):
        if not takes(ours, theirs):
            yield f"{name}(…)"
        return
    if theirs["parameters"] and not takes(ours, theirs["parameters"]):
        yield f"{name}(…)"
    has = attributes(ours)
    for member, what in theirs["members"].items():
        full = f"{name}.{member}"
        if member not in has:
            yield full
        elif isinstance(what, list) and not takes(inspect.getattr_static(ours, member), what, is_member=True):
            yield f"{full}(…)"
        elif isinstance(what, dict) and getattr(ours, member).value != what["value"]:
            yield f"{full} == {what['value']!r}"


def takes(function, theirs, is_member=False):
    """Whether calls with Ray's parameters work: those by position at the same places, the others by name."""
    is_static = isinstance(function, staticmethod)
    function = getattr(function, "__func__", function)
    parameters = list(inspect.signature(function).parameters.values())[1 if is_member and not is_static else 0 :]
    kinds = {one.kind for one in parameters}
    by_position = theirs[: next((i for i, name in enumerate(theirs) if name.startswith("*")), len(theirs))]
    public = [one for one in parameters if not one.name.startswith("_")]  # as in the tree
    places = [one.name for one in public if one.kind == one.POSITIONAL_OR_KEYWORD]
    named = {one.name for one in parameters}
    in_place = inspect.Parameter.VAR_POSITIONAL in kinds or places[: len(by_position)] == by_position
    return in_place and (inspect.Parameter.VAR_KEYWORD in kinds or named >= {n for n in theirs if not n.startswith("*")})


def attributes(cls):
    """What the objects of a class have."""
    found = set(getattr(cls, "__dataclass_fields__", ()))
    for one in inspect.getmro(cls)[:-1]:
        found |= {name for name, what in vars(one).items() if not isinstance(what, _absent._Absent)}
        found |= set(vars(one).get("__annotations__", ()))
        with contextlib.suppress(OSError, TypeError):  # of what is not written in Python
            for targets in re.findall(r"^ +(self\.\w+(?:, self\.\w+| = self\.\w+)*)(?:: [^=]+)? = ", inspect.getsource(one), re.MULTILINE):
                found |= set(re.findall(r"self\.(\w+)", targets))
    return found


def unexplained(missing):
    return [gap for gap in missing if not _absent.error(gap) and gap not in NOT_LIKE_RAYS]


def test_the_whole_tree_is_here_but_for_what_has_a_reason():
    assert not unexplained(GAPS), "neither here nor explained"


def test_each_reason_is_for_something_that_is_not_here():
    of_today = {name for name, (_, kind) in _absent.ROWS.items() if kind is not _absent.RemovedNameError}
    assert sorted(of_today - set(GAPS)) == []
    assert NOT_LIKE_RAYS.keys() <= set(GAPS)
    assert all(gap.endswith("(…)") for gap in NOT_LIKE_RAYS), "what is missing has a row in paceline._absent"


@pytest.mark.parametrize(
    "owner, name", [(session, "report"), (constants, "TRAIN_DATASET_KEY"), (TrainContext, "get_storage")]
)
def test_what_is_taken_away_is_missing(owner, name, monkeypatch):
    monkeypatch.delattr(owner, name)
    assert any(gap.endswith(f".{name}") for gap in unexplained(gaps()))


def test_the_tree_is_of_the_version_that_is_pinned():
    assert TREE["version"] == ray_tree.VERSION, "run python/tests/ray_tree.py"


@pytest.mark.parametrize("name", _absent.ROWS)
def test_what_is_absent_says_what_to_use_instead(name):
    place, _, last = f"paceline.{name}".rpartition(".")
    owner, (why, kind) = pkgutil.resolve_name(place), _absent.ROWS[name]
    text = re.escape(f"paceline.{name} does not exist: {why}. See docs/porting/ray_train.md")
    assert not hasattr(owner, last)
    with pytest.raises(NotImplementedError, match=text) as caught:
        getattr(owner, last)
    assert caught.type is kind
    if isinstance(owner, types.ModuleType):
        with pytest.raises(ImportError, match=text):
            exec(f"from {place} import {last}")
        with pytest.raises(ImportError, match=text):
            importlib.import_module(f"{place}.{last}")


def test_what_ray_train_has_removed_is_a_deprecation_warning():
    with pytest.raises(DeprecationWarning):
        getattr(Checkpoint, "from_uri")


def test_what_is_absent_below_an_alias_does_too():
    with pytest.raises(ImportError, match="train.base_trainer.BaseTrainer does not exist: derive from"):
        from paceline.train.base_trainer import BaseTrainer  # noqa: F401
    with pytest.raises(ImportError, match="paceline.train.tensorflow does not exist: .*PyTorch"):
        import paceline.train.tensorflow.keras  # noqa: F401
    for module in ("train.v2.api.config", "train.constants"):
        with pytest.raises(ImportError, match="cannot import name 'nothing'"):
            exec(f"from paceline.{module} import nothing")


@pytest.mark.parametrize("make", [lambda: ScalingConfig().as_placement_group_factory(),
                                  lambda: ScalingConfig.from_placement_group_factory(None),
                                  lambda: DataConfig().configure({}, 2, None, None)])  # fmt: skip
def test_absent_members_are_refused_by_name(make):
    with pytest.raises(NotImplementedError, match="paceline.train.*(Factory|factory|configure) does not exist"):
        make()


def test_aliases_hold_the_same_objects():
    import paceline.train.v2.api.config as alias
    from paceline.train.v2.api.config import RunConfig

    assert RunConfig is paceline.train.RunConfig is alias.RunConfig
    assert pickle.loads(pickle.dumps(alias.FailureConfig(max_failures=2))).max_failures == 2
    assert cloudpickle.loads(cloudpickle.dumps(alias)) is alias


def test_an_alias_can_be_the_first_import():
    program = "import paceline.train.v2.api.train_fn_utils as alias; print(alias.report.__module__)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "paceline.train.session\n"


def test_files_come_before_aliases():
    folder = pathlib.Path(paceline.__file__).parent
    for name in _aliases.SOURCES:
        assert not list(folder.glob(name.replace(".", "/") + ".py")), name


GAPS = list(gaps())
