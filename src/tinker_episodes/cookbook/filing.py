"""An ended rollout as a record of the run index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tinker
from tinker_cookbook.rl.types import Transition

from tinker_episodes.cookbook.chunks import flat, what_is_new
from tinker_episodes.cookbook.env import EpisodeEnv
from tinker_episodes.episode import Episode, State
from tinker_episodes.index import ImageRecord, Rollout, ScoreRecord, Status, ToolSetRecord
from tinker_episodes.outcome import Outcome
from tinker_episodes.universe import Change


def rollout_record(env: EpisodeEnv, place: int) -> Rollout:
    """The record of a rollout that is over. It has tokens where the trainer got a trajectory."""
    episode, outcome = env.episode, env.episode.outcome
    counts = episode.counts
    trajectory = env.ending.trajectory
    turns = [] if trajectory is None else trajectory.transitions
    return Rollout(
        key=episode.id,
        place=place,
        status=_status(episode, outcome),
        reward=None if outcome is None else outcome.reward,
        cut=None if outcome is None or outcome.cut is None else str(outcome.cut),
        reason=episode.reason,
        scores=_scores(outcome),
        turns=env.turns.count,
        messages=counts.messages,
        tool_calls=counts.tool_calls,
        tool_errors=counts.tool_errors,
        format_errors=counts.format_errors,
        sampled_tokens=env.turns.sampled_tokens,
        observation_tokens=env.turns.observation.length,
        opened_at=episode.opened_at,
        duration_s=_duration(episode),
        images=_images(episode),
        tool_sets=tuple(ToolSetRecord(t.hash, t.specs) for t in episode.transcript.tool_sets()),
        transcript={
            "entries": episode.transcript.to_json(),
            "changes": [_change(c) for c in (outcome.changes if outcome is not None else ())],
            "turns": _turns(env, turns),
            "pieces": env.pieces({token for turn in turns for token in turn.ac.tokens}),
        },
    )


def _status(episode: Episode, outcome: Outcome | None) -> Status:
    if outcome is not None:
        return Status.FINISHED if outcome.cut is None else Status.CUT
    return Status.FAILED if episode.state is State.FAILED else Status.ABANDONED


def _images(episode: Episode) -> tuple[ImageRecord, ...]:
    """The images that the transcript refers to."""
    images = episode.transcript.images()
    return tuple(ImageRecord(i.hash, i.media_type, i.data, *(i.size or ())) for i in images)


def _scores(outcome: Outcome | None) -> tuple[ScoreRecord, ...]:
    if outcome is None:
        return ()
    return tuple(
        ScoreRecord(name, score.value, score.explanation, score.evidence)
        for name, score in outcome.scores.items()
    )


def _duration(episode: Episode) -> float | None:
    if episode.opened_at is None or episode.closed_at is None:
        return None
    return episode.closed_at - episode.opened_at


def _change(change: Change) -> dict[str, Any]:
    return {
        "table": change.table,
        "key": change.key,
        "before": change.before,
        "after": change.after,
    }


def _turns(env: EpisodeEnv, transitions: Sequence[Transition]) -> list[dict[str, Any]]:
    """Each turn's tokens: what is new in its observation, and what was sampled, with logprobs; and
    why history was rewritten, where it was.
    """
    rewrites = {rewrite.turn: rewrite for rewrite in env.rewrites}
    turns: list[dict[str, Any]] = []
    last: Sequence[tinker.ModelInputChunk] = ()
    sampled: list[int] = []
    for at, transition in enumerate(transitions):
        now = transition.ob.chunks
        new = what_is_new(last, sampled, now)
        last, sampled = now, list(transition.ac.tokens)
        turn: dict[str, Any] = {
            "extends": new is not None,
            "observation": _tokens(flat(now) if new is None else new),
            "sampled": sampled,
            "logprobs": transition.ac.maybe_logprobs,
            "reward": transition.reward,
        }
        if at in rewrites:
            turn["rewritten"] = {"cause": str(rewrites[at].cause), "dropped": rewrites[at].dropped}
        turns.append(turn)
    return turns


def _tokens(found: Sequence[Any]) -> list[int]:
    """Tokens; of a chunk that is no text, such as an image, -1 for each of its tokens."""
    if set(map(type, found)) == {int}:
        return list(found)
    tokens: list[int] = []
    for item in found:
        tokens += [item] if isinstance(item, int) else [-1] * item.length
    return tokens
