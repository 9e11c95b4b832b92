"""Runs commands and moves files in the sandbox of an agent: Sandbox, AsyncSandbox."""
from ._files import Entry, Match
from ._sandbox import AsyncSandbox, Sandbox
from .errors import (AgentGone, Cancelled, CommandFailed, FileError, FileNotFound, Interrupted,
                     LinesLost, PolicyIgnored, RedisGone, Rejected, Result, SandboxError,
                     StepError, TimedOut)

__all__ = ["AgentGone", "AsyncSandbox", "Cancelled", "CommandFailed", "Entry", "FileError",
           "FileNotFound", "Interrupted", "LinesLost", "Match", "PolicyIgnored", "RedisGone",
           "Rejected", "Result", "Sandbox", "SandboxError", "StepError", "TimedOut"]
