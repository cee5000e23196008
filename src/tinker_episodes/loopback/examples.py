"""Training examples: decoded from the wire, checked, and padded into batches of similar length."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from tinker.proto import tinker_public_pb2 as wire
from torch import Tensor

from tinker_episodes.loopback.config import CONTEXT_LENGTH
from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.losses import check_inputs
from tinker_episodes.loopback.sparse import SparseLayout

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_BATCH_TOKENS = 8_192
_PADDING_RATIO = 1.25
_MAX_TARGETS = 1_024
_DTYPES: Mapping[int, type[np.generic]] = {
    wire.DTYPE_FLOAT32: np.float32,
    wire.DTYPE_INT64: np.int64,
    wire.DTYPE_INT32: np.int32,
}


@dataclass(frozen=True, slots=True)
class Example:
    """One datum: input tokens, and for each position its target tokens and loss inputs."""

    tokens: Integers
    """[length]"""
    targets: Integers
    """[length, targets a position]"""
    inputs: Mapping[str, Floats]
    """Each of the targets' shape."""
    flat: bool
    """Whether the datum has one target a position, without an axis for it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples padded on the right to one length."""

    members: Sequence[int]
    """The examples' places in the request."""
    tokens: Tensor
    targets: Tensor
    inputs: Mapping[str, Tensor]
    real: Tensor
    """True where an element is an example's, not padding."""


def decode_examples(data: Iterable[wire.Datum], loss: str, *, vocabulary: int) -> list[Example]:
    """The data of a request for `loss`; `ApiError` names the datum that is wrong."""
    return [_decode(datum, place, loss, vocabulary) for place, datum in enumerate(data)]


def batches(examples: Sequence[Example]) -> list[Batch]:
    """All examples in batches of similar length, the shortest first."""
    order = sorted(range(len(examples)), key=lambda i: _sort_key(examples[i]))
    groups: list[list[int]] = []
    for place in order:
        if groups and _fits(groups[-1], place, examples):
            groups[-1].append(place)
        else:
            groups.append([place])
    return [_pad(group, examples) for group in groups]


def _sort_key(example: Example) -> tuple[int, int]:
    return example.targets.shape[1], len(example.tokens)


def _fits(group: Sequence[int], place: int, examples: Sequence[Example]) -> bool:
    first, new = examples[group[0]], examples[place]
    length = len(new.tokens)
    return (
        new.targets.shape[1] == first.targets.shape[1]
        and length * (len(group) + 1) <= _BATCH_TOKENS
        and length <= _PADDING_RATIO * len(first.tokens) + 16
    )


def _pad(group: Sequence[int], examples: Sequence[Example]) -> Batch:
    members = [examples[place] for place in group]
    length = max(len(example.tokens) for example in members)
    keys = members[0].inputs
    real = np.zeros((len(members), length, 1), dtype=np.bool_)
    for row, example in enumerate(members):
        real[row, : len(example.tokens)] = True
    return Batch(
        members=group,
        tokens=_stack([example.tokens for example in members], length),
        targets=_stack([example.targets for example in members], length),
        inputs={key: _stack([e.inputs[key] for e in members], length) for key in keys},
        real=torch.from_numpy(real),  # pyright: ignore[reportUnknownMemberType]  # untyped in torch
    )


def _stack(arrays: Sequence[Floats] | Sequence[Integers], length: int) -> Tensor:
    first = arrays[0]
    stacked = np.zeros((len(arrays), length, *first.shape[1:]), dtype=first.dtype)
    for row, array in enumerate(arrays):
        stacked[row, : len(array)] = array
    return torch.from_numpy(stacked)  # pyright: ignore[reportUnknownMemberType]  # untyped in torch


def _decode(datum: wire.Datum, place: int, loss: str, vocabulary: int) -> Example:
    check_inputs(loss, frozenset(datum.loss_fn_inputs) - {"target_tokens"}, datum=place)
    if "target_tokens" not in datum.loss_fn_inputs:
        raise ApiError(f"datum {place} has no target_tokens")
    tokens = _decode_tokens(datum.model_input, place, vocabulary)
    targets = _decode_tensor(datum.loss_fn_inputs["target_tokens"], place, "target_tokens")
    flat = targets.ndim == 1
    shape = targets.shape
    if targets.ndim not in (1, 2) or shape[0] != len(tokens):
        raise ApiError(
            f"datum {place} has {len(tokens)} input tokens, but target_tokens of shape {shape}"
        )
    targets = targets.astype(np.int64).reshape(len(tokens), -1)
    _check_tokens(targets, place, vocabulary)
    inputs = {
        name: _decode_input(tensor, place, name, shape).reshape(targets.shape)
        for name, tensor in datum.loss_fn_inputs.items()
        if name != "target_tokens"
    }
    if loss == "cross_entropy" and "weights" not in inputs:
        inputs["weights"] = np.ones(targets.shape, dtype=np.float32)
    return Example(tokens, targets, inputs, flat)


def _decode_input(tensor: wire.Tensor, place: int, name: str, shape: tuple[int, ...]) -> Floats:
    values = _decode_tensor(tensor, place, name).astype(np.float32)
    if values.shape != shape:
        raise ApiError(
            f"datum {place} has {name!r} of shape {values.shape}, but target_tokens of {shape}"
        )
    if not np.isfinite(values).all():
        raise ApiError(f"datum {place} has a value in {name!r} that is not finite")
    return values


def _decode_tokens(chunks: Iterable[wire.Chunk], place: int, vocabulary: int) -> Integers:
    parts: list[npt.NDArray[np.int32]] = []
    for chunk in chunks:
        if not chunk.HasField("encoded_text"):
            raise ApiError(f"datum {place} holds an image or audio; this model reads text alone")
        if len(chunk.encoded_text.tokens) % 4:
            raise ApiError(f"datum {place} has tokens that are not 32-bit integers")
        parts.append(np.frombuffer(chunk.encoded_text.tokens, dtype=np.int32))
    tokens = np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)
    if not 0 < len(tokens) <= CONTEXT_LENGTH:
        raise ApiError(f"datum {place} has {len(tokens)} tokens; 1 to {CONTEXT_LENGTH} can be")
    _check_tokens(tokens, place, vocabulary)
    return tokens


def _check_tokens(tokens: Integers, place: int, vocabulary: int) -> None:
    if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        raise ApiError(f"datum {place} has a token that is not from 0 to {vocabulary - 1}")


def _decode_tensor(tensor: wire.Tensor, place: int, name: str) -> npt.NDArray[np.generic]:
    """The array of a dense or sparse tensor; unlisted elements of a sparse one are 0."""
    where = f"datum {place} has a malformed tensor {name!r}"
    dtype = _DTYPES.get(tensor.dtype)
    shape = tuple(tensor.shape)
    if dtype is None or len(shape) > 2 or any(size < 0 for size in shape):
        raise ApiError(f"{where}: dtype {tensor.dtype}, shape {shape}")
    if shape and (shape[0] > CONTEXT_LENGTH or shape[-1] > max(CONTEXT_LENGTH, _MAX_TARGETS)):
        raise ApiError(f"{where}: shape {shape} is too large")
    if len(shape) == 2 and shape[1] > _MAX_TARGETS:
        raise ApiError(f"{where}: {shape[1]} targets a position; at most {_MAX_TARGETS} can be")
    try:
        if tensor.HasField("sparse_csr"):
            return _decode_sparse(tensor.sparse_csr, dtype, shape)
        values = np.frombuffer(tensor.dense, dtype=dtype)
        return values.reshape(shape) if shape else values
    except (ValueError, IndexError) as error:
        raise ApiError(f"{where}: {error}") from error


def _decode_sparse(
    csr: wire.SparseCsr, dtype: type[np.generic], shape: tuple[int, ...]
) -> npt.NDArray[np.generic]:
    if len(shape) != 2:
        raise ValueError(f"a sparse tensor has two axes, not shape {shape}")
    starts = np.frombuffer(csr.crow_indices, dtype=np.int64)
    columns = np.frombuffer(csr.col_indices, dtype=np.int64)
    values = np.frombuffer(csr.values, dtype=dtype)
    return SparseLayout(starts, columns).spread(values, (shape[0], shape[1]))
