"""The line of slots: order, cancellation, several event loops."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from tinker_episodes.cookbook.slots import Slots, slots_of


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_slots_go_to_those_who_wait_longest() -> None:
    slots, order = Slots(1), []
    held = await slots.take()

    async def wait(name: int) -> None:
        slot = await slots.take()
        order.append(name)
        slot.release()

    tasks = [asyncio.create_task(wait(name)) for name in range(5)]
    await settled()
    held.release()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4] and slots.taken == 0


async def test_no_more_are_open_than_there_are_slots() -> None:
    slots, most = Slots(3), 0

    async def hold() -> None:
        nonlocal most
        slot = await slots.take()
        most = max(most, slots.taken)
        await asyncio.sleep(0)
        slot.release()

    await asyncio.gather(*(hold() for _ in range(50)))
    assert most == 3 and slots.taken == 0


async def test_slot_given_back_twice_is_given_back_once() -> None:
    slots = Slots(1)
    first = await slots.take()
    first.release()
    first.release()
    await slots.take()
    waiting = asyncio.create_task(slots.take())
    await settled()
    assert not waiting.done()
    waiting.cancel()


async def test_cancelled_wait_leaves_the_line() -> None:
    slots = Slots(1)
    held = await slots.take()
    first = asyncio.create_task(slots.take())
    second = asyncio.create_task(slots.take())
    await settled()
    first.cancel()
    await settled()
    held.release()
    (await second).release()
    assert slots.taken == 0


async def test_cancelled_wait_passes_on_a_slot_that_it_got_meanwhile() -> None:
    slots = Slots(1)
    held = await slots.take()
    first = asyncio.create_task(slots.take())
    second = asyncio.create_task(slots.take())
    await settled()
    held.release()  # granted to the first, which has not run yet
    first.cancel()
    (await second).release()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert slots.taken == 0


def test_slots_hold_across_event_loops() -> None:
    slots, most, lock = Slots(2), 0, threading.Lock()

    async def hold() -> None:
        nonlocal most
        slot = await slots.take()
        with lock:
            most = max(most, slots.taken)
        await asyncio.sleep(0)
        slot.release()

    async def many() -> None:
        await asyncio.gather(*(hold() for _ in range(100)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2 and slots.taken == 0


def test_slot_of_a_closed_loop_goes_to_the_next() -> None:
    slots = Slots(1)

    async def take_and_leave() -> asyncio.Task[object]:
        held = await slots.take()
        left = asyncio.get_running_loop().create_task(slots.take())
        await settled()
        holder.append(held)
        return left

    holder: list[object] = []
    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(take_and_leave())
    left._log_destroy_pending = False  # its loop dies with it, which is the point
    loop.close()

    async def next_one() -> None:
        waiting = asyncio.create_task(slots.take())
        await settled()
        holder[0].release()  # type: ignore[attr-defined]
        (await waiting).release()

    asyncio.run(next_one())
    assert slots.taken == 0


@pytest.mark.parametrize("seed", range(20))
async def test_any_order_of_takes_cancels_and_releases_leaves_all_slots_free(seed: int) -> None:
    rng = random.Random(seed)
    slots = Slots(rng.randint(1, 4))

    async def play() -> None:
        slot = await slots.take()
        try:
            for _ in range(rng.randint(0, 3)):
                await asyncio.sleep(0)
        finally:
            slot.release()

    tasks = [asyncio.create_task(play()) for _ in range(40)]
    while not all(task.done() for task in tasks):
        if rng.random() < 0.3:
            rng.choice(tasks).cancel()
        await asyncio.sleep(0)
    assert slots.taken == 0
    await asyncio.wait_for(slots.take(), 5)


def test_line_is_the_runs_own() -> None:
    assert slots_of("/a", 2) is slots_of("/a", 2)
    assert slots_of("/a", 2) is not slots_of("/b", 2)


def test_count_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1 slot, got 0"):
        Slots(0)
