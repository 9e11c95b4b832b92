"""The state machine of events."""
from __future__ import annotations

import base64
import json
import unittest
from typing import Any

from sandbox_agent._events import Events


def entry(number: int, seq: Any, line: str = "", kind: str = "stdout", step: str = "s", **more: Any
          ) -> tuple[bytes, dict[bytes, bytes]]:
    event = {"stepId": step, "kind": kind, "seq": seq, "line": line, **more}
    return b"1-%d" % number, {b"data": json.dumps(event).encode()}


def raw(number: int, seq: int, data: bytes, kind: str = "stdout") -> tuple[bytes, dict[bytes, bytes]]:
    return entry(number, seq, base64.b64encode(data).decode(), kind, encoding="base64")


class EventsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.events = Events("s", now=100)

    def test_joins_adjacent_output_and_keeps_the_order(self) -> None:
        pieces = self.events.take([
            entry(1, 1, "sh", "started"), raw(2, 2, b"\xc3"), raw(3, 3, b"\xa9"),
            raw(4, 4, b"!", "stderr"), raw(5, 5, b"\0")])
        self.assertEqual(pieces, [("stdout", "é".encode()), ("stderr", b"!"), ("stdout", b"\0")])
        self.assertEqual((self.events.position, self.events.seq), (b"1-5", 5))

    def test_ends_lines_of_text_unless_they_are_partial(self) -> None:
        pieces = self.events.take([entry(1, 1, "a", partial=True), entry(2, 2, "b"), entry(3, 3, "c")])
        self.assertEqual(pieces, [("stdout", b"ab\nc\n")])

    def test_counts_missing_events_and_ignores_repeated_ones(self) -> None:
        self.events.take([entry(1, 2), entry(2, 5), entry(3, 3), entry(4, 5), entry(5, 6)])
        self.assertEqual(self.events.missing, 1 + 2)
        self.assertEqual(self.events.seq, 6)

    def test_ignores_entries_of_others(self) -> None:
        texts = b"", b"text", b"\xff", b"[]", b"null", b"{}", b"[" * 100000
        foreign: list[tuple[bytes, Any]] = [(b"1-1", None), (b"1-2", {}), (b"1-3", {b"note": b"1"})]
        foreign += [(b"1-4", {b"data": text}) for text in texts]
        foreign += [entry(20, "1", "x"), entry(21, None, "x"), entry(22, 1, "x", step="t")]
        self.assertEqual(self.events.take(foreign), [])
        self.assertEqual((self.events.position, self.events.seq, self.events.missing), (b"1-22", 0, 0))

    def test_base64_that_is_invalid_is_no_output(self) -> None:
        self.assertEqual(self.events.take([entry(1, 1, "a", encoding="base64"), raw(2, 2, b"b")]),
                         [("stdout", b"b")])

    def test_acknowledges_by_number_size_and_time(self) -> None:
        self.assertFalse(self.events.is_due(now=1000))
        self.events.take([entry(1, 1)])
        self.assertFalse(self.events.is_due(now=100.2))
        self.assertTrue(self.events.is_due(now=100.25))
        self.events.acknowledge(now=100.25)
        self.assertEqual(self.events.message(), {"kind": "read", "stepId": "s", "seq": 1})
        self.assertFalse(self.events.is_due(now=1000))
        self.events.take([entry(i, i) for i in range(2, 1001)])
        self.assertFalse(self.events.is_due(now=100.3))
        self.events.take([entry(1001, 1001)])
        self.assertTrue(self.events.is_due(now=100.3))
        self.events.acknowledge(now=100.3)
        self.events.take([raw(1002, 1002, bytes(1024 * 1024))])
        self.assertTrue(self.events.is_due(now=100.3))

    def test_a_sign_of_life_does_not_acknowledge_what_is_being_delivered(self) -> None:
        self.events.take([entry(1, 1)])
        self.assertEqual(self.events.message()["seq"], 0)

    def test_reads_a_stream_that_begins_again(self) -> None:
        self.events.take([(b"100-9", {})])
        self.assertFalse(self.events.rewind(b"100-9"))
        self.assertFalse(self.events.rewind(b"100-10"))
        self.assertEqual(self.events.position, b"100-9")
        self.assertTrue(self.events.rewind(b"99-50"))
        self.assertEqual(self.events.position, b"0-0")


if __name__ == "__main__":
    unittest.main()
