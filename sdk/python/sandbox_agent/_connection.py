"""The connection to Redis. Every module above is written once, as coroutines. Those of a blocking
connection never wait for an event loop, so that run_blocking can execute them."""
from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar, Union

import redis.asyncio
import redis.asyncio.retry
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from .errors import RedisGone

OUTAGE_SECONDS, CLEANUP_SECONDS = 15, 2  # how long a lost connection is retried, also in cleanups
SIGN_SECONDS, SILENCE_SECONDS = 2, 10  # a connection that is silent for 10 s is lost
CONTROL_SECONDS = 86400  # without an agent, nothing else lets the list expire
TEMPORARY = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ReadOnlyError,
             exceptions.ClusterDownError, exceptions.TryAgainError)
# Errors that have no class of their own in every version of redis.
TEMPORARY_TEXT = re.compile("OOM|MISCONF|BUSY|NOREPLICAS|command not allowed when used memory")
REFUSED_LOGIN = (exceptions.AuthenticationError, exceptions.AuthorizationError)
T = TypeVar("T")
Words = tuple[Union[str, bytes, int], ...]
Callback = Callable[[str], object]


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a coroutine of a blocking connection has waited")


class Connection:
    """The connections to the Redis of a job."""

    def __init__(self, url: str, job: str, blocks: bool, options: Mapping[str, Any]) -> None:
        self.job, self._blocks = job, blocks
        self._cleanups: set[asyncio.Task[None]] = set()
        # Only this class repeats commands, so that no step is pushed twice.
        retry = (Retry if blocks else redis.asyncio.retry.Retry)(NoBackoff(), 0)
        tls = {"ssl_check_hostname": True} if url.startswith("rediss:") else {}
        tcp = {} if url.startswith("unix:") else {"socket_connect_timeout": 5}
        self._redis: Any = (redis if blocks else redis.asyncio).Redis.from_url(
            url, **{**tcp, **tls, **options, "retry": retry,
                    "decode_responses": False, "socket_timeout": SILENCE_SECONDS if blocks else None})

    def key(self, name: str) -> str:
        return f"sandbox:{self.job}:{name}"

    async def _await(self, value: Any) -> Any:
        return await value if not self._blocks and inspect.isawaitable(value) else value

    async def pause(self, seconds: float) -> None:
        await self._await((time if self._blocks else asyncio).sleep(seconds))

    async def _execute(self, pipeline: Any) -> Any:
        """Before Python 3.12, asyncio.wait_for, which redis uses, can swallow a cancellation."""
        execution = pipeline.execute(raise_on_error=False)  # or else the error has the whole command
        if self._blocks:
            return execution
        task = asyncio.ensure_future(execution)
        try:
            if not (await asyncio.wait({task}, timeout=SILENCE_SECONDS))[0]:
                raise exceptions.TimeoutError(f"no answer for {SILENCE_SECONDS} s")
            return task.result()
        finally:
            task.cancel()

    async def send(self, *commands: Words, patience: float = OUTAGE_SECONDS,
                   was_done: Callable[[], Awaitable[bool]] | None = None) -> Any:
        """Sends commands together, again after a lost connection, and returns their replies. If
        they must not be executed twice, `was_done` says whether they were: the replies are None.
        Commands on a silent connection may arrive later, so those are not sent again."""
        lost_at = None
        while True:
            pipeline = self._redis.pipeline(transaction=False)
            for words in commands:
                pipeline.execute_command(*words)
            try:
                replies = await self._execute(pipeline)
                for words, reply in zip(commands, replies):
                    if isinstance(reply, Exception):
                        raise reply
                return replies
            except exceptions.RedisError as error:
                lost_at = lost_at or time.monotonic()
                age = time.monotonic() - lost_at
                if not (isinstance(error, TEMPORARY) or TEMPORARY_TEXT.match(str(error))):
                    raise RedisGone(f"redis refuses {words[0]!r}: {error}") from error
                is_silent = isinstance(error, exceptions.TimeoutError) and "connect" not in str(error)
                gone = RedisGone(f"redis does not answer: {error}")
                if isinstance(error, REFUSED_LOGIN) or age >= patience:
                    raise gone from error
            await self.pause(0.05 + age / 4)
            if was_done and await was_done():
                return None
            if was_done and is_silent:
                raise gone

    async def send_quietly(self, *commands: Words) -> None:
        """Sends commands whose failure has no consequence, even if the task is cancelled."""
        async def send() -> None:
            with suppress(RedisGone):
                await self.send(*commands, patience=CLEANUP_SECONDS)
        if self._blocks:
            return await send()
        task = asyncio.create_task(send())
        self._cleanups.add(task)
        task.add_done_callback(self._cleanups.discard)
        await asyncio.shield(task)

    async def has(self, *words: str | int) -> bool:
        return (await self.send(words))[0] is not None

    def control(self, **message: Any) -> tuple[Words, ...]:
        """Returns the commands that push a control message."""
        key = self.key("control")
        return ("LPUSH", key, json.dumps(message)), ("EXPIRE", key, CONTROL_SECONDS)

    async def push(self, step: Mapping[str, Any], token: str,
                   is_done: Callable[[], Awaitable[bool]]) -> None:
        """Pushes a step once. If the reply was lost, a step that was pushed is in `in`, or else in
        `inflight`, or else done. `token` is a text that only this step contains."""
        async def was_pushed() -> bool:
            return bool(await self.search(token, "in", "inflight")) or await is_done()
        fields = {name: value for name, value in step.items() if value is not None}
        payload = json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace")
        await self.send(("LPUSH", self.key("in"), payload), was_done=was_pushed)

    async def search(self, text: str, *names: str) -> bytes | None:
        """Returns the newest element with the text, of the first list that has one. Others push at
        the head meanwhile, so an element may be read twice, but is not left out."""
        for name in names:
            first, last = 0, 7  # a small page first, because elements may be large
            while first <= last:
                page: list[bytes] = (await self.send(("LRANGE", self.key(name), first, last)))[0]
                for element in page:
                    if text.encode() in element:
                        return element
                first, last = last + 1, last + 100 if len(page) > last - first else last
        return None

    async def deliver(self, calls: list[tuple[Callback, str]], sign: tuple[Words, ...]) -> None:
        """Calls the callbacks, and sends `sign` every 2 s until they have returned."""
        async def give_signs(wait: Callable[[float], Any]) -> None:
            while not await self._await(wait(SIGN_SECONDS)):
                await self.send_quietly(*sign)
        is_over = threading.Event()
        if self._blocks:
            signs = give_signs(is_over.wait)
            threading.Thread(target=run_blocking, args=(signs,), daemon=True).start()
        else:
            task = asyncio.create_task(give_signs(asyncio.sleep))
        try:
            for callback, text in calls:
                await self._await(callback(text))
        finally:
            is_over.set() if self._blocks else task.cancel()

    async def close(self) -> None:
        if self._cleanups:
            await asyncio.wait(self._cleanups)
        await self._await(self._redis.connection_pool.disconnect())
