"""The result of a command, and the errors of this package."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """How a command ended. `end` says why, and what it used (wire/PROTOCOL.md, "end")."""
    step_id: str
    exit_code: int  # 128 + N after signal N, and -1 if there is none
    stdout_bytes: bytes  # as the command wrote it; empty with keep_output=False
    stderr_bytes: bytes
    end: dict[str, Any]
    duration: float  # in seconds
    missing: int  # events that were deleted before they could be read
    # "missing" and "denials": what the kernel could not enforce of the sandbox policy, and what the
    # policy may have denied (wire/PROTOCOL.md, "Denials"). Empty if there is neither.
    fence: dict[str, Any] = field(default_factory=dict)
    @property
    def stdout(self) -> str:
        """The standard output as text. U+FFFD replaces bytes that are not UTF-8."""
        return self.stdout_bytes.decode("utf-8", "replace")
    @property
    def stderr(self) -> str:
        """The standard error as text, like stdout."""
        return self.stderr_bytes.decode("utf-8", "replace")


class SandboxError(Exception): """The base of all errors."""
class RedisGone(SandboxError): """Redis was away for 15 s, or refused. A pushed step may still run."""
class AgentGone(SandboxError): """No heartbeat. A pushed step is cancelled if an agent comes back."""
class FileError(SandboxError): """A file operation failed. The file that it changes is unchanged."""
class FileNotFound(FileError): """The file or directory does not exist in the sandbox."""


class StepError(SandboxError):
    """A step did not end by itself. `result`, which may be None, has its output so far."""
    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class Rejected(StepError):
    """Nothing ran: the step is invalid, its command is missing, the policy cannot be enforced, or
    the agent is too old."""
class PolicyIgnored(StepError):
    """The step HAS RUN, without its sandbox policy: an older agent took the job over after `run`
    had looked, and took the step. `result` says how the step ended."""
class TimedOut(StepError): """The deadline was exceeded, and the step killed with its descendants."""
class Cancelled(StepError): """The step was cancelled while it waited or ran, or its agent stopped."""
class Interrupted(StepError): """An agent was killed, or Redis lost data: the outcome is unknown."""
class LinesLost(StepError): """The command has ended, but `result.missing` events were not read."""
class CommandFailed(StepError): """The exit code is not 0. Only with check=True."""
