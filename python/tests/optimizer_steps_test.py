"""Which steps of optimizers count as a loop's."""

import types

import pytest
import torch

from paceline.train.torch import _group


@pytest.fixture
def counted(monkeypatch):
    """A list with an entry for each step that has counted."""
    steps = []
    monkeypatch.setattr(_group, "native", types.SimpleNamespace(count_step=lambda: steps.append(len(steps) + 1)))
    with _group._steps_counted():
        yield steps


def optimizer():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    return torch.optim.SGD([weight], 0.1)


def test_of_several_optimizers_all_together_take_a_step(counted):
    generator, critic = optimizer(), optimizer()
    for _ in range(10):
        critic.step()
        generator.step()
    assert len(counted) == 10


def test_the_steps_of_one_that_takes_over_count_though_the_first_is_still_there(counted):
    first, second = optimizer(), optimizer()
    for _ in range(5):
        first.step()
    for _ in range(20):
        second.step()
    assert len(counted) == 5 + 19


def test_compiled_steps_warn_of_nothing(counted, recwarn):
    one = optimizer()
    torch.compile(one.step, backend="eager")()
    assert one.param_groups[0]["params"][0].tolist() == pytest.approx([0.9, 0.9])
    assert [str(warning.message) for warning in recwarn if "count_step" in str(warning.message)] == []
    before = len(counted)
    one.step()
    assert len(counted) == before + 1


def test_nothing_counts_after_the_loop():
    with _group._steps_counted():
        pass
    optimizer().step()
