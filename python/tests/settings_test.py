"""Settings: Python's are those that C++ declares, and no option is accepted in silence."""

import ast
import contextlib
import dataclasses
import inspect
import pathlib
import re
import typing

import pytest
import torch

import paceline
import paceline.train as train
from paceline import _notices, _options
from paceline._native import native
from paceline.train import BackendConfig, ConfigError, DataParallelTrainer
from paceline.train.torch import TorchConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/paceline"

DECLARED = {
    train.CheckpointConfig: native.checkpoint_config,
    train.DebugConfig: native.debug_config,
    train.FailureConfig: native.failure_config,
    train.RunConfig: native.run_config,
    train.ScalingConfig: native.scaling_config,
    train.TrackerConfig: native.tracker_config,
    train.ValidationTaskConfig: native.validation_task_config,
    TorchConfig: native.torch_config,
}
# Fields of one language alone, and why. Options of no effect are rows of _options.
ONLY_PYTHON = {
    "RunConfig.storage_filesystem": "the file system that storage_path is in",
    "RunConfig.worker_runtime_env": "Ray Train's name for worker_environment",
    "RunConfig.logging_config": "Ray Train's place for log_level",
    "ValidationTaskConfig.fn_kwargs": "Ray Train's name for config",
}
ONLY_CPP = {
    "RunConfig.worker_environment": "worker_runtime_env, as in Ray Train",
    "RunConfig.working_dir": "worker_runtime_env['working_dir'], as in Ray Train",
    "RunConfig.py_modules": "worker_runtime_env['py_modules'], as in Ray Train",
    "RunConfig.excludes": "worker_runtime_env['excludes'], as in Ray",
    "ScalingConfig.ship": "a Python program is its interpreter, which each machine has",
    "RunConfig.log_level": "LoggingConfig.log_level, as in Ray Train",
    "ValidationTaskConfig.config": "fn_kwargs, as in Ray Train",
}
# What a class cannot be made without.
REQUIRED = {train.TrackerConfig: {"kind": "csv"}}
# What an object is given by itself where it says nothing.
FILLED_IN = {train.RunConfig: ("name", "storage_path")}
# Values of which one is refused by every field that does not take anything.
REFUSED_VALUES = (-2, "not/allowed", {"CPU": -1})

pairs = pytest.mark.parametrize(("config", "declaration"), DECLARED.items(), ids=lambda one: getattr(one, "__name__", ""))


def fields(declaration):
    return {field["name"]: field for field in declaration.fields()}


def make(config, **values):
    return config(**{**REQUIRED.get(config, {}), **values})


def listed(config, name):
    return name in _options.NO_EFFECT.get(config.__name__, {}) or name in _options.REFUSED.get(config.__name__, {})


@pairs
def test_both_languages_have_the_same_fields(config, declaration):
    names = {field.name for field in dataclasses.fields(config)}
    only_python = {name for name in names - fields(declaration).keys() if not listed(config, name)}
    only_cpp = fields(declaration).keys() - names
    assert only_python == {key.split(".")[1] for key in ONLY_PYTHON if key.startswith(f"{config.__name__}.")}
    assert only_cpp == {key.split(".")[1] for key in ONLY_CPP if key.startswith(f"{config.__name__}.")}


@pairs
def test_defaults_are_those_of_cpp(config, declaration):
    usual = {name: field["default"] for name, field in fields(declaration).items()}
    made = make(config)
    filled_in = {name: getattr(made, name) for name in FILLED_IN.get(config, ())}
    assert made._to_settings() == {**usual, **REQUIRED.get(config, {}), **filled_in}
    parameters = inspect.signature(config).parameters
    for name in usual.keys() & parameters.keys() - REQUIRED.get(config, {}).keys():
        shown = parameters[name].default
        assert shown == usual[name] or shown is None or repr(shown) == "<factory>", name


@pairs
def test_help_is_that_of_cpp(config, declaration):
    text = " ".join(inspect.getdoc(config).split())
    for name, field in fields(declaration).items():
        if f"{config.__name__}.{name}" in ONLY_CPP:
            continue
        assert f" {name}: {' '.join(field['help'].split())}." in text
        assert field["allowed"] == "anything" or f"Allowed: {' '.join(field['allowed'].split())}." in text
    for field in dataclasses.fields(config):
        assert f" {field.name}: " in text


@pairs
def test_refusals_are_those_of_cpp(config, declaration):
    for name in fields(declaration).keys() & {field.name for field in dataclasses.fields(config)}:
        allowed = fields(declaration)[name]["allowed"]
        if allowed != "anything":
            assert allowed in refusal(config, name), name


def refusal(config, name):
    """What the field says to the first of the values that it does not take; the declaration says the same."""
    for value in REFUSED_VALUES:
        try:
            make(config, **{name: value})
        except ConfigError as error:
            with pytest.raises(ConfigError, match=re.escape(str(error))):
                DECLARED[config].check({name: value})
            assert isinstance(error, ValueError) and str(error).startswith(f"{config.__name__}.{name} is ")
            return str(error)
    raise AssertionError(f"{config.__name__}.{name} takes all of {REFUSED_VALUES}")


@pairs
def test_choices_that_type_checkers_see_are_those_of_cpp(config, declaration):
    for name, annotation in typing.get_type_hints(config).items():
        if typing.get_origin(annotation) is typing.Literal:
            choices = ", ".join(f'"{choice}"' for choice in typing.get_args(annotation))
            assert fields(declaration)[name]["allowed"] == f"one of {choices}"


def test_log_level_is_a_field_of_its_own_class_in_python():
    declared = fields(native.run_config)["log_level"]
    assert train.LoggingConfig().log_level == declared["default"]
    assert declared["help"] in " ".join(train.LoggingConfig.__doc__.split())  # it is wrapped
    assert train.RunConfig(logging_config=train.LoggingConfig("debug"))._to_settings()["log_level"] == "DEBUG"
    with pytest.raises(ConfigError, match='^LoggingConfig.log_level is "loud"; allowed: one of "CRITICAL", "DEBUG"'):
        train.LoggingConfig("loud")


def test_settings_that_are_left_out_are_filled_in_as_ray_train_does():
    assert train.RunConfig().worker_runtime_env == {}
    assert train.ValidationTaskConfig().fn_kwargs == {} == train.ValidationConfig(print).ray_remote_kwargs


# As Ray Train 2.60 counts them.
@pytest.mark.parametrize(("settings", "total", "others"), [
    ({}, {"CPU": 1}, {}),
    ({"num_workers": 0}, {"CPU": 0}, {}),
    ({"num_workers": 2, "use_gpu": True}, {"GPU": 2}, {}),
    ({"num_workers": 2, "use_gpu": True, "resources_per_worker": {"CPU": 2}}, {"CPU": 4, "GPU": 2}, {}),
    ({"num_workers": 2, "use_gpu": True, "resources_per_worker": {"GPU": 2, "CPU": 0}}, {"GPU": 4}, {}),
    ({"num_workers": (1, 4), "resources_per_worker": {"CPU": 0.5, "memory": 9}}, {"CPU": 2, "memory": 36}, {"memory": 9}),
    ({"num_workers": 2, "use_gpu": True, "accelerator_type": "T4"}, {"GPU": 2, "accelerator_type:T4": 0.002},
     {"accelerator_type:T4": 0.001}),
])  # fmt: skip
def test_resources_are_counted_as_ray_train_does(settings, total, others):
    scaling = train.ScalingConfig(**settings)
    assert scaling.total_resources == total and scaling.additional_resources_per_worker == others
    each = {name: amount / (scaling.max_workers or 1) for name, amount in total.items()}
    assert scaling.num_gpus_per_worker == each.get("GPU", 0) and scaling.num_tpus_per_worker == 0
    assert scaling.num_cpus_per_worker == (each.get("CPU", 0) if settings.get("num_workers") != 0 else 1)
    assert scaling.resources_per_worker == settings.get("resources_per_worker")


def test_a_class_of_the_users_own_is_checked_too():
    @dataclasses.dataclass
    class Patient(train.FailureConfig):
        max_failures: int = 100

    assert Patient()._to_settings()["max_failures"] == 100
    with pytest.raises(ConfigError, match="FailureConfig.max_failures is -2"):
        Patient(max_failures=-2)


# How an option of each owner is given: with a value of its type where that is checked.
VALUES = {
    "accelerator_type": "A100",
    "label_selector": {"zone": "a"},
    "elastic_resize_monitor_interval_s": 5,
    "max_preemption_failures": 2,
    "relax_collectives_on_preemption": True,
    "preemption_grace_s": 5,
}


def of_class(config):
    return lambda option: config(**{option: VALUES.get(option, ["a value of its own"])})


def of_torch_config(option):
    TorchConfig(**{option: "tcp"})


def of_trainer(option):
    DataParallelTrainer(lambda: None, **{option: train.DataConfig() if option == "dataset_config" else {"a": 1}})


def of_data_config(option):
    train.DataConfig(**{option: ["a"]})


def of_backend(option):
    backend = type("Other", (train.Backend,), {option: True})
    DataParallelTrainer(lambda: None, backend_config=type("OtherConfig", (BackendConfig,), {"backend_cls": backend})())


def of_backend_config(option):
    DataParallelTrainer(lambda: None, backend_config=type("OtherConfig", (BackendConfig,), {option: None})())


def of_fully_shard(option):
    from paceline.train.torch import fsdp

    assert fsdp._translated(torch.nn.Linear(1, 1), {option: True}) == {}


def of_lightning(option):
    pytest.importorskip("lightning")
    from paceline.train import lightning

    lightning.DDPStrategy(**{option: "gloo" if option == "process_group_backend" else None})


def of_dataset(option):
    import paceline.data

    one = paceline.data.range(1)
    calls = {
        "locality_hints": lambda: one.split(1, locality_hints=["a"]),
        "fetch_if_missing": lambda: one.schema(fetch_if_missing=False),
        "parallelism": lambda: paceline.data.range(1, parallelism=2),
        "local_read": lambda: paceline.data.from_torch([torch.ones(1)], local_read=True),
    }
    calls.get(option, lambda: one.random_shuffle(**{option: 1}))()


GIVEN = {
    "Dataset": of_dataset,
    "TorchConfig": of_torch_config,
    "ValidationConfig": lambda option: train.ValidationConfig(print, **{option: {"num_cpus": 1}}),
    "DataParallelTrainer": of_trainer,
    "DataConfig": of_data_config,
    "Backend": of_backend,
    "BackendConfig": of_backend_config,
    "shutdown": lambda option: paceline.shutdown(**{option: True}),
    "fully_shard": of_fully_shard,
    "Lightning's strategy": of_lightning,
}


def given(owner, option):
    GIVEN.get(owner, of_class(getattr(train, owner, None)))(option)


def rows(table):
    return [(owner, option) for owner, options in table.items() for option in options]


@pytest.fixture
def notices(capfd, monkeypatch):
    """What has been printed since the last call."""
    monkeypatch.setattr(_notices, "_given", set())
    return lambda: [line for line in capfd.readouterr().err.splitlines() if line.startswith("paceline: ")]


@pytest.mark.parametrize(("owner", "option"), rows(_options.NO_EFFECT))
def test_an_option_of_no_effect_gets_one_notice(owner, option, notices):
    given(owner, option)
    assert notices() == [f"paceline: {owner}({option}=…) has no effect: {_options.NO_EFFECT[owner][option]}"]
    given(owner, option)
    assert notices() == []


@pytest.mark.parametrize(("owner", "option"), rows(_options.REFUSED))
def test_a_removed_option_is_refused_with_what_to_do(owner, option):
    with pytest.raises(ConfigError, match=re.escape(_options.REFUSED[owner][option])) as caught:
        given(owner, option)
    assert isinstance(caught.value, DeprecationWarning)  # what Ray Train raises


def test_what_is_not_given_gets_no_notice(notices):
    for config in DECLARED:
        make(config)
    DataParallelTrainer(lambda: None)
    train.ScalingConfig(placement_strategy="PACK")
    assert notices() == []


def test_arguments_of_init_that_are_not_read_get_a_notice(notices):
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(paceline.shutdown)
        paceline.init(num_cpus=4, runtime_env={"pip": ["a"]}, ignore_reinit_error=True)
    assert notices() == [
        f"paceline: init(num_cpus=…) has no effect: {_options.NO_CLUSTER}",
        f"paceline: init(runtime_env['pip']=…) has no effect: {_options.OWN_ENVIRONMENT}",
    ]


def test_every_option_of_no_effect_is_in_the_guide():
    page = (ROOT / "docs/porting/ray_train.md").read_text()
    for owner, option in rows(_options.NO_EFFECT) + rows(_options.REFUSED):
        assert f"`{option}`" in page, f"{owner}({option}=…) is missing in docs/porting/ray_train.md"


def sources():
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def loaded(node):
    """The names and attributes that are read."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
            yield part.attr


def test_no_parameter_is_accepted_and_never_read():
    unread = []
    for path, module in sources().items():
        for function in ast.walk(module):
            if not isinstance(function, ast.FunctionDef) or called_by_others(function) or not does_something(function):
                continue
            arguments = function.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            names = {argument.arg for argument in every if argument is not None} - {"self", "cls"}
            read = {name for statement in function.body for name in loaded(statement)}
            unread += [f"{path.relative_to(PACKAGE)} {function.name}({name})" for name in sorted(names - read)]
    assert unread == []


def called_by_others(function):
    """By frameworks and by Python, which decide what they hand over."""
    of_import = function.name in ("find_spec", "is_package")
    # What sinks of Ray's scripts call and override, with all that Ray hands over.
    of_sinks = function.name.startswith("get_filename_for_") or function.name == "iter_rows"
    return of_import or of_sinks or function.name.startswith("on_") or function.name.startswith("__") and function.name != "__init__"


def does_something(function):
    body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    return not all(isinstance(one, (ast.Pass, ast.Raise)) for one in body)


def test_no_field_of_a_configuration_is_never_read():
    read = {name for module in sources().values() for name in loaded(module)}
    for config in (*DECLARED, train.ValidationConfig, train.SyncConfig):
        declared = fields(DECLARED[config]) if config in DECLARED else {}
        for field in dataclasses.fields(config):
            assert field.name in declared or field.name in read or listed(config, field.name), field.name


def test_no_declared_field_is_never_read_in_cpp():
    files = {path: path.read_text() for path in (ROOT / "paceline").rglob("*") if path.suffix in (".cpp", ".h")}
    headers = [path for path, text in files.items() if re.search(r"^PACELINE_CONFIG\(", text, re.MULTILINE)]
    assert len(headers) >= len(DECLARED)
    elsewhere = "\n".join(
        text for path, text in files.items() if path not in headers and not path.stem.endswith("_test")
    )
    read = set(re.findall(r"(?:\.|->)(\w+)\b", elsewhere))
    for header in headers:
        for name in re.findall(r"FIELD\(\s*[\w:<>, ]+?, (\w+), ", files[header].replace("\\\n", " ")):
            assert name in read, f"{header.name} declares {name}, which nothing reads"
