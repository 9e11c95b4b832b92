"""A Redis server, agents of a job, and a proxy, for tests. AGENT and REDIS_SERVER name the programs."""
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis

from sandbox_agent import Result, Sandbox

JOB = "pipe-42"
BOUND_SECONDS = 60


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + BOUND_SECONDS
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"no {what} after {BOUND_SECONDS} s")
        time.sleep(0.02)
    return value


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class SandboxTest(unittest.TestCase):
    """Each test has a directory, a Redis with an append-only file, an agent and a Sandbox."""
    STARTS_AGENT = True

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.work = self.directory / "work"
        self.work.mkdir()
        (self.directory / "redis").mkdir()
        self.start_redis()
        self.addCleanup(self.stop_redis)
        self.url = f"redis://127.0.0.1:{self.port}"
        if self.STARTS_AGENT:
            self.start_agent()
        self.sandbox = Sandbox(self.url, JOB)
        self.addCleanup(self.sandbox.close)

    def key(self, name: str, job: str = JOB) -> str:
        return f"sandbox:{job}:{name}"

    def start_redis(self, port: int = 0) -> None:
        """Another program may take the port first: then Redis exits, and another one is tried."""
        for _ in range(10):
            self.port = port or free_port()
            self.server = subprocess.Popen(
                [os.environ.get("REDIS_SERVER") or "redis-server", "--port", str(self.port),
                 "--bind", "127.0.0.1", "--dir", str(self.directory / "redis"), "--save", "",
                 "--appendonly", "yes", "--appendfsync", "always"], stdout=subprocess.DEVNULL)
            self.redis: Any = redis.Redis(port=self.port, decode_responses=True)
            wait_for(lambda: self.server.poll() is not None or self.is_up(), "Redis")
            if self.server.poll() is None:
                return
        raise AssertionError("Redis does not start")

    def is_up(self) -> bool:
        try:
            return bool(self.redis.info("server")["process_id"] == self.server.pid)
        except redis.exceptions.ConnectionError:
            return False

    def stop_redis(self) -> None:
        self.redis.close()
        self.server.terminate()
        self.server.wait()

    def restart_redis(self) -> None:
        self.stop_redis()
        self.start_redis(self.port)

    def start_agent(self, job: str = JOB, *flags: str, wrapper: Sequence[str] = ()
                    ) -> subprocess.Popen[bytes]:
        with (self.directory / "agent.log").open("ab") as log:
            agent = subprocess.Popen(
                [*wrapper, os.environ["AGENT"], "--redis-url", self.url, "--job-id", job,
                 *flags], stderr=log)
        self.addCleanup(self.kill, agent)
        wait_for(lambda: self.heartbeat(job).get("Pid") == agent.pid, "heartbeat")
        if job == JOB:
            self.agent = agent
        return agent

    def heartbeat(self, job: str = JOB) -> dict[str, Any]:
        heartbeat: dict[str, Any] = json.loads(self.redis.get(self.key("heartbeat", job)) or "{}")
        return heartbeat

    def kill(self, agent: subprocess.Popen[bytes]) -> None:
        agent.kill()
        agent.wait()

    def execute(self, command: str | Sequence[str], **options: Any) -> Result:
        """Runs a command in the directory of the test: agents prefer /work, if that exists."""
        return self.sandbox.run(command, cwd=str(self.work), **options)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(fields["data"]) for _, fields in self.redis.xrange(self.key("events"))]

    def path(self, name: str) -> str:
        return str(self.work / name)

    def gate(self) -> tuple[str, Callable[[], None]]:
        """Returns shell text that waits, and a function that lets it continue."""
        path = self.directory / f"gate-{time.monotonic_ns()}"
        os.mkfifo(path)

        def let_continue() -> None:
            path.write_text("go\n")
        return f"read _ <{path}", let_continue

    def background(self, work: Callable[[], Any]) -> Callable[[], Any]:
        """Runs it in a thread. Returns a function that waits for what it returns or raises."""
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append(work())
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def join() -> Any:
            thread.join(4 * BOUND_SECONDS)
            if not outcome:
                raise AssertionError("the thread does not end")
            if isinstance(outcome[0], BaseException):
                raise outcome[0]
            return outcome[0]
        return join


class Proxy:
    """Forwards connections to Redis. Loses the connection that first sends `text`: before Redis gets
    it, or before the client gets the reply. With `held`, Redis gets it after that event, and the
    client never gets the reply."""

    def __init__(self, port: int, text: bytes, loses_reply: bool,
                 held: threading.Event | None = None) -> None:
        self.text: bytes | None = text
        self.redis_port, self.loses_reply, self.held = port, loses_reply, held
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.redis_port))
            is_lost = threading.Event()
            for source, target in (client, server), (server, client):
                threading.Thread(target=self.forward, daemon=True,
                                 args=(source, target, source is client, is_lost)).start()

    def forward(self, source: socket.socket, target: socket.socket, is_request: bool,
                is_lost: threading.Event) -> None:
        try:
            while data := source.recv(65536):
                if is_request and self.text is not None and self.text in data:
                    self.text = None
                    is_lost.set()
                    if self.held:
                        self.held.wait(BOUND_SECONDS)
                    elif not self.loses_reply:
                        break
                elif not is_request and is_lost.is_set():
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in source, target:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

        source.close()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
