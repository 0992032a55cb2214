"""Expressions of columns, which Arrow evaluates: ``col("x") * 2 > lit(3)``, or the text ``"x * 2 > 3"``.

A text means what it means in Python: ``/`` gives a double, also of whole numbers, and ``//`` one that is rounded down.
With col() and lit() operators are Arrow's, as in Ray Data: ``col("x") / 2`` of whole numbers is a whole number, without
what is behind the point; ``col("x").cast("float64") / 2`` has it.
"""

import ast
import base64
import operator
from typing import Any

import pyarrow.compute

from paceline import _absent


def col(name: str) -> pyarrow.compute.Expression:
    """The value of a column, as an expression of pyarrow.compute, whose operators it has."""
    return pyarrow.compute.field(name)


def lit(value: Any) -> pyarrow.compute.Expression:
    """A constant."""
    return pyarrow.compute.scalar(value)


def encoded(expression: Any) -> str:
    """An expression, or the text of one, as the core takes it. ValueError for a text that is none."""
    if isinstance(expression, str):
        expression = parsed(expression)
    if not isinstance(expression, pyarrow.compute.Expression):
        raise TypeError(f"the expression is a {type(expression).__name__}; wanted: one of col() and lit(), or a text")
    _, (serialized,) = expression.__reduce__()
    return base64.b64encode(serialized).decode()


def _divided(left, right):
    """As Python does it: Arrow would leave out what is behind the point where both are whole numbers."""
    return left.cast("float64", safe=False) / right.cast("float64", safe=False)


_BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided,
           ast.FloorDiv: lambda left, right: pyarrow.compute.floor(_divided(left, right)),
           ast.BitAnd: operator.and_, ast.BitOr: operator.or_}
_COMPARISON = {ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
               ast.Eq: operator.eq, ast.NotEq: operator.ne}


def parsed(text: str) -> pyarrow.compute.Expression:
    """An expression of Python's syntax: names are columns; and, or, not, in, comparisons, + - * / //. The two divisions
    are of doubles, and give such."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"the expression {text!r} cannot be read: {error.msg}") from None
    return _made_of(tree.body, text)


def _made_of(node, text):
    make = lambda part: _made_of(part, text)  # noqa: E731
    if isinstance(node, ast.Name):
        return col(node.id)
    if isinstance(node, ast.Constant):
        return lit(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](make(node.left), make(node.right))
    if isinstance(node, ast.BoolOp):
        parts = [make(part) for part in node.values]
        made = parts[0]
        for part in parts[1:]:
            made = made & part if isinstance(node.op, ast.And) else made | part
        return made
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ~make(node.operand)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return lit(-node.operand.value)
    if isinstance(node, ast.Compare):
        return _comparison(node, make, text)
    raise ValueError(f"the expression {text!r} has {ast.unparse(node)!r}, which cannot be evaluated; use a function")


def _comparison(node, make, text):
    made, left = None, node.left
    for kind, right in zip(node.ops, node.comparators):
        if isinstance(kind, (ast.In, ast.NotIn)):
            part = make(left).isin(ast.literal_eval(right))
            part = ~part if isinstance(kind, ast.NotIn) else part
        elif type(kind) in _COMPARISON:
            part = _COMPARISON[type(kind)](make(left), make(right))
        else:
            raise ValueError(f"the expression {text!r} has a comparison that cannot be evaluated; use a function")
        made, left = part if made is None else made & part, right
    return made


_absent.explain(__name__)
