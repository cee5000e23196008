"""Ten tasks of which a model that only ends its replies finishes nine."""

from __future__ import annotations

from tinker_episodes import Bundle, Environment, Message, Prompt, Task, scorer


class Talk(Environment):
    """Goes on for ever where the task says so."""

    def next_prompt(self, reply: Message) -> Prompt | None:
        return Prompt("Go on.") if self.task.params["endless"] else None

    @scorer
    def replies(self) -> float:
        return 1.0


ONE_IN_TEN = Bundle(
    name="ten",
    environment=Talk,
    tasks=[
        Task(f"t{n}", (Prompt(f"Task {n}."),), {"endless": n == 0}, ("few",) if n < 5 else ())
        for n in range(10)
    ],
)
