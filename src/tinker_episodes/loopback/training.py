"""Operations on training runs: promised at once, and carried out in the order of their numbers."""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from tinker import types
from tinker.proto import tinker_public_pb2 as wire

from tinker_episodes.loopback.backend import Backend
from tinker_episodes.loopback.bodies import parse
from tinker_episodes.loopback.errors import ApiError
from tinker_episodes.loopback.examples import decode_examples
from tinker_episodes.loopback.futures import Future, Reply
from tinker_episodes.loopback.losses import loss_settings
from tinker_episodes.loopback.replies import answer, pass_reply
from tinker_episodes.loopback.samplers import Weights
from tinker_episodes.loopback.sessions import Session, TrainingRun
from tinker_episodes.loopback.trainer import Trainer
from tinker_episodes.loopback.weights import RunInfo, check_name

_MAX_RUNS = 64
_SNAPSHOTS_KEPT = 64
"""How many unnamed sampler weights of one run are kept; older ones are gone."""

Work = Callable[[Trainer], Reply]
Body = Mapping[str, Any]


class Training:
    """What clients do with training runs. Lives on the event loop; the work runs on the worker."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._names = itertools.count(1)

    def create(self, request: types.CreateModelRequest) -> Future:
        """A new run, from the untrained model."""
        backend = self._backend
        session = backend.sessions.find(request.session_id)
        backend.check_base_model(request.base_model)
        if request.optimizer_config.type != "adamw":
            raise ApiError(f"optimizer {request.optimizer_config.type!r} is not here; adamw is")
        lora = request.lora_config or types.LoraConfig(rank=32)
        parts = {"mlp": lora.train_mlp, "attn": lora.train_attn, "unembed": lora.train_unembed}
        run_id = f"{session.id}:train:{request.model_seq_id}"
        info = RunInfo(run_id, backend.model_name, lora.rank, request.user_metadata, parts)

        def work(run: TrainingRun) -> Reply:
            run.trainer = Trainer(backend.base)
            return answer(model_id=run_id, type="create_model")

        return self._begin(session, info, work)

    def create_from_weights(self, request: types.LoadWeightsRequest) -> Future:
        """A new run, from saved weights."""
        backend = self._backend
        if request.session_id is None or request.model_seq_id is None:
            raise ApiError("load_weights names either a model, or a session and a model_seq_id")
        session = backend.sessions.find(request.session_id)
        backend.check_base_model(request.base_model)
        saved = backend.store.find(request.path).run
        run_id = f"{session.id}:train:{request.model_seq_id}"
        info = RunInfo(run_id, saved.base_model, saved.lora_rank, request.user_metadata, saved.lora)

        def work(run: TrainingRun) -> Reply:
            run.trainer = Trainer(backend.base)
            return self._load(run.trainer, run_id, request)

        return self._begin(session, info, work)

    def load(self, body: Body) -> Future:
        """Put saved weights into a run that is there."""

        def work(trainer: Trainer) -> Reply:
            request = parse(types.LoadWeightsRequest, body)
            return self._load(trainer, run.info.id, request)

        run, seq = self._addressed(body)
        return self._operate(run, seq, work)

    def pass_over(self, request: wire.ForwardBackwardRequest) -> Future:
        """`forward` and `forward_backward`."""

        def work(trainer: Trainer) -> Reply:
            settings = loss_settings(request.loss_fn, _given_settings(request))
            vocabulary = self._backend.vocabulary.size
            examples = decode_examples(request.data, request.loss_fn, vocabulary=vocabulary)
            backward = not request.forward_only
            return pass_reply(trainer.run(examples, request.loss_fn, settings, backward=backward))

        run = self._backend.sessions.run(request.model_id)
        return self._operate(run, request.seq_id, work)

    def optim_step(self, body: Body) -> Future:
        """One step of the optimizer."""

        def work(trainer: Trainer) -> Reply:
            params = parse(types.OptimStepRequest, body).optim_params
            if not isinstance(params, types.AdamParams):
                raise ApiError(f"optimizer {params.type!r} is not here; a run takes AdamParams")
            _check_adam(params)
            return answer(metrics=trainer.step(params))

        run, seq = self._addressed(body)
        return self._operate(run, seq, work)

    def save(self, body: Body) -> Future:
        """Save weights and optimizer state, to go on from."""

        def work(trainer: Trainer) -> Reply:
            request = parse(types.SaveWeightsRequest, body)
            checkpoint = self._backend.store.save(
                run.info,
                "training",
                trainer.state(optimizer=True),
                name=request.path or self._new_name(),
                ttl_s=request.ttl_seconds,
                overwrite=request.overwrite,
                user_metadata=request.user_metadata,
            )
            return answer(path=checkpoint.path, type="save_weights")

        run, seq = self._addressed(body)
        return self._operate(run, seq, work)

    def save_for_sampler(self, body: Body) -> Future:
        """Save weights to sample from: under a name, or for one sampler."""

        def work(trainer: Trainer) -> Reply:
            request = parse(types.SaveWeightsForSamplerRequest, body)
            fields = {"type": "save_weights_for_sampler"}
            if request.sampling_session_seq_id is None:
                return answer(path=self._save_named(run, trainer, request), **fields)
            sampler_id = self._save_unnamed(run, trainer, request)
            return answer(sampling_session_id=sampler_id, **fields)

        run, seq = self._addressed(body)
        return self._operate(run, seq, work)

    def refuse(self, body: Body, why: str) -> Future:
        """An operation that is not here; those after it go on."""

        def work(trainer: Trainer) -> Reply:
            raise ApiError(why)

        run, seq = self._addressed(body)
        return self._operate(run, seq, work)

    def _addressed(self, body: Body) -> tuple[TrainingRun, int]:
        """The run and the number of an operation, which is all that its order needs."""
        run_id, seq = body.get("model_id"), body.get("seq_id")
        if not isinstance(run_id, str):
            raise ApiError("the request has no model_id", status=422)
        run = self._backend.sessions.run(run_id)
        if seq is None:
            return run, run.next_seq
        if not isinstance(seq, int):
            raise ApiError(f"seq_id {seq!r} is not an integer", status=422)
        return run, seq

    def _begin(
        self, session: Session, info: RunInfo, work: Callable[[TrainingRun], Reply]
    ) -> Future:
        backend = self._backend
        request_id = f"{info.id}:create"
        if (known := backend.futures.find(request_id)) is not None:
            return known
        if info.id in session.runs:
            raise ApiError(f"model {info.id!r} exists already", status=409)
        if len(session.runs) >= _MAX_RUNS:
            raise ApiError(f"a session has at most {_MAX_RUNS} models", status=429)
        run = TrainingRun(info, session.id, session.heard_at)
        future = backend.futures.open(request_id, session.id)
        session.runs[info.id] = run
        backend.worker.run(lambda: backend.attempt(future, lambda: work(run)))
        return future

    def _operate(self, run: TrainingRun, seq: int, work: Work) -> Future:
        backend = self._backend
        request_id = f"{run.info.id}:{seq}"
        # A client that lost the answer sends the same operation again.
        if (known := backend.futures.find(request_id)) is not None:
            return known

        def attempt() -> Reply:
            if run.trainer is None:
                raise ApiError(f"model {run.info.id!r} was not made, or its session is over")
            return work(run.trainer)

        future = backend.futures.open(request_id, run.session_id)
        try:
            ready = run.in_order(seq, lambda: backend.attempt(future, attempt))
        except ApiError:
            backend.futures.drop(request_id)
            raise
        for operation in ready:
            backend.worker.run(operation)
        return future

    def _load(self, trainer: Trainer, run_id: str, request: types.LoadWeightsRequest) -> Reply:
        store = self._backend.store
        state = store.load(store.find(request.path))
        trainer.load(state, optimizer=request.optimizer)
        return answer(path=request.path, model_id=run_id, type="load_weights")

    def _save_named(
        self, run: TrainingRun, trainer: Trainer, request: types.SaveWeightsForSamplerRequest
    ) -> str:
        checkpoint = self._backend.store.save(
            run.info,
            "sampler",
            trainer.state(optimizer=False),
            name=request.path or self._new_name(),
            ttl_s=request.ttl_seconds,
            user_metadata=request.user_metadata,
        )
        self._backend.models.put(checkpoint.file, trainer.snapshot())
        return checkpoint.path

    def _save_unnamed(
        self, run: TrainingRun, trainer: Trainer, request: types.SaveWeightsForSamplerRequest
    ) -> str:
        backend, number = self._backend, request.sampling_session_seq_id
        assert number is not None, "the caller has looked"
        key = backend.snapshots.write(trainer.state(optimizer=False))
        backend.models.put(key, trainer.snapshot())
        run.snapshots.append(key)
        while len(run.snapshots) > _SNAPSHOTS_KEPT:
            old = run.snapshots.popleft()
            backend.snapshots.drop(old)
            backend.models.drop(old)
        weights = backend.kept_weights(key)
        if request.kind == "inflight":
            weights = self._publish(run, weights)
        session = backend.sessions.find(run.session_id)
        return backend.add_sampler(session, number, weights).id

    def _publish(self, run: TrainingRun, weights: Weights) -> Weights:
        """Move the run's inflight samplers to new weights."""
        if run.inflight is None:
            run.inflight = weights
        run.inflight.key, run.inflight.load = weights.key, weights.load
        return run.inflight

    def _new_name(self) -> str:
        name = f"checkpoint-{next(self._names)}"
        check_name(name)
        return name


def _given_settings(request: wire.ForwardBackwardRequest) -> dict[str, float]:
    """The loss settings of a request: of its newer field, or else of its older one."""
    if not request.loss_fn_config_v2:
        given = dict(request.loss_fn_config)
    else:
        given: dict[str, float] = {}
        for key, value in request.loss_fn_config_v2.items():
            if value.HasField("text"):
                raise ApiError(f"loss setting {key!r} is text; it takes a number")
            given[key] = value.number
    for key, value in given.items():
        if not math.isfinite(value):
            raise ApiError(f"loss setting {key!r} is {value}, which is not finite")
    return given


def _check_adam(params: types.AdamParams) -> None:
    """AdamW's own ranges; a value outside them would spoil the weights for good."""
    for name in ("learning_rate", "eps", "weight_decay", "grad_clip_norm"):
        value = float(getattr(params, name))
        if not (math.isfinite(value) and value >= 0):
            raise ApiError(f"{name} is {value}; it must be finite and not negative")
    for name in ("beta1", "beta2"):
        value = float(getattr(params, name))
        if not 0 <= value < 1:
            raise ApiError(f"{name} is {value}; it must be from 0 to below 1")
