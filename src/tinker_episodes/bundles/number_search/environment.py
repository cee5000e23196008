"""A hidden integer, and a tool that compares guesses with it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tinker_episodes import Environment, Score, Task, scorer, tool


class Window(BaseModel):
    """Where the number is, and how many guesses there are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: int
    high: int
    number: int
    guesses: int = Field(gt=0)

    @model_validator(mode="after")
    def _inside(self) -> Window:
        if not self.low <= self.number <= self.high:
            raise ValueError(f"number {self.number} is not from {self.low} to {self.high}")
        return self


class NumberSearch(Environment):
    """A hidden integer.

    Each wrong guess is answered with its side; the last one ends the episode.
    """

    Params = Window
    system_prompt = "Find the hidden number. Call guess until it is right."

    def open(self, task: Task) -> None:
        assert isinstance(task.params, Window)
        self.window = task.params
        self.guesses: list[int] = []

    @tool
    def guess(self, number: Annotated[int, "Your guess"]) -> str:
        """Compare a guess with the hidden number."""
        self.guesses.append(number)
        if number == self.window.number or len(self.guesses) == self.window.guesses:
            self.end()
        if number == self.window.number:
            return "right"
        return "too low" if number < self.window.number else "too high"

    @scorer
    def found(self) -> Score:
        """1 where the last guess is the number."""
        found = self.guesses[-1:] == [self.window.number]
        return Score(
            value=float(found),
            explanation=f"{'found' if found else 'not found'} in {len(self.guesses)} guesses",
            evidence={"guesses": self.guesses, "number": self.window.number},
        )
