"""The exchange of one step with an agent."""
from __future__ import annotations

import codecs
import time
import uuid
from asyncio import CancelledError
from collections.abc import Mapping
from typing import Any

from . import errors
from ._connection import Callback, Connection, Words
from ._events import Events, parse_object
from .errors import Result, StepError

START_SECONDS = 5  # an agent has a heartbeat this long after its start, or after Redis is back
AWAY_SECONDS, GONE_SECONDS = 15, 60  # without a heartbeat, for a step that waits, or has started
LOST_SECONDS = 10  # a step that is in no list for this time, and has no result, is lost
CHECK_SECONDS, POLL_MS = 2, 250  # how often the lists are read, and the result of a step is
FEATURES = ("flowControl", "replyTo", "raw")
FIELD_FEATURES = ("fence", "limits")  # of fields that an older agent would ignore
ANSWER: dict[str, Any] = {  # types
    "exitCode": int, "durationSeconds": (int, float), "eventCount": (int, type(None)),
    "errorMessage": (str, type(None)), "outputContent": (str, type(None)), "end": dict,
    "fence": (dict, type(None))}
CAUSES: dict[str, type[StepError]] = {
    "timeout": errors.TimedOut, "cancelled": errors.Cancelled, "lost": errors.Interrupted,
    "refused": errors.Rejected, "notStarted": errors.Rejected}
STOPPED = (Exception, CancelledError, KeyboardInterrupt, SystemExit)  # but not GeneratorExit


def parse_answer(text: bytes | None) -> dict[str, Any]:
    """Returns a StepResult, or an empty object for any other text."""
    answer = parse_object(text)
    is_valid = all(isinstance(answer.get(name), types) for name, types in ANSWER.items())
    return answer if is_valid else {}


class Exchange:
    """One step, from its push to its result."""

    def __init__(self, connection: Connection, step: Mapping[str, Any], keeps: bool = True,
                 **callbacks: Callback | None) -> None:
        self.connection, self.keeps, self.token = connection, keeps, uuid.uuid4().hex
        self.own_key = connection.key(f"results:{self.token}")
        self.read_newest: Words = ("XREVRANGE", connection.key("events"), "+", "-", "COUNT", 1)
        self.id: str = step.get("stepId") or self.token
        self.step: dict[str, Any] = {**step, "schemaVersion": 2, "stepId": self.id,
                                     "flowControl": True, "replyTo": self.token}
        self.events = Events(self.id, time.monotonic())
        self.polled_at, self.absence = time.monotonic(), 0.0  # seconds without a heartbeat
        self.output: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        decoder = codecs.getincrementaldecoder("utf-8")
        self.callbacks = {name: (callback, decoder("replace"))
                          for name, callback in callbacks.items() if callback}

    async def run(self) -> tuple[Result, dict[str, Any]]:
        """Returns the result, also as the StepResult. If a callback or anything else raises before
        it is there, the step is cancelled. Raises the error of a step that did not end by itself."""
        connection, events = self.connection, self.events
        await self.prepare()
        try:
            await connection.push(self.step, self.token,
                                  lambda: connection.has("LINDEX", self.own_key, -1))
            answer = await self.await_answer()
            await self.deliver([(name, b"") for name in self.output], is_over=True)
        except STOPPED:
            await connection.send_quietly(*connection.control(kind="cancel", stepId=self.id))
            raise
        events.missing += max(0, (answer.get("eventCount") or 0) - events.seq)
        events.acknowledge(time.monotonic())
        last = connection.control(**events.message()) if events.seq else ()
        await connection.send_quietly(*last, ("DEL", self.own_key))

        stdout, stderr = map(b"".join, self.output.values())
        result = Result(self.id, answer["exitCode"], stdout, stderr, answer["end"],
                        answer["durationSeconds"], events.missing, answer.get("fence") or {})
        error_type = CAUSES.get(str(result.end.get("cause")), StepError)
        if self.step.get("fence") is not None and events.lacks_policy and error_type is not errors.Rejected:
            raise errors.PolicyIgnored(f"step {self.id} has run without its sandbox policy: the agent "
                                       "that took it lacks fence", result)
        if error_type is not StepError or result.exit_code < 0:
            raise error_type(answer.get("errorMessage") or f"step {self.id} did not run", result)
        return result, answer

    async def prepare(self) -> None:
        """Looks at the agent, and notes the end of the stream."""
        end, job = time.monotonic() + START_SECONDS, self.connection.job
        heartbeat: Words = ("GET", self.connection.key("heartbeat"))
        while (replies := await self.connection.send(heartbeat, self.read_newest))[0] is None:
            if time.monotonic() >= end:
                raise errors.AgentGone(f"no agent for {job}: no heartbeat; nothing was executed")
            await self.connection.pause(0.2)
        agent = parse_object(replies[0])
        self.events.position = replies[1][0][0] if replies[1] else b"0-0"
        features = agent["Features"] if isinstance(agent.get("Features"), list) else []
        fields = [name for name in FIELD_FEATURES if self.step.get(name) is not None]
        lacking = [name for name in (*FEATURES, *fields) if name not in features]
        if lacking:
            raise errors.Rejected(f"the agent of {job} lacks {', '.join(lacking)}: it needs version "
                                  f"{'0.4' if fields else '0.3'}, Redis 6.2 and all rights of docs/redis.md")
        start, directory = agent.get("WorkingDirectory"), self.step.get("workingDirectory")
        if start and directory and not directory.startswith("/"):
            self.step["workingDirectory"] = f"{start}/{directory}"

    async def await_answer(self) -> dict[str, Any]:
        send, search, key = self.connection.send, self.connection.search, self.connection.key
        answer: dict[str, Any] = {}
        last = None  # the newest entry after the result was there: others may add entries all the time
        checked_at = present_at = time.monotonic()
        while True:
            entries, text = await self.poll(waits=not answer)
            await self.deliver(self.events.take(entries))
            now = time.monotonic()
            if self.events.is_due(now):
                self.events.acknowledge(now)
                await send(*self.connection.control(**self.events.message()))
            answer = answer or parse_answer(text)
            count = answer.get("eventCount")
            if count is not None and self.events.seq >= count:
                return answer
            if (entries or not answer) and now - checked_at < CHECK_SECONDS:
                continue
            checked_at = now
            newest, running = await send(self.read_newest, ("GET", key("started")))
            if newest and self.events.rewind(newest[0][0]):
                last = None
                continue
            if answer:
                last = last or newest[0][0] if newest else b"0-0"
                if not entries or self.events.has_reached(last):
                    return answer
                continue
            if running == self.id.encode() or await search(self.token, "in", "inflight"):
                present_at = now
                continue
            # Redis may have refused the own list, or the step was too large for the agent's memory.
            element = await search(f'"stepId":"{self.id}"', "results") or b""
            await send(("LREM", key("results"), 1, element))
            answer = parse_answer(element)
            if not answer and now - present_at >= LOST_SECONDS:
                raise errors.Interrupted(f"step {self.id} is not in the lists, and has no result")

    async def poll(self, waits: bool) -> tuple[list[Any], bytes | None]:
        """Returns the next entries, and the result if it is there. Everything that precedes the
        result is in the stream then, but perhaps not in these entries."""
        connection, has_started = self.connection, self.events.seq > 0
        block: list[str | int] = ["BLOCK", POLL_MS] if waits else []
        streams, text, heartbeat = await connection.send(
            ("XREAD", "COUNT", 500, *block, "STREAMS", connection.key("events"), self.events.position),
            ("LINDEX", self.own_key, -1), ("GET", connection.key("heartbeat")))
        now, limit = time.monotonic(), GONE_SECONDS if has_started else AWAY_SECONDS
        self.absence += min(now - self.polled_at, 2)  # during an outage, the agent is not to blame
        self.polled_at = now
        if heartbeat is not None or text is not None:
            self.absence = 0
        if self.absence >= limit:
            outcome = "may still run" if has_started else "did not run"
            raise errors.AgentGone(f"no heartbeat of {connection.job} for {limit} s: {self.id} {outcome}")
        return streams[0][1] if streams else [], text

    async def deliver(self, pieces: list[tuple[str, bytes]], is_over: bool = False) -> None:
        """Keeps output, and gives it to the callbacks, without cutting a character."""
        calls: list[tuple[Callback, str]] = []
        for name, data in pieces:
            if self.keeps:
                self.output[name].append(data)
            if name in self.callbacks:
                callback, decoder = self.callbacks[name]
                text = decoder.decode(data, is_over)
                calls += [(callback, text)] if text else []
        if calls:
            await self.connection.deliver(calls, self.connection.control(**self.events.message()))
