"""Shapes in annotations are checked while tests run: at first calls each, later now and then."""
# ruff: noqa: F722 - shapes are strings

from dataclasses import dataclass

import pytest
import shape_check
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from arena.environments.base import Outcome
from trainer.ppo.loss import clipped_surrogate_loss


def add(first: Float[Tensor, " B"], second: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    return first + second


def wrong_calls(count):
    """Of so many calls whose sizes differ, those that are refused, counted from 1."""
    checked, refused = shape_check.checked(add, typechecker=shape_check.check), []
    for call in range(1, count + 1):
        try:
            checked(torch.zeros(3), torch.zeros(1))
        except TypeCheckError:
            refused.append(call)
    return refused


def test_functions_and_dataclasses_of_the_packages_are_checked():
    with pytest.raises(TypeCheckError, match="surrogate"):
        clipped_surrogate_loss(torch.ones(3), torch.ones(1), 0.2)
    with pytest.raises(TypeCheckError, match="score"):
        Outcome(torch.ones(3, 1), torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64))


def test_the_first_calls_are_checked_and_some_of_the_later_ones():
    first, later = shape_check.FIRST_CALLS, shape_check.LATER_CALLS
    assert wrong_calls(first + 2 * later) == [*range(1, first + 1), first + later, first + 2 * later]


def test_every_test_has_first_calls_of_its_own():
    checked = shape_check.checked(add, typechecker=shape_check.check)
    for _ in range(shape_check.FIRST_CALLS):
        checked(torch.zeros(3), torch.zeros(3))
    checked(torch.zeros(3), torch.zeros(1))
    shape_check.begin()
    with pytest.raises(TypeCheckError):
        checked(torch.zeros(3), torch.zeros(1))


def test_dataclass_fields_are_shape_checked():
    @shape_check.checked(typechecker=shape_check.check)
    @dataclass
    class Pair:
        first: Float[Tensor, " B"]
        second: Float[Tensor, " B"] | None

    assert Pair(torch.zeros(3), None).second is None
    with pytest.raises(TypeCheckError):
        Pair(torch.zeros(3), torch.zeros(1))
