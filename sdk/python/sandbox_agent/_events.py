"""The events of one step: a state machine without I/O."""
from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

ACKNOWLEDGE_EVENTS, ACKNOWLEDGE_BYTES, ACKNOWLEDGE_SECONDS = 1000, 1024 * 1024, 0.25


def parse_object(text: bytes | None) -> dict[str, Any]:
    """Parses a JSON object. Returns an empty one for any other text."""
    try:
        value = json.loads(text or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _output(event: Mapping[str, Any]) -> bytes:
    line = str(event.get("line", ""))
    if "encoding" in event:
        try:
            return base64.b64decode(line)
        except ValueError:
            return b""
    return (line + ("" if event.get("partial") else "\n")).encode("utf-8", "replace")


def _entry_key(entry_id: bytes) -> tuple[int, ...]:
    return tuple(int(part) for part in entry_id.split(b"-"))


class Events:
    """Knows which entries of the stream were read, how many events are missing, and what to
    acknowledge. Times are in seconds, of a clock that never goes back."""

    def __init__(self, step_id: str, now: float) -> None:
        self._step_id = step_id
        self.position = b"0-0"  # the last entry that was read
        self.seq = 0  # of the last event; 0 until the step has started
        self.missing = self._acknowledged = self._unread_bytes = 0
        self.lacks_policy = False  # the step has started, and its agent applies no sandbox policy
        self._acknowledged_at = now  # so a short step is acknowledged once, at its end

    def take(self, entries: Iterable[tuple[bytes, Mapping[bytes, bytes] | None]]
             ) -> list[tuple[str, bytes]]:
        """Takes entries, and ignores those of other steps and programs. Returns the output in
        order, as ("stdout" or "stderr", bytes), adjacent pieces of one stream joined."""
        pieces: list[tuple[str, list[bytes]]] = []
        for self.position, fields in entries:
            event = parse_object((fields or {}).get(b"data"))
            kind, seq = event.get("kind"), event.get("seq")
            if event.get("stepId") != self._step_id or not isinstance(seq, int) or seq <= self.seq:
                continue
            self.missing += seq - self.seq - 1
            self.seq = seq
            if kind == "started":
                self.lacks_policy = "fence" not in event
            if kind == "stdout" or kind == "stderr":
                if not pieces or pieces[-1][0] != kind:
                    pieces.append((kind, []))
                pieces[-1][1].append(_output(event))
                self._unread_bytes += len(pieces[-1][1][-1])
        return [(kind, b"".join(outputs)) for kind, outputs in pieces]

    def rewind(self, newest: bytes) -> bool:
        """Goes back to the beginning of the stream if its newest entry is older than the last one
        that was read: it was deleted, or Redis has lost it. Returns whether that is so."""
        is_new = _entry_key(newest) < _entry_key(self.position)
        self.position = b"0-0" if is_new else self.position
        return is_new

    def has_reached(self, entry_id: bytes) -> bool:
        """Whether this entry was read, or a newer one."""
        return _entry_key(self.position) >= _entry_key(entry_id)

    def is_due(self, now: float) -> bool:
        """Whether to acknowledge now."""
        return self.seq > self._acknowledged and (
            self.seq - self._acknowledged >= ACKNOWLEDGE_EVENTS
            or self._unread_bytes >= ACKNOWLEDGE_BYTES
            or now - self._acknowledged_at >= ACKNOWLEDGE_SECONDS)

    def acknowledge(self, now: float) -> None:
        self._acknowledged, self._unread_bytes, self._acknowledged_at = self.seq, 0, now

    def message(self) -> dict[str, Any]:
        """Returns the control message that acknowledges, or repeats it as a sign of life."""
        return {"kind": "read", "stepId": self._step_id, "seq": self._acknowledged}
