"""Sampling through the real SDK, over HTTP."""

import asyncio
import pickle
from collections import Counter

import numpy as np
import pytest
import tinker
from tinker import types
from transformers import PreTrainedTokenizerBase

from tinker_episodes import loopback

PROMPT = [1, 77, 78, 79, 80]
FLOAT_ERROR = 2e-5
"""How far the same log-probability may be apart when computed in batches of other shapes."""


@pytest.fixture
def sampler(service: tinker.ServiceClient) -> tinker.SamplingClient:
    return service.create_sampling_client(base_model=loopback.model_name()).result()


def sample(
    client: tinker.SamplingClient, prompt: list[int] | None = None, count: int = 1, **params: object
) -> types.SampleResponse:
    sampling = types.SamplingParams(**({"max_tokens": 12, "stop": []} | params))
    given = types.ModelInput.from_ints(PROMPT if prompt is None else prompt)
    return client.sample(given, count, sampling).result()


def tokens(response: types.SampleResponse) -> list[list[int]]:
    return [sequence.tokens for sequence in response.sequences]


def test_sampled_logprobs_are_those_of_a_forward_pass(
    training: tinker.TrainingClient,
) -> None:
    client = training.save_weights_and_get_sampling_client().result()
    response = sample(client, count=4, temperature=0.7, top_k=50, max_tokens=40)
    for sequence in response.sequences:
        whole = PROMPT + sequence.tokens
        datum = types.Datum(types.ModelInput.from_ints(whole[:-1]), {"target_tokens": whole[1:]})
        result = training.forward([datum], "cross_entropy").result()
        forward = result.loss_fn_outputs[0]["logprobs"].to_numpy()[len(PROMPT) - 1 :]
        assert np.abs(forward - np.array(sequence.logprobs)).max() < FLOAT_ERROR
        scored = client.compute_logprobs(types.ModelInput.from_ints(whole)).result()
        assert np.abs(np.array(scored[len(PROMPT) :]) - forward).max() < FLOAT_ERROR


def test_the_same_seed_gives_the_same_samples_whoever_else_samples(
    sampler: tinker.SamplingClient,
) -> None:
    alone = tokens(sample(sampler, count=2, seed=5))
    assert alone[0] != alone[1]
    assert tokens(sample(sampler, count=2, seed=6)) != alone

    async def together() -> list[types.SampleResponse]:
        async def one(i: int) -> types.SampleResponse:
            params = types.SamplingParams(max_tokens=12, stop=[], seed=5 if i == 7 else None)
            prompt = PROMPT if i == 7 else [20 + i] * (3 + i * 9)
            return await sampler.sample(types.ModelInput.from_ints(prompt), 2, params)

        return await asyncio.gather(*(one(i) for i in range(16)))

    assert tokens(asyncio.run(together())[7]) == alone


def test_a_session_without_seeds_repeats_on_the_same_calls(server: str) -> None:
    runs: list[list[list[int]]] = []
    for _ in range(2):
        with tinker.ServiceClient(base_url=server) as service:
            client = service.create_sampling_client(base_model=loopback.model_name()).result()
            runs.append([*tokens(sample(client, count=2)), *tokens(sample(client, count=2))])
    assert runs[0] == runs[1]
    assert len({tuple(sequence) for sequence in runs[0]}) == 4


def test_temperature_zero_and_the_tightest_cuts_are_greedy(sampler: tinker.SamplingClient) -> None:
    greedy = tokens(sample(sampler, temperature=0.0))
    assert tokens(sample(sampler, top_k=1, seed=3)) == greedy
    assert tokens(sample(sampler, top_p=1e-6, seed=4)) == greedy
    assert tokens(sample(sampler, temperature=1e-3, seed=5)) == greedy


def test_samples_follow_the_distribution_within_its_cuts(sampler: tinker.SamplingClient) -> None:
    response = sampler.sample(
        types.ModelInput.from_ints([*PROMPT, 81]),
        1,
        types.SamplingParams(max_tokens=1),
        include_prompt_logprobs=True,
        topk_prompt_logprobs=5,
    ).result()
    assert response.topk_prompt_logprobs is not None
    likeliest = response.topk_prompt_logprobs[-1]
    assert likeliest is not None
    total = sum(np.exp(logprob) for _, logprob in likeliest)
    drawn = Counter(
        sequence.tokens[0]
        for sequence in sample(sampler, count=1000, max_tokens=1, top_k=5, seed=1).sequences
    )
    assert set(drawn) <= {token for token, _ in likeliest}
    for token, logprob in likeliest:
        expected = np.exp(logprob) / total
        assert abs(drawn[token] / 1000 - expected) < 4 * np.sqrt(expected / 1000)


def test_stop_tokens_and_strings_end_a_sample_and_are_part_of_it(
    sampler: tinker.SamplingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    (free,) = sample(sampler, max_tokens=60, seed=9).sequences
    assert free.stop_reason == "length" and len(free.tokens) == 60
    stop = free.tokens[20]
    (by_token,) = sample(sampler, max_tokens=60, seed=9, stop=[stop]).sequences
    assert by_token.stop_reason == "stop"
    assert by_token.tokens == free.tokens[: free.tokens.index(stop) + 1]
    text = tokenizer.decode(free.tokens)
    middle = text[len(text) // 2 : len(text) // 2 + 6]
    (by_text,) = sample(sampler, max_tokens=60, seed=9, stop=[middle]).sequences
    assert by_text.stop_reason == "stop"
    assert by_text.tokens == free.tokens[: len(by_text.tokens)]
    assert middle in tokenizer.decode(by_text.tokens)
    assert middle not in tokenizer.decode(by_text.tokens[:-1])


def test_no_stops_named_means_the_end_token(
    training: tinker.TrainingClient, tokenizer: PreTrainedTokenizerBase
) -> None:
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    inputs = {"target_tokens": [end] * 4, "weights": [1.0] * 4}
    datum = types.Datum(types.ModelInput.from_ints([5, end, end, end]), inputs)
    for _ in range(15):
        training.forward_backward([datum], "cross_entropy")
        training.optim_step(types.AdamParams(learning_rate=0.02)).result()
    client = training.save_weights_and_get_sampling_client().result()
    (stopped,) = sample(client, [5], temperature=0.0, stop=None).sequences
    (unstopped,) = sample(client, [5], temperature=0.0, stop=[], max_tokens=3).sequences
    assert (stopped.tokens, stopped.stop_reason) == ([end], "stop")
    assert (unstopped.tokens, unstopped.stop_reason) == ([end] * 3, "length")


def test_every_sequence_has_an_id_of_its_own(sampler: tinker.SamplingClient) -> None:
    responses = [sample(sampler, count=3) for _ in range(2)]
    ids = {sequence.sequence_id for response in responses for sequence in response.sequences}
    assert len(ids) == 6


def test_prompt_scores_agree_with_each_other(sampler: tinker.SamplingClient) -> None:
    prompt = types.ModelInput.from_ints(PROMPT)
    targets = np.array([[77, 9], [78, -1], [79, 10], [-1, -1]])
    response = sampler.sample(
        prompt,
        1,
        types.SamplingParams(max_tokens=3, seed=2, stop=[]),
        include_prompt_logprobs=True,
        topk_prompt_logprobs=3000,
        topk_sample_logprobs=4,
        target_prompt_logprobs=types.TensorData.from_numpy(targets),
        prompt_alt_tokens_k=6,
    ).result()
    logprobs, every = response.prompt_logprobs, response.topk_prompt_logprobs
    assert logprobs is not None and every is not None
    assert logprobs[0] is None and every[0] is None
    tables = [dict(position) for position in every[1:] if position is not None]
    assert logprobs[1:] == pytest.approx(
        [table[token] for table, token in zip(tables, PROMPT[1:], strict=True)]
    )
    assert sum(np.exp(value) for value in tables[0].values()) == pytest.approx(1, abs=1e-4)
    scored = response.target_prompt_logprobs
    assert scored is not None
    expected = [
        [0.0 if token < 0 else table[token] for token in row]
        for table, row in zip(tables, targets.tolist(), strict=True)
    ]
    np.testing.assert_allclose(scored.to_numpy(), expected, rtol=1e-5)
    drawn = response.prompt_alt_tokens
    assert drawn is not None
    ids, values = drawn.tokens.to_numpy(), drawn.logprobs.to_numpy()
    assert ids.shape == values.shape == (len(PROMPT) - 1, 6)
    for table, row, row_values in zip(tables, ids.tolist(), values, strict=True):
        np.testing.assert_allclose(row_values, [table[token] for token in row], rtol=1e-5)
    (sequence,) = response.sequences
    assert sequence.topk_logprobs is not None and sequence.logprobs is not None
    for token, logprob, likeliest in zip(
        sequence.tokens, sequence.logprobs, sequence.topk_logprobs, strict=True
    ):
        assert likeliest is not None and len(likeliest) == 4
        assert dict(likeliest).get(token, logprob) == pytest.approx(logprob)


def test_sparse_targets_are_scored_where_they_are_listed(sampler: tinker.SamplingClient) -> None:
    dense = np.array([[77, 9], [78, -1], [79, 10], [-1, 11]])
    sparse = types.TensorData(
        data=np.array([9, 79, 11]),
        dtype="int64",
        shape=[4, 2],
        sparse_crow_indices=[0, 1, 1, 2, 3],
        sparse_col_indices=[1, 0, 1],
    )
    scores = [
        sampler.sample(
            types.ModelInput.from_ints(PROMPT),
            1,
            types.SamplingParams(max_tokens=1),
            target_prompt_logprobs=targets,
        )
        .result()
        .target_prompt_logprobs
        for targets in (types.TensorData.from_numpy(dense), sparse)
    ]
    listed = scores[0].to_numpy()[[0, 2, 3], [1, 0, 1]]
    assert scores[1].sparse_col_indices == [1, 0, 1]
    np.testing.assert_allclose(np.array(scores[1].data), listed, rtol=1e-6)


def test_only_the_last_prompt_logprobs_are_given_when_asked(
    sampler: tinker.SamplingClient,
) -> None:
    prompt = types.ModelInput.from_ints(PROMPT)
    whole = sampler.compute_logprobs(prompt).result()
    last = sampler.compute_logprobs(prompt, prompt_logprobs_last_n=2).result()
    assert last[:3] == [None, None, None]
    assert last[3:] == pytest.approx(whole[3:])


def test_prompts_of_many_lengths_are_sampled_together(sampler: tinker.SamplingClient) -> None:
    prompts = [[20 + i % 50] * length for i, length in enumerate([1, 5, 300, 2_000, 10_000, 5])]
    params = types.SamplingParams(max_tokens=5, temperature=0.0, stop=[])

    async def together() -> list[types.SampleResponse]:
        futures = [sampler.sample(types.ModelInput.from_ints(p), 1, params) for p in prompts]
        return await asyncio.gather(*futures)

    batched = [tokens(response)[0] for response in asyncio.run(together())]
    alone = [tokens(sample(sampler, p, temperature=0.0, max_tokens=5))[0] for p in prompts]
    assert batched == alone


def test_saved_weights_are_sampled_by_their_path(
    service: tinker.ServiceClient, training: tinker.TrainingClient
) -> None:
    datum = types.Datum(types.ModelInput.from_ints(PROMPT[:-1]), {"target_tokens": PROMPT[1:]})
    training.forward_backward([datum], "cross_entropy")
    training.optim_step(types.AdamParams(learning_rate=0.01)).result()
    prompt = types.ModelInput.from_ints(PROMPT)
    direct = training.save_weights_and_get_sampling_client().result()
    expected = direct.compute_logprobs(prompt).result()
    for path in (
        training.save_weights_for_sampler("by-path").result().path,
        training.save_state("by-path").result().path,
    ):
        for client in (
            training.create_sampling_client(path).result(),
            service.create_sampling_client(model_path=path).result(),
        ):
            assert client.compute_logprobs(prompt).result() == expected


def test_a_snapshot_stays_and_an_inflight_sampler_moves_with_the_weights(
    training: tinker.TrainingClient,
) -> None:
    def save(kind: types.SamplingClientKind) -> tinker.SamplingClient:
        return training.save_weights_and_get_sampling_client(kind=kind).result()

    snapshot, inflight = save("snapshot"), save("inflight")
    prompt = types.ModelInput.from_ints(PROMPT)
    before = snapshot.compute_logprobs(prompt).result()
    assert inflight.compute_logprobs(prompt).result() == before
    datum = types.Datum(types.ModelInput.from_ints(PROMPT[:-1]), {"target_tokens": PROMPT[1:]})
    training.forward_backward([datum], "cross_entropy")
    training.optim_step(types.AdamParams(learning_rate=0.01)).result()
    newer = save("inflight")
    after = newer.compute_logprobs(prompt).result()
    assert after != before
    assert inflight.compute_logprobs(prompt).result() == after
    assert snapshot.compute_logprobs(prompt).result() == before


def test_a_pickled_sampling_client_samples_too(sampler: tinker.SamplingClient) -> None:
    copy = pickle.loads(pickle.dumps(sampler))
    ids = {sample(client).sequences[0].sequence_id for client in (sampler, copy, sampler)}
    assert len(ids) == 3
    assert tokens(sample(copy, seed=1)) == tokens(sample(sampler, seed=1))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": 10**9}, "max_tokens is 1000000000"),
        ({"temperature": -1.0}, "must not be negative"),
        ({"top_p": 0.0}, "must be above 0"),
        ({"top_k": -2}, "must be -1 or more"),
        ({"stop": [""]}, "a stop string is empty"),
    ],
)
def test_parameters_out_of_range_are_refused(
    sampler: tinker.SamplingClient, params: dict[str, object], message: str
) -> None:
    with pytest.raises(tinker.BadRequestError, match=message):
        sample(sampler, **params)


@pytest.mark.parametrize("prompt", [[], [3_000], [-1], [5] * 32_768])
def test_prompts_that_the_model_can_not_read_are_refused(
    sampler: tinker.SamplingClient, prompt: list[int]
) -> None:
    with pytest.raises(tinker.BadRequestError, match="the prompt has"):
        sample(sampler, prompt)


def test_images_are_refused(sampler: tinker.SamplingClient) -> None:
    image = types.ImageChunk(data=b"x", format="png", expected_tokens=3)
    given = types.ModelInput(chunks=[image])
    with pytest.raises(tinker.BadRequestError, match="reads text alone"):
        sampler.sample(given, 1, types.SamplingParams(max_tokens=1)).result()


def test_a_group_gets_the_same_samples_in_whatever_order_it_asks(server: str) -> None:
    """The samples of a prompt depend on how often it was asked for, not on what came between."""
    prompts = [[30 + i % 4] * 5 for i in range(12)]
    groups: list[dict[int, set[tuple[int, ...]]]] = []
    for order in (prompts, sorted(prompts), prompts[::-1]):
        found: dict[int, set[tuple[int, ...]]] = {30 + i: set() for i in range(4)}
        with tinker.ServiceClient(base_url=server) as service:
            client = service.create_sampling_client(base_model=loopback.model_name()).result()
            for prompt in order:
                found[prompt[0]].add(tuple(tokens(sample(client, prompt))[0]))
        groups.append(found)
    assert all(len(samples) == 3 for samples in groups[0].values())
    assert groups[0] == groups[1] == groups[2]
