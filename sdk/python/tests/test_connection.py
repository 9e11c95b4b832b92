"""Lost connections to Redis."""
from __future__ import annotations

import asyncio
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from sandbox_agent import AsyncSandbox, RedisGone, Sandbox, _connection
from support import JOB, Proxy, SandboxTest, wait_for

LINES = 300000


class ConnectionTest(SandboxTest):
    def runs(self) -> int:
        self.execute("true")  # after a second copy of the step, if there is one
        return len(Path(self.path("runs")).read_text())

    def kill_connections(self, is_over: threading.Event) -> None:
        """Ends all connections, of the agents, too, which need some time to return."""
        while not is_over.wait(0.5):
            self.redis.client_kill_filter(_type="normal", skipme=True)
            self.killed += 1

    def test_connections_that_are_killed_repeatedly(self) -> None:
        self.start_agent("other")
        is_over = threading.Event()
        self.killed = 0
        # Slow enough for several kills.
        command = (f"printf x >>runs; for i in 1 2 3 4 5 6; do seq {LINES // 6}; sleep 0.5; done")
        expected = "".join(f"{line}\n" for line in range(1, LINES // 6 + 1)) * 6

        async def run() -> str:
            async with AsyncSandbox(self.url, "other") as sandbox:
                return (await sandbox.run(command, cwd=str(self.work))).stdout
        join = self.background(lambda: self.execute(command))
        kills = self.background(lambda: self.kill_connections(is_over))
        try:
            stdout = asyncio.run(run())
            result = join()
        finally:
            is_over.set()
            kills()
        self.assertTrue(stdout == expected)
        self.assertTrue(result.stdout == expected)
        self.assertEqual(self.runs(), 2)
        self.assertGreater(self.killed, 3)

    def test_redis_restarts(self) -> None:
        gate, let_continue = self.gate()
        texts: list[str] = []

        def restart(text: str) -> None:
            if not texts:
                self.restart_redis()
                let_continue()
            texts.append(text)
        result = self.execute(f"printf x >>runs; seq 1000; {gate}; seq {LINES}", on_stdout=restart)
        expected = "".join(f"{line}\n" for line in [*range(1, 1001), *range(1, LINES + 1)])
        self.assertTrue(result.stdout == expected)
        self.assertTrue("".join(texts) == expected)
        self.assertEqual(self.runs(), 1)

    def test_a_step_whose_push_is_lost_runs_once(self) -> None:
        command = "printf x >>runs; exit 4"

        async def run(url: str) -> int:
            async with AsyncSandbox(url, JOB) as sandbox:
                return (await sandbox.run(command, cwd=str(self.work))).exit_code
        for loses_reply in True, False:
            for is_async in True, False:
                with self.subTest(loses_reply=loses_reply, is_async=is_async):
                    Path(self.path("runs")).write_text("")
                    proxy = Proxy(self.port, b"LPUSH\r\n$18\r\n" + self.key("in").encode(), loses_reply)
                    self.addCleanup(proxy.close)
                    url = f"redis://127.0.0.1:{proxy.port}"
                    if is_async:
                        self.assertEqual(asyncio.run(run(url)), 4)
                    else:
                        with Sandbox(url, JOB) as sandbox:
                            result = sandbox.run(command, cwd=str(self.work))
                        self.assertEqual(result.exit_code, 4)
                    self.assertIsNone(proxy.text, "nothing was lost")
                    self.assertEqual(self.runs(), 1)

    def test_a_waiting_step_whose_push_is_lost_runs_once(self) -> None:
        """It is then found in the lists, behind other steps."""
        gate, let_continue = self.gate()
        first = self.background(lambda: self.execute(gate, step_id="first"))
        wait_for(lambda: self.redis.get(self.key("started")) == "first", "start")
        others = [self.background(lambda: self.execute("true")) for _ in range(20)]
        wait_for(lambda: self.redis.llen(self.key("in")) == 19, "waiting steps")
        proxy = Proxy(self.port, b"LPUSH\r\n$18\r\n" + self.key("in").encode(), loses_reply=True)
        self.addCleanup(proxy.close)
        sandbox = Sandbox(f"redis://127.0.0.1:{proxy.port}", JOB)
        self.addCleanup(sandbox.close)
        last = self.background(lambda: sandbox.run("printf x >>runs", cwd=str(self.work)))
        wait_for(lambda: self.redis.llen(self.key("in")) == 20, "last step")
        let_continue()
        for join in [first, *others, last]:
            join()
        self.assertEqual(self.runs(), 1)

    def shut_down_without_reply(self) -> None:
        proxy = Proxy(self.port, b"LPUSH\r\n$18\r\n" + self.key("in").encode(), loses_reply=True)
        self.addCleanup(proxy.close)
        with Sandbox(f"redis://127.0.0.1:{proxy.port}", JOB) as sandbox:
            sandbox.shutdown()
        self.assertEqual(self.agent.wait(60), 0)
        self.assertEqual(self.redis.llen(self.key("in")), 0)

    def test_a_shutdown_whose_reply_is_lost_is_not_repeated(self) -> None:
        self.shut_down_without_reply()

    def test_a_shutdown_is_not_repeated_while_its_agent_exits(self) -> None:
        """The agent waits 5 s for what earlier steps left in the background."""
        self.execute("trap '' TERM; while :; do sleep 0.1; done >/dev/null 2>&1 & echo a")
        self.shut_down_without_reply()

    def test_a_step_on_a_silent_connection_is_not_pushed_again(self) -> None:
        """Redis may get it later. It then runs, unless the agent reads the cancel after that."""
        Path(self.path("runs")).write_text("")
        held = threading.Event()
        proxy = Proxy(self.port, b"LPUSH\r\n$18\r\n" + self.key("in").encode(), False, held)
        self.addCleanup(proxy.close)
        with mock.patch.object(_connection, "SILENCE_SECONDS", 2):
            with Sandbox(f"redis://127.0.0.1:{proxy.port}", JOB) as sandbox:
                with self.assertRaisesRegex(RedisGone, "redis does not answer"):
                    sandbox.run("printf x >>runs", cwd=str(self.work))
        held.set()
        wait_for(lambda: self.redis.keys(self.key("results:*")), "result")
        self.assertLessEqual(self.runs(), 1)

    def test_redis_that_is_out_of_memory_for_a_while(self) -> None:
        gate, let_continue = self.gate()

        def fill(text: str) -> None:
            if text == "a\n":
                self.redis.config_set("maxmemory", 1)
                self.addCleanup(timer.join)
                timer.start()

        def empty() -> None:
            self.redis.config_set("maxmemory", 0)
            let_continue()
        timer = threading.Timer(2, empty)
        result = self.execute(f"echo a; {gate}; echo b", on_stdout=fill)
        self.assertEqual(result.stdout, "a\nb\n")

    def test_an_error_does_not_show_the_step(self) -> None:
        self.redis.execute_command("ACL", "SETUSER", "guest", "on", ">s", "~*", "+@all", "-lpush")
        with Sandbox(f"redis://guest:s@127.0.0.1:{self.port}", JOB) as sandbox:
            with self.assertRaisesRegex(RedisGone, "^redis refuses 'LPUSH'") as caught:
                sandbox.run("true", env={"PASSWORD": "hidden-value"})
        self.assertNotIn("hidden-value", str(caught.exception))

    def test_redis_that_stays_away(self) -> None:
        self.stop_redis()
        began_at = time.monotonic()
        with self.assertRaisesRegex(RedisGone, "redis does not answer: .*refused"):
            self.sandbox.ping()
        self.assertGreater(time.monotonic() - began_at, 14)
        self.start_redis(self.port)

    def test_redis_that_refuses(self) -> None:
        self.redis.execute_command("ACL", "SETUSER", "guest", "on", ">secret", "~*", "+client")
        for password, why in ("wrong", "WRONGPASS|invalid username"), ("secret", "NOPERM|no perm"):
            with Sandbox(f"redis://guest:{password}@127.0.0.1:{self.port}", JOB) as sandbox:
                with self.assertRaisesRegex(RedisGone, f"redis (does not answer|refuses).*({why})"):
                    sandbox.ping()
        self.redis.lpush(self.key("heartbeat", "typed"), "x")
        with Sandbox(self.url, "typed") as sandbox:
            with self.assertRaisesRegex(RedisGone, "redis refuses 'GET': .*WRONGTYPE"):
                sandbox.ping()


if __name__ == "__main__":
    unittest.main()
