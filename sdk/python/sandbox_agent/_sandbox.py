"""AsyncSandbox and, as its blocking form, Sandbox."""
from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import errors
from ._connection import Callback, Connection, run_blocking
from ._exchange import Exchange
from ._files import AsyncFiles

EXIT_SECONDS = 10  # an agent that has taken a shutdown exits in this time
P = ParamSpec("P")
T = TypeVar("T")

class AsyncSandbox(AbstractAsyncContextManager["AsyncSandbox"]):
    """The sandbox of a job, for any number of tasks of one event loop. Options are those of
    redis.Redis.from_url. Nothing is sent before the first call."""
    _blocks = False

    def __init__(self, url: str, job: str, **options: Any) -> None:
        self._connection = Connection(url, job, self._blocks, options)
        self.files = AsyncFiles(self._connection)

    async def run(self, command: str | Sequence[str], *, cwd: str | None = None,
                  env: Mapping[str, str] | None = None, timeout: int = 600,
                  stdin: str | None = None, secrets: Sequence[str] | None = None,
                  on_stdout: Callback | None = None, on_stderr: Callback | None = None,
                  keep_output: bool = True, check: bool = False, step_id: str | None = None,
                  fence: Mapping[str, Any] | None = None, limits: Mapping[str, Any] | None = None
                  ) -> errors.Result:
        """Runs a command after the steps that already wait, and returns its Result.

        A string is shell text (sh -c), a sequence a program and its arguments. `env` is added to
        the agent's. `timeout` is in whole seconds, from the start of the command. `stdin` is the
        complete input. `secrets` names variables whose values are masked in the output. The
        callbacks get text as it arrives, and the command waits for them; an AsyncSandbox awaits what
        they return. With keep_output=False, the Result has no output. With check=True, an exit code
        other than 0 raises CommandFailed. `step_id` is an ID for cancel(), which no other step of
        the job may have. `fence` is the sandbox policy of the step and `limits` its limits, as in
        wire/PROTOCOL.md. If the agent does not announce them, Rejected is raised. If an older agent
        has nevertheless run the step without its policy, PolicyIgnored is raised.

        If anything raises before the result is there (an error, a callback, KeyboardInterrupt, a
        cancelled task), the command is cancelled: it ends within 12 s, or does not begin."""
        program, *args = ("sh", "-c", command) if isinstance(command, str) else command or ("",)
        step = {"stepId": step_id, "command": program, "args": args, "env": dict(env or {}),
                "workingDirectory": cwd, "timeoutSeconds": timeout, "stdin": stdin, "raw": True,
                "secrets": secrets, "fence": fence, "limits": limits}
        exchange = Exchange(self._connection, step, keep_output, stdout=on_stdout, stderr=on_stderr)
        result, answer = await exchange.run()
        if result.missing:
            raise errors.LinesLost(f"{result.missing} events are missing", result)
        if check and result.exit_code != 0:
            raise errors.CommandFailed(str(answer.get("errorMessage")), result)
        return result

    async def cancel(self, step_id: str) -> None:
        """Ends a step that waits or runs, whose run() raises Cancelled. Other IDs do nothing."""
        await self._connection.send(*self._connection.control(kind="cancel", stepId=step_id))

    async def ping(self) -> bool:
        """Whether the agent is alive: its last heartbeat is at most 10 s old."""
        return await self._connection.has("GET", self._connection.key("heartbeat"))

    async def shutdown(self) -> None:
        """Makes the agent exit after the steps that already wait. Does not wait for that."""
        async def was_done() -> bool:  # an agent that exits deletes its heartbeat
            end = time.monotonic() + EXIT_SECONDS
            while await self.ping() and time.monotonic() < end:
                await self._connection.pause(0.1)
            return time.monotonic() < end
        step = {"kind": "shutdown", "stepId": uuid.uuid4().hex}
        await self._connection.push(step, step["stepId"], was_done)

    async def close(self) -> None:
        """Closes the connections to Redis."""
        await self._connection.close()

    async def __aexit__(self, *error: object) -> None:
        await self.close()

def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
              ) -> Callable[Concatenate[Any, P], T]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(method(self._inside, *args, **kwargs))
    return call

class Files:
    """AsyncFiles, blocking."""
    def __init__(self, inside: AsyncFiles) -> None:
        self._inside = inside
    read, read_bytes = _blocking(AsyncFiles.read), _blocking(AsyncFiles.read_bytes)
    write, edit = _blocking(AsyncFiles.write), _blocking(AsyncFiles.edit)
    list, tree = _blocking(AsyncFiles.list), _blocking(AsyncFiles.tree)
    grep, exists = _blocking(AsyncFiles.grep), _blocking(AsyncFiles.exists)
    upload, download = _blocking(AsyncFiles.upload), _blocking(AsyncFiles.download)

class _Inside(AsyncSandbox):
    _blocks = True

class Sandbox(AbstractContextManager["Sandbox"]):
    """AsyncSandbox, blocking, for any number of threads."""
    def __init__(self, url: str, job: str, **options: Any) -> None:
        self._inside = _Inside(url, job, **options)
        self.files = Files(self._inside.files)
    run, cancel = _blocking(AsyncSandbox.run), _blocking(AsyncSandbox.cancel)
    ping, shutdown = _blocking(AsyncSandbox.ping), _blocking(AsyncSandbox.shutdown)
    close = _blocking(AsyncSandbox.close)

    def __exit__(self, *error: object) -> None:
        self.close()
