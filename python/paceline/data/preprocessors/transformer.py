"""Powers that make numbers look more like those of a normal distribution."""

from typing import List, Optional

import numpy

from paceline.data.preprocessors._numbers import OfNumbers


class PowerTransformer(OfNumbers):
    """The power transform of Yeo and Johnson (2000), or of Box and Cox (1964), which is for positive numbers. Doubles.

    Args:
        columns: Of numbers.
        power: Its parameter.
        method: "yeo-johnson" or "box-cox".
        output_columns: Where they go; None: into the same columns.
    """

    _is_fittable = False
    _keeps_narrow_floats = False  # powers soon leave their range

    def __init__(self, columns: List[str], power: float, method: str = "yeo-johnson", *,
                 output_columns: Optional[List[str]] = None):
        super().__init__(columns, output_columns)
        if method not in ("yeo-johnson", "box-cox"):
            raise ValueError(f"method is {method!r}; allowed: 'yeo-johnson', 'box-cox'")
        self.power, self.method = power, method

    def _column(self, values):
        if self.method == "box-cox":
            return numpy.log(values) if self.power == 0 else (values**self.power - 1) / self.power
        numbers = values.to_numpy(dtype="float64", na_value=numpy.nan)
        made = numpy.full(len(numbers), numpy.nan)
        for chosen, sign, power in ((numbers >= 0, 1, self.power), (numbers < 0, -1, 2 - self.power)):
            size = sign * numbers[chosen] + 1
            made[chosen] = sign * (numpy.log(size) if power == 0 else (size**power - 1) / power)
        return made
