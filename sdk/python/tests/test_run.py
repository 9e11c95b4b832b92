"""Commands, their output, and several callers."""
from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
import time
import unittest
from functools import partial
from typing import Any

from sandbox_agent import AsyncSandbox, CommandFailed, Result, Sandbox
from support import JOB, SandboxTest, wait_for

LINES = 300000
SLOW_SECONDS = 20  # after 10 to 13 s without a message, an agent goes on without the reader


class RunTest(SandboxTest):
    def test_a_string_is_shell_text_and_a_sequence_is_not(self) -> None:
        result = self.execute("echo $((1 + 2)); echo oops >&2; exit 7")
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("3\n", "oops\n", 7))
        self.assertEqual(result.end["cause"], "exited")
        self.assertGreater(result.duration, 0)
        self.assertEqual(self.execute(["echo", "$((1 + 2))", "a  b"]).stdout, "$((1 + 2)) a  b\n")

    def test_directory_environment_and_input(self) -> None:
        (self.work / "sub").mkdir()
        start = self.sandbox.run("pwd").stdout.strip()
        for cwd, expected in (self.path("sub"), self.path("sub")), (self.work, str(self.work)):
            self.assertEqual(self.sandbox.run("pwd", cwd=str(cwd)).stdout, f"{expected}\n")
        self.assertEqual(self.sandbox.run("pwd", cwd=".").stdout.strip(), start)
        self.assertEqual(self.execute("echo $A", env={"A": "é"}).stdout, "é\n")
        self.assertEqual(self.execute(["cat"], stdin="a\0é\n").stdout, "a\0é\n")

    def test_bytes_arrive_unchanged(self) -> None:
        result = self.execute(r"printf 'a\r\n\377\000b'")
        self.assertEqual(result.stdout_bytes, b"a\r\n\xff\0b")
        self.assertEqual(result.stdout, "a\r\n\ufffd\0b")

    def test_check_raises_for_an_exit_code(self) -> None:
        self.assertEqual(self.execute("true", check=True).exit_code, 0)
        with self.assertRaisesRegex(CommandFailed, "why") as caught:
            self.execute("echo why >&2; kill -9 $$", check=True)
        self.assertEqual(caught.exception.result and caught.exception.result.exit_code, 137)

    def test_callbacks_get_text_as_it_arrives_and_no_character_is_cut(self) -> None:
        gate, let_continue = self.gate()
        texts: list[str] = []
        result = self.execute(
            rf"printf 'a\303'; echo go >&2; {gate}; printf '\251b\377'", on_stdout=texts.append,
            on_stderr=lambda text: let_continue())
        self.assertEqual(texts[0], "a")
        self.assertEqual("".join(texts), "aéb\ufffd")
        self.assertEqual(result.stdout_bytes, b"a\xc3\xa9b\xff")

    def test_an_incomplete_character_at_the_end_is_replaced(self) -> None:
        texts: list[str] = []
        self.execute(r"printf 'a\303'", on_stdout=texts.append)
        self.assertEqual("".join(texts), "a\ufffd")

    def test_a_slow_reader_gets_every_line(self) -> None:
        """Without signs of life, the agents would trim the events that were not read in time."""
        flags = "--events-maxlen", "100", "--events-keep-bytes", "1000000"
        self.kill(self.agent)
        self.start_agent(JOB, *flags)
        self.start_agent("slow", *flags)
        command = f"seq -f %099.0f {LINES}"
        counts = {"blocking": 0, "asyncio": 0}

        def count(text: str) -> None:
            if counts["blocking"] == 0:
                time.sleep(SLOW_SECONDS)
            counts["blocking"] += text.count("\n")

        async def count_async(text: str) -> None:
            if counts["asyncio"] == 0:
                await asyncio.sleep(SLOW_SECONDS)
            counts["asyncio"] += text.count("\n")

        async def run_async() -> Result:
            async with AsyncSandbox(self.url, "slow") as sandbox:
                return await sandbox.run(command, on_stdout=count_async, keep_output=False)

        join = self.background(lambda: self.execute(command, on_stdout=count))
        result = asyncio.run(run_async())
        self.assertEqual((result.exit_code, result.stdout_bytes), (0, b""))
        self.assertEqual(len(join().stdout_bytes), 100 * LINES)
        self.assertEqual(counts, {"blocking": LINES, "asyncio": LINES})

    def test_entries_of_other_programs_are_ignored(self) -> None:
        def disturb(_: str) -> None:
            for data in "text", "[]", "{}", "null", "[" * 100000, json.dumps({"stepId": "other"}):
                self.redis.xadd(self.key("events"), {"data": data})
            self.redis.xadd(self.key("events"), {"note": "1"})
            let_continue()
        gate, let_continue = self.gate()
        result = self.execute(f"echo a; {gate}; echo b", on_stdout=lambda text: (
            disturb(text) if text == "a\n" else None))
        self.assertEqual(result.stdout, "a\nb\n")

    def test_nothing_is_left_in_redis(self) -> None:
        self.execute("echo a")
        self.assertEqual(self.redis.keys(self.key("results*")), [])
        self.assertEqual(self.redis.llen(self.key("in")), 0)


    def test_secrets_are_masked(self) -> None:
        result = self.execute("echo $A", env={"A": "secret-value"}, secrets=["A"])
        self.assertEqual(result.stdout, "***\n")

    def test_text_is_sent_as_utf8(self) -> None:
        """As JSON escapes, the step would be too large for the agent."""
        text = "é" * 12 * 1024 * 1024
        self.assertTrue(self.execute(["cat"], stdin=text).stdout == text)

    def test_a_unix_socket(self) -> None:
        path = str(self.directory / "socket")
        with subprocess.Popen([os.environ.get("REDIS_SERVER") or "redis-server", "--port", "0",
                               "--unixsocket", path, "--save", "", "--dir", str(self.directory)],
                              stdout=subprocess.DEVNULL) as server:
            try:
                wait_for(lambda: os.path.exists(path), "socket")
                with Sandbox(f"unix://{path}", JOB) as sandbox:
                    self.assertFalse(sandbox.ping())
            finally:
                server.terminate()


class CallersTest(SandboxTest):
    """Ten callers of one process, beside a server that pops every result that it finds."""
    CALLERS, STEPS = 10, 5

    def setUp(self) -> None:
        super().setUp()
        self.is_over = threading.Event()
        self.popped: list[str] = []
        join = self.background(self.pop)
        self.addCleanup(join)
        self.addCleanup(self.is_over.set)

    def pop(self) -> None:
        while not self.is_over.is_set():
            popped = self.redis.brpop(self.key("results"), timeout=1)
            if popped:
                self.popped.append(popped[1])

    def command(self, caller: int, step: int) -> str:
        return f"seq {caller * 1000} {caller * 1000 + 500 + step}; exit {caller}"

    def check(self, caller: int, step: int, result: Result) -> None:
        first = caller * 1000
        numbers = range(first, first + 501 + step)
        self.assertEqual(result.stdout.split(), [str(number) for number in numbers])
        self.assertEqual(result.exit_code, caller)

    def test_threads(self) -> None:
        def work(caller: int) -> None:
            for step in range(self.STEPS):
                self.check(caller, step, self.execute(self.command(caller, step)))
        joins = [self.background(partial(work, caller)) for caller in range(self.CALLERS)]
        for join in joins:
            join()
        self.push_as_server()

    def test_tasks(self) -> None:
        async def work(sandbox: AsyncSandbox, caller: int) -> None:
            for step in range(self.STEPS):
                self.check(caller, step, await sandbox.run(self.command(caller, step)))

        async def work_all() -> None:
            async with AsyncSandbox(self.url, JOB) as sandbox:
                await asyncio.gather(*(work(sandbox, caller) for caller in range(self.CALLERS)))
        asyncio.run(work_all())
        self.push_as_server()

    def push_as_server(self) -> None:
        """The server still gets the results of its own steps, and of no others."""
        step: dict[str, Any] = {"stepId": "of-the-server", "command": "true"}
        self.redis.lpush(self.key("in"), json.dumps(step))
        wait_for(lambda: self.popped, "result of the server")
        self.execute("true")
        self.assertEqual([json.loads(text)["stepId"] for text in self.popped], ["of-the-server"])


class ContextTest(SandboxTest):
    def test_a_sandbox_can_be_used_again_after_with(self) -> None:
        with Sandbox(self.url, JOB) as sandbox:
            self.assertTrue(sandbox.ping())
        self.assertTrue(sandbox.ping())
        sandbox.close()

    def test_shutdown_ends_the_agent_and_ping_notices(self) -> None:
        self.assertTrue(self.sandbox.ping())
        self.sandbox.shutdown()
        self.assertEqual(self.agent.wait(60), 0)
        self.assertFalse(self.sandbox.ping())


if __name__ == "__main__":
    unittest.main()
