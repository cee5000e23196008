"""Results as the SDK reads them: JSON for most, protobuf for samples and forward passes."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from tinker.proto import tinker_public_pb2 as wire

from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.examples import Floats, Integers
from tinker_episodes.loopback.futures import Reply
from tinker_episodes.loopback.sampling import Sample, Sampled
from tinker_episodes.loopback.scoring import MASK_LOGPROB, PromptScores, ScoresWanted
from tinker_episodes.loopback.sparse import SparseLayout
from tinker_episodes.loopback.trainer import Pass

_PROTOBUF = "application/x-protobuf"


def answer(**fields: Any) -> Reply:
    """A result in JSON."""
    return Reply(json.dumps(fields).encode())


def failure(error: Exception) -> Reply:
    """A request's failure, in the API's form."""
    refused = isinstance(error, ApiError) and error.status < 500
    message = error.message if isinstance(error, ApiError) else f"{type(error).__name__}: {error}"
    body = {"error": message, "category": "user" if refused else "server"}
    return Reply(json.dumps(body).encode(), failed=True)


def pass_reply(result: Pass) -> Reply:
    """The result of `forward` and `forward_backward`."""
    output = wire.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
    output.metrics["loss:sum"] = result.loss
    for trailing, arrays in groupby(result.logprobs, key=lambda array: array.shape[1:]):
        members = list(arrays)
        record = output.loss_fn_outputs.add(num_datums=len(members))
        record.fields["logprobs"].CopyFrom(_batched(members, trailing))
    return Reply(output.SerializeToString(), _PROTOBUF)


def sampled_reply(sampled: Sampled, *, alternatives: int, wanted: ScoresWanted | None) -> Reply:
    """The result of a sampling request."""
    response = wire.SampleResponse()
    for sample in sampled.samples:
        response.sequences.append(_sequence(sample, alternatives))
    if wanted is not None and sampled.scores is not None:
        _add_scores(response, sampled.scores, wanted)
    return Reply(response.SerializeToString(), _PROTOBUF)


def _add_scores(response: wire.SampleResponse, scores: PromptScores, wanted: ScoresWanted) -> None:
    if wanted.logprobs:
        response.prompt_logprobs = scores.logprobs.tobytes()
    if wanted.likeliest:
        likeliest = _likeliest(scores.likeliest_ids, scores.likeliest_logprobs)
        response.topk_prompt_logprobs.CopyFrom(likeliest)
    if wanted.targets is not None:
        layout = wanted.targets.layout
        response.target_prompt_logprobs.CopyFrom(_tensor(scores.target_logprobs, layout))
    if wanted.draws:
        response.prompt_alt_tokens.tokens.CopyFrom(_tensor(scores.drawn))
        response.prompt_alt_tokens.logprobs.CopyFrom(_tensor(scores.drawn_logprobs))


def _sequence(sample: Sample, alternatives: int) -> wire.SampledSequence:
    stopped, limit = wire.STOP_REASON_STOP, wire.STOP_REASON_LENGTH
    sequence = wire.SampledSequence(
        stop_reason=stopped if sample.stopped else limit,
        tokens=np.asarray(sample.tokens, dtype=np.int32).tobytes(),
        logprobs=np.asarray(sample.logprobs, dtype=np.float32).tobytes(),
    )
    if alternatives:
        ids = np.zeros((len(sample.tokens), alternatives), dtype=np.int32)
        logprobs = np.full(ids.shape, MASK_LOGPROB, dtype=np.float32)
        for place, (likeliest, values) in enumerate(sample.alternatives):
            ids[place, : len(likeliest)] = likeliest
            logprobs[place, : len(values)] = values
        sequence.topk_sampled_logprobs.CopyFrom(_likeliest(ids, logprobs))
    return sequence


def _likeliest(ids: npt.NDArray[np.int32], logprobs: Floats) -> wire.TopkLogprobs:
    length, k = ids.shape
    return wire.TopkLogprobs(
        token_ids=ids.tobytes(), logprobs=logprobs.tobytes(), k=k, length=length
    )


def _tensor(array: Floats | Integers, layout: SparseLayout | None = None) -> wire.Tensor:
    dtype = wire.DTYPE_INT64 if array.dtype == np.int64 else wire.DTYPE_FLOAT32
    if layout is None:
        return wire.Tensor(dense=array.tobytes(), dtype=dtype, shape=array.shape)
    csr = wire.SparseCsr(
        values=layout.gather(array).tobytes(),
        crow_indices=layout.starts.tobytes(),
        col_indices=layout.columns.tobytes(),
    )
    return wire.Tensor(sparse_csr=csr, dtype=dtype, shape=array.shape)


def _batched(arrays: Sequence[Floats], trailing: Sequence[int]) -> wire.BatchedTensor:
    offsets = np.cumsum([0, *(array.nbytes for array in arrays)], dtype=np.int64)
    return wire.BatchedTensor(
        data=b"".join(array.tobytes() for array in arrays),
        offsets=offsets.tobytes(),
        dtype=wire.DTYPE_FLOAT32,
        trailing_shape=trailing,
    )
