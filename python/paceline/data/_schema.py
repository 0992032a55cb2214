"""Schema: what Dataset.schema() says."""

from typing import Any, List

import pyarrow


def text_of(kind: Any) -> str:
    """Of tensors ``uint8[32, 32, 3]``, of others what Arrow calls them."""
    if isinstance(kind, pyarrow.FixedShapeTensorType):
        return f"{kind.value_type}{list(kind.shape)}"
    shape = []
    while pyarrow.types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    return f"{kind}{shape}" if shape else str(kind)


class Schema:
    """The columns of a dataset: their names and Arrow's types. It has all that a pyarrow.Schema has.

    Args:
        base_schema: That pyarrow.Schema.
    """

    def __init__(self, base_schema: pyarrow.Schema):
        self.base_schema = base_schema

    @property
    def names(self) -> List[str]:
        """The columns."""
        return self.base_schema.names

    @property
    def types(self) -> List[pyarrow.DataType]:
        """Of each column."""
        return self.base_schema.types

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "base_schema":
            raise AttributeError(name)
        return getattr(self.base_schema, name)

    def __eq__(self, other: object) -> bool:
        mine = self.names, self.types
        return isinstance(other, (Schema, pyarrow.Schema)) and (other.names, other.types) == mine

    def __hash__(self) -> int:
        return hash((tuple(self.names), tuple(map(str, self.types))))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Any:
        return iter(self.base_schema)

    def __repr__(self) -> str:
        width = max(map(len, ["Column", *self.names]))
        rows = [("Column", "Type"), ("------", "----"), *zip(self.names, map(text_of, self.types))]
        return "\n".join(f"{name:{width}}  {kind}" for name, kind in rows)
