"""Sparse tensors on the wire: compressed rows, as torch's CSR layout has them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of whatever dtype the request says."""


@dataclass(frozen=True, slots=True)
class SparseLayout:
    """Which elements of a matrix are listed."""

    starts: npt.NDArray[np.int64]
    """Where each row's elements begin among all, and where the last row's end."""
    columns: npt.NDArray[np.int64]
    """The column of each element."""

    def spread(self, values: Array, shape: tuple[int, int], *, empty: int = 0) -> Array:
        """The whole matrix; `ValueError` where the layout does not fit it."""
        if len(self.starts) != shape[0] + 1 or len(self.columns) != len(values):
            raise ValueError(f"{len(self.starts)} row pointers do not fit shape {shape}")
        counts = np.diff(self.starts)
        if self.starts[0] != 0 or self.starts[-1] != len(values) or (counts < 0).any():
            raise ValueError("the row pointers do not count its values")
        if self.columns.size and not 0 <= self.columns.min() <= self.columns.max() < shape[1]:
            raise ValueError("a column index is out of range")
        matrix = np.full(shape, empty, dtype=values.dtype)
        matrix[self._rows(), self.columns] = values
        return matrix

    def gather(self, matrix: Array) -> Array:
        """The listed elements of a matrix."""
        return matrix[self._rows(), self.columns]

    def _rows(self) -> npt.NDArray[np.int64]:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
