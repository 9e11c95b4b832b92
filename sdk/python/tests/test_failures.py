"""Steps that do not end by themselves, agents that are gone, and events that are missing."""
from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from sandbox_agent import (AgentGone, AsyncSandbox, Cancelled, Interrupted, LinesLost, PolicyIgnored,
                           Rejected, Result, TimedOut, _exchange)
from support import BOUND_SECONDS, JOB, SandboxTest, wait_for


class EndTest(SandboxTest):
    def exists(self, name: str) -> bool:
        return Path(self.path(name)).exists()

    def wait_for_end(self) -> None:
        """Waits until the started command is killed, and its trap has written a file."""
        wait_for(lambda: self.exists("ended"), "end of the command")
        self.assertEqual(self.execute("echo next").stdout, "next\n")

    LONG = "trap 'echo >ended; exit' TERM; echo started; while :; do sleep 0.1; done"

    def test_a_timeout_has_the_output_so_far(self) -> None:
        with self.assertRaisesRegex(TimedOut, "timed out after 1s") as caught:
            self.execute("echo first; sleep 1000", timeout=1)
        result = caught.exception.result
        assert result is not None
        self.assertEqual((result.stdout, result.end["cause"]), ("first\n", "timeout"))

    def test_a_rejected_step(self) -> None:
        with self.assertRaisesRegex(Rejected, "timeoutSeconds"):
            self.execute("echo never", timeout=0)
        with self.assertRaisesRegex(Rejected, "command"):
            self.execute([])
        with self.assertRaisesRegex(Rejected, "no-such-command: command not found"):
            self.execute(["no-such-command"])
        with self.assertRaisesRegex(Rejected, "no-such-directory"):
            self.sandbox.run("true", cwd="/no-such-directory")

    def test_cancel_ends_a_running_and_a_waiting_step(self) -> None:
        running = self.background(lambda: self.execute(self.LONG, step_id="running"))
        wait_for(lambda: self.redis.get(self.key("started")) == "running", "start")
        waiting = self.background(lambda: self.execute("echo >ran", step_id="waiting"))
        wait_for(lambda: "waiting" in str(self.redis.lrange(self.key("inflight"), 0, -1)), "step")
        self.sandbox.cancel("waiting")
        with self.assertRaises(Cancelled):
            waiting()
        self.sandbox.cancel("running")
        with self.assertRaises(Cancelled) as caught:
            running()
        result = caught.exception.result
        self.assertEqual(result and result.stdout, "started\n")
        self.assertFalse(self.exists("ran"))
        self.sandbox.cancel("no-such-step")

    def test_an_error_of_a_callback_cancels_the_step(self) -> None:
        def fail(text: str) -> None:
            raise ZeroDivisionError
        with self.assertRaises(ZeroDivisionError):
            self.execute(self.LONG, on_stdout=fail)
        self.wait_for_end()

    def test_an_interrupt_cancels_the_step(self) -> None:
        def interrupt() -> None:
            wait_for(lambda: len(self.events()) > 1, "output")
            os.kill(os.getpid(), signal.SIGINT)
        # A shell that starts a program in the background lets it ignore SIGINT.
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        join = self.background(interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.execute(self.LONG)
        join()
        self.wait_for_end()

    def test_a_cancelled_task_cancels_the_step(self) -> None:
        async def run() -> None:
            started = asyncio.Event()
            async with AsyncSandbox(self.url, JOB) as sandbox:
                task = asyncio.create_task(sandbox.run(
                    self.LONG, cwd=str(self.work), on_stdout=lambda text: started.set()))
                await asyncio.wait_for(started.wait(), BOUND_SECONDS)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertTrue(await sandbox.ping())
        asyncio.run(run())
        self.wait_for_end()

    def test_a_task_that_is_cancelled_twice_cancels_the_step(self) -> None:
        """As a cancel scope of anyio does."""
        async def run() -> None:
            started = asyncio.Event()
            async with AsyncSandbox(self.url, JOB) as sandbox:
                task = asyncio.create_task(sandbox.run(
                    self.LONG, cwd=str(self.work), on_stdout=lambda text: started.set()))
                await asyncio.wait_for(started.wait(), BOUND_SECONDS)
                while not task.done():
                    task.cancel()
                    await asyncio.sleep(0)
        asyncio.run(run())
        self.wait_for_end()

    def test_answers_of_others_are_ignored(self) -> None:
        gate, let_continue = self.gate()

        def disturb(text: str) -> None:
            step = json.loads(self.redis.lindex(self.key("inflight"), -1))
            for answer in "text", '{"exitCode":"a"}', '{"exitCode":0,"end":5}':
                self.redis.rpush(self.key(f"results:{step['replyTo']}"), answer)
            let_continue()
        with mock.patch.object(_exchange, "LOST_SECONDS", 3):
            with self.assertRaises(Interrupted):
                self.execute(f"echo a; {gate}; exit 3", on_stdout=disturb)


class AgentTest(SandboxTest):
    STARTS_AGENT = False

    def test_no_agent(self) -> None:
        with self.assertRaisesRegex(AgentGone, "no heartbeat; nothing was executed"):
            self.execute("true")
        self.assertEqual(self.redis.llen(self.key("in")), 0)

    def test_an_agent_that_starts_meanwhile(self) -> None:
        join = self.background(lambda: self.execute("echo a"))
        self.start_agent()
        self.assertEqual(join().stdout, "a\n")

    def test_a_step_that_is_too_large_for_the_agent(self) -> None:
        """The answer is in the list of the server, whose other results stay."""
        self.start_agent(wrapper=["prlimit", f"--data={64 * 1024 * 1024}"])
        others = [json.dumps({"stepId": f"s-{number}", "text": "x" * 100}) for number in range(150)]
        self.redis.rpush(self.key("results"), *others)
        with self.assertRaisesRegex(Rejected, "bytes"):
            self.sandbox.run(["cat"], stdin="x" * 10 * 1024 * 1024)
        self.assertEqual(self.redis.lrange(self.key("results"), 0, -1), others)
        self.assertEqual(self.execute("echo next").stdout, "next\n")

    def test_an_old_agent(self) -> None:
        features = ["editFile", "cancel", "stdin", "writeBytes", "replyTo"]
        self.redis.set(self.key("heartbeat"), json.dumps({"Version": "0.2.0", "Features": features}))
        with self.assertRaisesRegex(Rejected, "lacks flowControl, raw: it needs version 0.3"):
            self.execute("true")
        for value in "null", "5", '"flowControl replyTo raw"':
            self.redis.set(self.key("heartbeat"), f'{{"Features":{value}}}')
            with self.assertRaisesRegex(Rejected, "lacks flowControl, replyTo, raw"):
                self.execute("true")
        self.assertEqual(self.redis.llen(self.key("in")), 0)

    def test_an_agent_without_fence_and_limits(self) -> None:
        features = ["flowControl", "replyTo", "raw"]
        self.redis.set(self.key("heartbeat"), json.dumps({"Features": features}))
        for names in ["fence"], ["limits"], ["fence", "limits"]:
            with self.assertRaisesRegex(Rejected, f"lacks {', '.join(names)}: it needs version 0.4"):
                self.execute("true", **{name: {} for name in names})
        self.assertEqual(self.redis.llen(self.key("in")), 0)

    POLICY: dict[str, Any] = {
        "fence": {"writePaths": [], "network": "none"}, "limits": {"cpuSeconds": 600}}
    ENFORCED: dict[str, Any] = {"fence": {"landlock": 7, "network": "none", "enforced": [], "missing": []}}

    def run_as_agent(self, started: dict[str, Any], cause: str = "exited", **answer: Any) -> Result:
        """Runs a step with a policy. This test is the agent, so that it does not depend on the
        kernel: it sends `started` with these members, and the answer."""
        features = ["flowControl", "replyTo", "raw", "fence", "limits"]
        self.redis.set(self.key("heartbeat"), json.dumps({"Features": features}))
        join = self.background(lambda: self.execute("true", check=True, **self.POLICY))
        wait_for(lambda: self.redis.llen(self.key("in")), "step")
        step = json.loads(self.redis.rpop(self.key("in")))
        self.assertEqual({name: step[name] for name in self.POLICY}, self.POLICY)
        event = {"stepId": step["stepId"], "kind": "started", "line": "sh", "seq": 1, **started}
        self.redis.xadd(self.key("events"), {"data": json.dumps(event)})
        answer = {"stepId": step["stepId"], "exitCode": 0, "durationSeconds": 0, "eventCount": 1,
                  "errorMessage": None, "outputContent": None, "end": {"cause": cause}, **answer}
        self.redis.lpush(self.key(f"results:{step['replyTo']}"), json.dumps(answer))
        result: Result = join()
        return result

    def test_fence_and_limits_are_sent_as_they_are(self) -> None:
        result = self.run_as_agent(self.ENFORCED)
        self.assertEqual((result.exit_code, result.fence), (0, {}))

    def test_what_a_policy_denied_is_in_the_result(self) -> None:
        fence = {"missing": ["signals"], "denials": [{"access": "network", "certain": False}]}
        self.assertEqual(self.run_as_agent(self.ENFORCED, fence=fence).fence, fence)

    def test_a_step_that_has_run_without_its_policy(self) -> None:
        """An older agent has taken the job over after the heartbeat was read."""
        for exit_code, cause in (0, "exited"), (3, "exited"), (-1, "timeout"):
            with self.assertRaisesRegex(PolicyIgnored, "has run without its sandbox policy") as caught:
                self.run_as_agent({}, cause, exitCode=exit_code)
            result = caught.exception.result
            self.assertEqual(result and result.exit_code, exit_code)

    def test_a_step_that_did_not_run_has_not_run_without_its_policy(self) -> None:
        for cause in "refused", "notStarted":
            with self.assertRaisesRegex(Rejected, "no such"):
                self.run_as_agent({}, cause, exitCode=-1, errorMessage="no such command")

    def test_an_agent_that_is_killed_and_replaced(self) -> None:
        self.start_agent()
        first = self.agent

        def replace(text: str) -> None:
            self.kill(first)
            self.start_agent()
        with self.assertRaises(Interrupted) as caught:
            self.execute("echo >>runs; echo a; sleep 1000", on_stdout=replace)
        result = caught.exception.result
        assert result is not None
        self.assertEqual((result.stdout, result.end["cause"]), ("a\n", "lost"))
        self.assertEqual(self.execute("cat runs; echo next").stdout, "\nnext\n")

    def test_an_agent_that_is_gone(self) -> None:
        """A step that has started may still run, and one that waits is cancelled."""
        self.start_agent()
        running = self.background(lambda: self.execute("echo a; sleep 1000", step_id="running"))
        wait_for(lambda: self.redis.get(self.key("started")) == "running", "start")
        waiting = self.background(lambda: self.execute("echo >ran", step_id="waiting"))
        wait_for(lambda: "waiting" in str(self.redis.lrange(self.key("inflight"), 0, -1)), "step")
        with mock.patch.object(_exchange, "AWAY_SECONDS", 2), \
                mock.patch.object(_exchange, "GONE_SECONDS", 4):
            self.kill(self.agent)
            self.redis.delete(self.key("heartbeat"))
            with self.assertRaisesRegex(AgentGone, "waiting did not run"):
                waiting()
            with self.assertRaisesRegex(AgentGone, "running may still run"):
                running()
        self.start_agent()
        self.assertEqual(self.execute("ls").stdout, "")

    def test_a_step_that_redis_has_lost(self) -> None:
        self.start_agent()
        self.agent.send_signal(signal.SIGSTOP)
        with mock.patch.object(_exchange, "LOST_SECONDS", 3):
            join = self.background(lambda: self.execute("true", step_id="lost"))
            wait_for(lambda: "lost" in str(self.redis.lrange(self.key("in"), 0, -1)
                                           + self.redis.lrange(self.key("inflight"), 0, -1)), "step")
            self.redis.delete(self.key("in"), self.key("inflight"))
            with self.assertRaisesRegex(Interrupted, "is not in the lists, and has no result"):
                join()


class EventsLostTest(SandboxTest):
    def test_missing_events_are_counted(self) -> None:
        first, let_print = self.gate()
        second, let_end = self.gate()

        def delete(text: str) -> None:
            if text == "a\n":
                let_print()
                wait_for(lambda: self.events()[-1]["seq"] == 3, "second line")
                self.redis.delete(self.key("events"))
                let_end()
        with self.assertRaisesRegex(LinesLost, "^1 events are missing") as caught:
            self.execute(f"echo a; {first}; echo b; {second}; echo c; exit 3", on_stdout=delete)
        result = caught.exception.result
        assert result is not None
        self.assertEqual((result.stdout, result.exit_code, result.missing), ("a\nc\n", 3, 1))

    def test_missing_events_at_the_end_are_counted(self) -> None:
        gate, let_end = self.gate()

        def delete(text: str) -> None:
            let_end()
            wait_for(lambda: self.redis.get(self.key("started")) is None, "end")
            self.redis.delete(self.key("events"))
        with self.assertRaisesRegex(LinesLost, "^2 events are missing"):
            self.execute(f"echo a; {gate}; echo b", on_stdout=delete)

    def test_missing_events_are_noticed_while_others_add_entries(self) -> None:
        gate, let_end = self.gate()
        is_over = threading.Event()

        def flood() -> None:
            while not is_over.is_set():
                pipeline = self.redis.pipeline(transaction=False)
                for _ in range(500):
                    pipeline.xadd(self.key("events"), {"note": "1"}, maxlen=20000)
                pipeline.execute()

        def delete(text: str) -> None:
            let_end()
            wait_for(lambda: self.redis.get(self.key("started")) is None, "end")
            self.redis.delete(self.key("events"))
            floods.extend(self.background(flood) for _ in range(2))
        floods: list[Callable[[], object]] = []
        try:
            join = self.background(lambda: self.execute(f"echo a; {gate}; echo b", on_stdout=delete))
            with self.assertRaisesRegex(LinesLost, "^2 events are missing"):
                join()
        finally:
            is_over.set()
            for end in floods:
                end()

    def test_a_stream_that_begins_again_with_lower_ids(self) -> None:
        gate, let_continue = self.gate()
        self.redis.xadd(self.key("events"), {"note": "1"}, id=f"{int(time.time() * 2000)}-1")

        def delete(text: str) -> None:
            if text == "a\n":
                self.redis.delete(self.key("events"))
                let_continue()
        result = self.execute(f"echo a; {gate}; seq 20000", on_stdout=delete)
        self.assertEqual(result.stdout, "".join(f"{line}\n" for line in ["a", *range(1, 20001)]))


if __name__ == "__main__":
    unittest.main()
