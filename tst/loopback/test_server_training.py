"""Training through the real SDK, over HTTP."""

from pathlib import Path

import numpy as np
import pytest
import tinker
import torch
import torch.nn.functional as F
from tinker import types
from transformers import PreTrainedTokenizerBase

from tinker_episodes import loopback
from tinker_episodes.loopback.model import Shape, Transformer
from tinker_episodes.loopback.vocabulary import read_vocabulary

TEXT = "the quick brown fox<|im_end|>"
STEP = types.AdamParams(learning_rate=0.01, eps=1e-8)


def datum(tokens: list[int], weight: float = 1.0) -> types.Datum:
    weights = [weight] * (len(tokens) - 1)
    inputs = {"target_tokens": tokens[1:], "weights": weights}
    return types.Datum(types.ModelInput.from_ints(tokens[:-1]), inputs)


def policy_datum(tokens: list[int]) -> types.Datum:
    count = len(tokens) - 1
    inputs = {
        "target_tokens": tokens[1:],
        "logprobs": [-8.0] * count,
        "advantages": [0.5] * count,
    }
    return types.Datum(types.ModelInput.from_ints(tokens[:-1]), inputs)


def logprobs_of(result: types.ForwardBackwardOutput) -> list[np.ndarray]:
    return [output["logprobs"].to_numpy() for output in result.loss_fn_outputs]


def train(client: tinker.TrainingClient, data: list[types.Datum], steps: int) -> list[float]:
    losses: list[float] = []
    for _ in range(steps):
        future = client.forward_backward(data, "cross_entropy")
        client.optim_step(STEP).result()
        losses.append(future.result().metrics["loss:sum"])
    return losses


def test_a_short_text_is_learnt_by_heart(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    tokens = tokenizer.encode(TEXT)
    losses = train(training, [datum(tokens)], 40)
    assert losses[0] > 5 * len(tokens) and losses[-1] < 0.1
    sampler = training.save_weights_and_get_sampling_client().result()
    params = types.SamplingParams(max_tokens=30, temperature=0.0)
    (sequence,) = (
        sampler.sample(types.ModelInput.from_ints(tokens[:1]), 1, params).result().sequences
    )
    assert sequence.tokens == tokens[1:]
    assert sequence.stop_reason == "stop"


def test_training_from_saved_weights_and_optimizer_goes_on_the_same(
    service: tinker.ServiceClient,
    training: tinker.TrainingClient,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    data = [datum(tokenizer.encode(text)) for text in (TEXT, "another text, a longer one")]
    train(training, data, 5)
    path = training.save_state("half").result().path
    copy = service.create_training_client_from_state_with_optimizer(path).result()
    assert train(copy, data, 5) == train(training, data, 5)


def test_saved_weights_without_the_optimizer_give_the_same_model_and_a_fresh_optimizer(
    service: tinker.ServiceClient,
    training: tinker.TrainingClient,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    data = [datum(tokenizer.encode(TEXT))]
    train(training, data, 5)
    path = training.save_state("weights").result().path
    copy = service.create_training_client_from_state(path).result()
    ours, theirs = (c.forward(data, "cross_entropy").result() for c in (training, copy))
    assert np.array_equal(logprobs_of(ours)[0], logprobs_of(theirs)[0])
    assert train(copy, data, 2)[1] != train(training, data, 2)[1]


def test_sampler_weights_have_no_optimizer_to_go_on_with(
    service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    path = training.save_weights_for_sampler("sampler").result().path
    with pytest.raises(tinker.RequestFailedError, match="saved without the optimizer"):
        service.create_training_client_from_state_with_optimizer(path).result()


def test_gradients_of_several_passes_add_up_and_forward_adds_none(
    service: tinker.ServiceClient,
    training: tinker.TrainingClient,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    first, second = (datum(tokenizer.encode(text)) for text in (TEXT, "and something else"))
    training.forward_backward([first], "cross_entropy")
    training.forward([second], "cross_entropy")
    training.forward_backward([second], "cross_entropy")
    at_once = service.create_lora_training_client(base_model=loopback.model_name()).result()
    at_once.forward_backward([first, second], "cross_entropy")
    norms = [c.optim_step(STEP).result().metrics["grad_norm:mean"] for c in (training, at_once)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo", "dro"])
def test_policy_losses_return_their_sum_and_a_logprob_for_each_token(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase, loss: types.LossFnType
) -> None:
    tokens = tokenizer.encode(TEXT)
    data = [policy_datum(tokens), policy_datum(tokens[:4])]
    result = training.forward_backward(data, loss).result()
    logprobs = [torch.tensor(array) for array in logprobs_of(result)]
    assert [len(one) for one in logprobs] == [len(tokens) - 1, 3]
    expected = 0.0
    for one in logprobs:
        ratio = torch.exp(one + 8.0)
        clipped = ratio.clamp(0.8, 1.2)
        elements = {
            "importance_sampling": ratio * 0.5,
            "ppo": torch.minimum(ratio * 0.5, clipped * 0.5),
            "cispo": clipped * one * 0.5,
            "dro": one * 0.5 - 0.5 * 0.05 * (one + 8.0) ** 2,
        }
        expected -= elements[loss].sum().item()
    assert result.metrics["loss:sum"] == pytest.approx(expected, rel=1e-5)


def test_clip_thresholds_are_taken_from_the_request(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    data = [policy_datum(tokenizer.encode(TEXT))]
    config = {"clip_low_threshold": 0.0, "clip_high_threshold": 0.0}
    result = training.forward_backward(data, "ppo", config).result()
    assert result.metrics["loss:sum"] == 0.0


def test_forward_backward_custom_equals_the_loss_that_it_rebuilds(
    service: tinker.ServiceClient,
    training: tinker.TrainingClient,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    data = [datum(tokenizer.encode(TEXT))]

    def custom(data: list[types.Datum], logprobs: list[torch.Tensor]):
        return -sum(one.sum() for one in logprobs), {"custom": 1.0}

    result = training.forward_backward_custom(data, custom).result()
    built_in = service.create_lora_training_client(base_model=loopback.model_name()).result()
    expected = built_in.forward_backward(data, "cross_entropy").result()
    assert result.metrics["loss:sum"] == pytest.approx(expected.metrics["loss:sum"], rel=1e-5)
    norms = [c.optim_step(STEP).result().metrics["grad_norm:mean"] for c in (training, built_in)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def base_model() -> Transformer:
    """The weights that the server starts a run from."""
    vocabulary = read_vocabulary(Path(loopback.model_name()))
    return Transformer(Shape(vocabulary.size, width=64, layers=2, heads=2))


def plain_logprobs(model: Transformer, tokens: list[int]) -> torch.Tensor:
    scores = F.log_softmax(model.logits(model(torch.tensor([tokens[:-1]])))[0], -1)
    return scores.gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]


def test_a_custom_loss_over_several_data_trains_as_in_plain_torch(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    """A preference loss, which no sum over data is: value, gradient and the step after it."""
    texts = [tokenizer.encode(text) for text in (TEXT, "a text that is not wanted")]

    def preference(logprobs: list[torch.Tensor]) -> torch.Tensor:
        return -F.logsigmoid(0.1 * (logprobs[0].sum() - logprobs[1].sum()))

    def custom(data: list[types.Datum], logprobs: list[torch.Tensor]):
        loss = preference(logprobs)
        return loss, {"preference": loss.item()}

    model = base_model()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0
    )
    expected = preference([plain_logprobs(model, tokens) for tokens in texts])
    expected.backward()
    norm = torch.linalg.vector_norm(
        torch.stack([weight.grad.norm() for weight in model.parameters()])
    )
    optimizer.step()

    data = [datum(tokens) for tokens in texts]
    result = training.forward_backward_custom(data, custom).result()
    assert result.metrics["preference"] == pytest.approx(expected.item(), abs=1e-5)
    metrics = training.optim_step(STEP).result().metrics
    assert metrics["grad_norm:mean"] == pytest.approx(norm.item(), rel=1e-4)
    after = logprobs_of(training.forward(data, "cross_entropy").result())
    for ours, tokens in zip(after, texts, strict=True):
        np.testing.assert_allclose(ours, plain_logprobs(model, tokens).detach(), atol=1e-3)


def test_gspo_takes_the_thresholds_that_it_has_no_defaults_for(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    given = policy_datum(tokenizer.encode(TEXT))
    mask = [1.0] * given.model_input.length
    marked = types.Datum(given.model_input, {**given.loss_fn_inputs, "sequence_ratio_mask": mask})
    without = training.forward_backward([marked], "gspo")
    config = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
    result = training.forward_backward([marked], "gspo", config).result()
    with pytest.raises(tinker.RequestFailedError, match=r"gspo.*needs 'clip_high_threshold'"):
        without.result()
    (logprobs,) = logprobs_of(result)
    ratio = min(np.exp((logprobs + 8.0).mean()), 1.2)
    assert result.metrics["loss:sum"] == pytest.approx(-0.5 * ratio * len(logprobs), rel=1e-5)


def test_several_targets_a_position_are_scored_and_trained(
    training: tinker.TrainingClient,
) -> None:
    targets = np.array([[5, 6], [7, 8], [9, 10]])
    weights = np.array([[0.5, 0.5], [0.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    inputs = {
        "target_tokens": types.TensorData.from_torch_sparse(torch.tensor(targets)),
        "weights": types.TensorData.from_torch_sparse(torch.tensor(weights)),
    }
    given = types.Datum(types.ModelInput.from_ints([1, 2, 3]), inputs)
    result = training.forward_backward([given], "cross_entropy").result()
    (logprobs,) = logprobs_of(result)
    assert logprobs.shape == (3, 2)
    assert result.metrics["loss:sum"] == pytest.approx(-(logprobs * weights).sum(), rel=1e-5)


def test_data_in_many_chunks_comes_back_in_order(
    training: tinker.TrainingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = training.holder.get_client_config().model_copy(update={"fwdbwd_max_chunk_len": 2})
    monkeypatch.setattr(training.holder, "_client_config", config)
    data = [datum([1] + [token] * (1 + token % 5)) for token in range(20, 31)]
    result = training.forward(data, "cross_entropy").result()
    assert [len(one) for one in logprobs_of(result)] == [1 + token % 5 for token in range(20, 31)]


def test_an_operation_that_fails_lets_the_next_ones_go_on(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    data = [datum(tokenizer.encode(TEXT))]
    bad = training.forward_backward(data, "stable_reinforce")
    worse = training.optim_step(types.AdamParams(learning_rate=-1.0))
    good = training.forward_backward(data, "cross_entropy")
    with pytest.raises(tinker.RequestFailedError, match="knows no published formula"):
        bad.result()
    with pytest.raises(tinker.RequestFailedError, match="learning_rate is -1"):
        worse.result()
    assert good.result().metrics["loss:sum"] > 0


def test_two_clients_do_not_mix(
    server: str, training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    data = [datum(tokenizer.encode(TEXT))]
    with tinker.ServiceClient(base_url=server) as other_service:
        other = other_service.create_lora_training_client(base_model=loopback.model_name()).result()
        before = other.forward(data, "cross_entropy").result().metrics["loss:sum"]
        futures = [client.forward_backward(data, "cross_entropy") for client in (training, other)]
        training.optim_step(STEP).result()
        assert [future.result().metrics["loss:sum"] for future in futures] == [before, before]
        assert other.forward(data, "cross_entropy").result().metrics["loss:sum"] == before
        assert training.forward(data, "cross_entropy").result().metrics["loss:sum"] < before
        with pytest.raises(tinker.APIStatusError, match="is not known"):
            other.create_sampling_client(f"tinker://{training.model_id}/weights/none").result()


def test_run_and_checkpoints_are_described(server: str, service: tinker.ServiceClient) -> None:
    client = service.create_lora_training_client(
        base_model=loopback.model_name(), rank=4, user_metadata={"renderer_name": "qwen3"}
    ).result()
    info = client.get_info()
    assert (info.lora_rank, info.model_data.model_name) == (4, loopback.model_name())
    state = client.save_state("one", ttl_seconds=7200, user_metadata={"note": "x"}).result().path
    sampler = client.save_weights_for_sampler("two").result().path
    rest = tinker.RestClient(base_url=server)
    run = rest.get_training_run_by_tinker_path(state).result()
    assert run.training_run_id == client.model_id
    assert run.user_metadata == {"renderer_name": "qwen3"}
    assert run.last_checkpoint is not None and run.last_checkpoint.tinker_path == state
    listed = rest.list_checkpoints(client.model_id).result().checkpoints
    assert {one.tinker_path for one in listed} == {state, sampler}
    (described,) = (one for one in listed if one.tinker_path == state)
    assert described.user_metadata == {"note": "x"}
    assert (described.expires_at - described.time).total_seconds() == pytest.approx(7200, abs=1)
    assert rest.get_weights_info_by_tinker_path(state).result().lora_rank == 4
    rest.set_checkpoint_ttl_from_tinker_path(state, None).result()
    rest.delete_checkpoint_from_tinker_path(sampler).result()
    (left,) = rest.list_checkpoints(client.model_id).result().checkpoints
    assert (left.tinker_path, left.expires_at) == (state, None)
    assert client.model_id in [
        r.training_run_id for r in rest.list_training_runs().result().training_runs
    ]
    with pytest.raises(tinker.NotFoundError, match="is not known"):
        rest.get_weights_info_by_tinker_path(sampler).result()


def test_a_name_is_saved_over_only_when_asked(training: tinker.TrainingClient) -> None:
    training.save_state("name").result()
    with pytest.raises(tinker.RequestFailedError, match="exists; save it with overwrite"):
        training.save_state("name").result()
    training.save_state("name", overwrite=True).result()


def test_what_is_not_here_is_refused_in_a_sentence(
    server: str, service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    with pytest.raises(tinker.NotFoundError, match=r"base model 'Qwen/Qwen3-8B'.*it serves"):
        service.create_lora_training_client(base_model="Qwen/Qwen3-8B").result()
    with pytest.raises(tinker.RequestFailedError, match="no external format"):
        training.save_weights_external("out").result()
    with pytest.raises(tinker.RequestFailedError, match="optimizer 'dimuon' is not here"):
        training.optim_step(types.DimuonParams(learning_rate=0.1)).result()
    image = types.ModelInput(chunks=[types.ImageChunk(data=b"x", format="png", expected_tokens=1)])
    seen = types.Datum(image, {"target_tokens": [1]})
    with pytest.raises(tinker.RequestFailedError, match="datum 0 holds an image or audio"):
        training.forward_backward([seen], "cross_entropy").result()
    state = training.save_state("some").result().path
    with pytest.raises(tinker.NotFoundError, match="no projects to copy weights between"):
        tinker.RestClient(base_url=server).copy_weights(state, "other").result()
    with pytest.raises(tinker.NotFoundError, match="it keeps no audit log"):
        tinker.AdminClient(base_url=server).get_audit_log().result()
