"""Sampling requests: from the API's form to a job of the engine, and back."""

import math
import uuid
from collections.abc import Sequence

import numpy as np
from tinker import types
from tinker.types._pydantic_types.tensor_data import (
    TensorData as TensorModel,
)  # the JSON form of a tensor has no public name

from tinker_episodes.loopback.backend import Backend
from tinker_episodes.loopback.config import CONTEXT_LENGTH
from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.futures import Future, Reply
from tinker_episodes.loopback.replies import sampled_reply
from tinker_episodes.loopback.samplers import Sampler
from tinker_episodes.loopback.sampling import Params, Sampled, SampleJob
from tinker_episodes.loopback.scoring import ScoresWanted, TargetTokens
from tinker_episodes.loopback.sparse import SparseLayout

_MAX_SAMPLES = 1_024
_MAX_TOKENS = 2**21
"""Tokens of one request: of its prompt and its samples, all together."""
_MAX_SCORES = 2**24
"""Log-probabilities that one request can ask for with its prompt or its sample."""
_CLONE = 1_000_000_000
"""A sampling client's copies number their requests in blocks of so many."""


class Sampling:
    """What clients do with samplers. Lives on the event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def create(self, request: types.CreateSamplingSessionRequest) -> Sampler:
        """A sampler of saved weights, or of the untrained model."""
        backend = self._backend
        session = backend.sessions.find(request.session_id)
        backend.check_base_model(request.base_model)
        if request.model_path is None and request.base_model is None:
            raise ApiError("a sampling session needs a base_model or a model_path")
        path = request.model_path
        weights = backend.base_weights() if path is None else backend.saved_weights(path)
        return backend.add_sampler(session, request.sampling_session_seq_id, weights, path=path)

    def sample(self, request: types.SampleRequest) -> tuple[Future, list[str]]:
        """Begin to sample: the promise, and the ids of its sequences."""
        backend = self._backend
        if request.sampling_session_id is None:
            raise ApiError("a sample needs a sampling_session_id")
        sampler = backend.sessions.sampler(request.sampling_session_id)
        seq = request.seq_id
        request_id = f"{sampler.id}:{uuid.uuid4() if seq is None else seq}"
        sequence_ids = [f"{request_id}:{place}" for place in range(max(request.num_samples, 0))]
        # A client that lost the answer sends the same request again.
        if (known := backend.futures.find(request_id)) is not None:
            return known, sequence_ids
        prompt = self._prompt(request.prompt)
        params = self._params(request, len(prompt))
        _check_count(request.num_samples, len(prompt) + params.max_tokens)
        noise = self._noise(request, sampler, prompt)
        wanted = self._wanted(request, len(prompt), noise)
        target = f"{sampler.id}:{(seq or 0) // _CLONE}"
        future = backend.futures.open(request_id, sampler.session_id, target=target)

        def reply(sampled: Sampled) -> Reply:
            return sampled_reply(sampled, alternatives=params.alternatives, wanted=wanted)

        def done(result: Sampled | Exception) -> None:
            backend.attempt(future, lambda: reply(_given(result)))

        job = SampleJob(
            prompt=prompt,
            params=params,
            count=request.num_samples,
            noise=noise,
            weights=lambda: backend.models.get(sampler.weights),
            wanted=wanted,
            done=done,
        )
        future.cancel = job.cancel
        backend.worker.sample(job)
        return future, sequence_ids

    def _prompt(self, prompt: types.ModelInput) -> list[int]:
        tokens: list[int] = []
        for chunk in prompt.chunks:
            if not isinstance(chunk, types.EncodedTextChunk):
                raise ApiError("the prompt holds an image or audio; this model reads text alone")
            tokens += chunk.tokens
        if not 0 < len(tokens) < CONTEXT_LENGTH:
            raise ApiError(f"the prompt has {len(tokens)} tokens; 1 to {CONTEXT_LENGTH - 1} can be")
        last = self._backend.vocabulary.size - 1
        if not 0 <= min(tokens) <= max(tokens) <= last:
            raise ApiError(f"the prompt has a token that is not from 0 to {last}")
        return tokens

    def _params(self, request: types.SampleRequest, length: int) -> Params:
        given = request.sampling_params
        room = CONTEXT_LENGTH - length
        max_tokens = room if given.max_tokens is None else given.max_tokens
        if not 1 <= max_tokens <= room:
            raise ApiError(f"max_tokens is {max_tokens}; after this prompt 1 to {room} can be")
        if not (math.isfinite(given.temperature) and given.temperature >= 0):
            raise ApiError(f"temperature is {given.temperature}; it must not be negative")
        if given.top_k < -1:
            raise ApiError(f"top_k is {given.top_k}; it must be -1 or more")
        if not 0 < given.top_p <= 1:
            raise ApiError(f"top_p is {given.top_p}; it must be above 0 and at most 1")
        stop_tokens, stop_texts = self._stops(given.stop)
        return Params(
            max_tokens=max_tokens,
            temperature=given.temperature,
            top_k=max(given.top_k, 0),
            top_p=given.top_p,
            stop_tokens=stop_tokens,
            stop_texts=stop_texts,
            alternatives=_scores(request.topk_sample_logprobs, max_tokens, "topk_sample_logprobs"),
        )

    def _stops(
        self, stop: str | Sequence[str] | Sequence[int] | None
    ) -> tuple[frozenset[int], tuple[bytes, ...]]:
        """Tokens and texts that end a sample. No stops at all is not the same as none named."""
        if stop is None:
            end = self._backend.vocabulary.end_token
            return frozenset() if end is None else frozenset({end}), ()
        named = [stop] if isinstance(stop, str) else stop
        tokens = frozenset(item for item in named if isinstance(item, int))
        texts = tuple(item.encode() for item in named if isinstance(item, str))
        if b"" in texts:
            raise ApiError("a stop string is empty")
        return tokens, texts

    def _noise(
        self, request: types.SampleRequest, sampler: Sampler, prompt: Sequence[int]
    ) -> list[int]:
        """What seeds the samples: the request's own seed, or the server's and the prompt."""
        seed = request.sampling_params.seed
        if seed is not None:
            return [seed % 2**64]
        return [self._backend.seed % 2**64, *sampler.noise(prompt)]

    def _wanted(
        self, request: types.SampleRequest, length: int, noise: Sequence[int]
    ) -> ScoresWanted | None:
        likeliest = _scores(request.topk_prompt_logprobs, length, "topk_prompt_logprobs")
        draws = _scores(request.prompt_alt_tokens_k, length, "prompt_alt_tokens_k")
        given = request.target_prompt_logprobs
        if not (request.prompt_logprobs or likeliest or draws or given):
            return None
        last = request.prompt_logprobs_last_n
        if last is not None and not (request.prompt_logprobs and 1 <= last < length):
            raise ApiError(
                f"prompt_logprobs_last_n is {last}; it needs prompt_logprobs and a "
                f"value from 1 to {length - 1}"
            )
        return ScoresWanted(
            logprobs=bool(request.prompt_logprobs),
            last=last,
            likeliest=likeliest,
            targets=None if given is None else self._target_tokens(given, length),
            draws=draws,
            temperature=request.sampling_params.temperature,
            noise=noise,
        )

    def _target_tokens(self, given: TensorModel, length: int) -> TargetTokens:
        targets = _targets(given, length)
        last = self._backend.vocabulary.size - 1
        if targets.ids.size and not -1 <= int(targets.ids.min()) <= int(targets.ids.max()) <= last:
            raise ApiError(f"target_prompt_logprobs has an id that is not from -1 to {last}")
        return targets


def _targets(given: TensorModel, length: int) -> TargetTokens:
    """The token ids [length - 1, k] to score; -1 stands for none, as does what is not listed."""
    shape = given.shape or []
    if given.dtype != "int64" or len(shape) != 2 or shape[0] != length - 1:
        raise ApiError(f"target_prompt_logprobs must be int64 of shape [{length - 1}, k]")
    _scores(shape[1], length, "target_prompt_logprobs")
    starts, columns = given.sparse_crow_indices, given.sparse_col_indices
    try:
        values = np.asarray(given.data, dtype=np.int64)
        if starts is None:
            return TargetTokens(values.reshape(shape), None)
        layout = SparseLayout(np.asarray(starts, np.int64), np.asarray(columns or [], np.int64))
        return TargetTokens(layout.spread(values, (shape[0], shape[1]), empty=-1), layout)
    except (ValueError, OverflowError) as error:
        raise ApiError(f"target_prompt_logprobs is malformed: {error}") from error


def _check_count(count: int, length: int) -> None:
    if not 1 <= count <= _MAX_SAMPLES:
        raise ApiError(f"num_samples is {count}; 1 to {_MAX_SAMPLES} can be")
    if count * length > _MAX_TOKENS:
        raise ApiError(f"{count} samples of up to {length} tokens are more than {_MAX_TOKENS}")


def _scores(count: int, length: int, name: str) -> int:
    """How many log-probabilities a position are asked for, if that is a sensible number."""
    if not 0 <= count <= _MAX_SCORES // length:
        raise ApiError(f"{name} is {count} for {length} tokens; at most {_MAX_SCORES} fit in all")
    return count


def _given(result: Sampled | Exception) -> Sampled:
    if isinstance(result, Exception):
        raise result
    return result
