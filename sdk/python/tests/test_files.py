"""The file operations."""
from __future__ import annotations

import asyncio
import base64
import json
import os
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from sandbox_agent import AsyncSandbox, FileError, FileNotFound, _files
from support import JOB, SandboxTest


def tree(directory: Path) -> dict[str, bytes | None]:
    """Returns the content of each file, and None for each directory."""
    return {str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
            for path in directory.rglob("*")}


class FilesTest(SandboxTest):
    def setUp(self) -> None:
        super().setUp()
        self.files = self.sandbox.files
        self.local = self.directory / "local"
        self.local.mkdir()

    def hidden(self) -> list[str]:
        return [str(path) for path in self.directory.rglob(".sandbox-*")]

    def test_write_and_read_text(self) -> None:
        path = self.path("new/directory/a.txt")
        self.files.write(path, "héllo\r\n")
        self.assertEqual(Path(path).read_bytes(), "héllo\r\n".encode())
        self.assertEqual(self.files.read(path), "héllo\r\n")
        self.files.write(path, "")
        self.assertEqual(self.files.read(path), "")
        Path(path).write_bytes(b"\xff")
        self.assertEqual(self.files.read_bytes(path), b"\xff")
        with self.assertRaises(FileError):
            self.files.read(path)

    def test_large_binary_files(self) -> None:
        for size in 4 * 1024 * 1024, 9 * 1024 * 1024 + 1, 25 * 1024 * 1024, 26 * 1024 * 1024 + 1:
            with self.subTest(size=size):
                path, content = Path(self.path("large")), os.urandom(size)
                path.write_text("old")
                path.chmod(0o640)
                self.files.write(str(path), content)
                self.assertTrue(path.read_bytes() == content)
                self.assertTrue(self.files.read_bytes(str(path)) == content)
                self.assertEqual(path.stat().st_mode & 0o777, 0o640)
                self.assertEqual(self.hidden(), [])

    def test_a_large_file_never_replaces_a_directory(self) -> None:
        Path(self.path("d")).mkdir()
        with self.assertRaisesRegex(FileError, "not a regular file"):
            self.files.write(self.path("d"), bytes(26 * 1024 * 1024))
        self.execute("true")  # after the step that removes what is not complete
        self.assertEqual(tree(self.work), {"d": None})

    def test_a_write_that_fails_leaves_nothing(self) -> None:
        Path(self.path("d")).mkdir()
        for content in b"", b"x" * (3 * 1024 * 1024):
            with self.assertRaisesRegex(FileError, "is a directory"):
                self.files.write(self.path("d"), content)
        with mock.patch.object(_files, "PIECE_BYTES", 1000), \
                mock.patch("base64.b64encode", side_effect=[b"AAAA", KeyboardInterrupt]):
            with self.assertRaises(KeyboardInterrupt):
                self.files.write(self.path("a"), bytes(3000))
        self.execute("true")
        self.assertEqual(tree(self.work), {"d": None})

    def test_missing_files(self) -> None:
        with self.assertRaisesRegex(FileNotFound, "^file not found: .*nothing"):
            self.files.read("nothing")
        with self.assertRaises(FileNotFound):
            self.files.read_bytes("nothing")
        with self.assertRaises(FileNotFound):
            self.files.edit("nothing", "a", "b")
        with self.assertRaises(FileNotFound):
            self.files.list("nothing")
        with self.assertRaises(FileNotFound):
            self.files.tree("nothing")
        with self.assertRaises(FileNotFound):
            self.files.grep("a", "nothing")
        with self.assertRaises(FileNotFound):
            self.files.download("nothing", self.local / "nothing")
        self.assertEqual(tree(self.local), {})

    def test_exists(self) -> None:
        self.files.write(self.path("a"), "")
        os.mkfifo(self.path("fifo"))
        for name, expected in (("a", True), (".", True), ("fifo", True), ("b", False), ("a/b", False)):
            self.assertEqual(self.files.exists(self.path(name)), expected, name)

    def test_edit(self) -> None:
        self.files.write(self.path("a"), "one two two")
        self.assertIn("Edited", self.files.edit(self.path("a"), "one", "1"))
        with self.assertRaisesRegex(FileError, "matches 2 times"):
            self.files.edit(self.path("a"), "two", "2")
        self.files.edit(self.path("a"), "two", "2", all=True)
        self.assertEqual(self.files.read(self.path("a")), "1 2 2")

    def test_list_and_tree(self) -> None:
        self.files.write(self.path("d/b.sh"), "12345")
        Path(self.path("d/b.sh")).chmod(0o750)
        os.symlink("b.sh", self.path("d/link"))
        os.mkdir(self.path("d/sub"))
        by_name = {entry["path"]: entry for entry in self.files.list(self.path("d"))}
        self.assertEqual(list(by_name), [self.path(f"d/{name}") for name in ("b.sh", "link", "sub")])
        file, link, sub = by_name.values()
        self.assertEqual((file["size_bytes"], file["mode"], file["is_directory"]), (5, "0750", False))
        self.assertEqual(link["link"], "b.sh")
        self.assertTrue(sub["is_directory"])
        self.assertEqual(self.files.tree(self.path("d")), "d/\n├── sub/\n├── b.sh\n└── link")
        self.assertEqual(self.files.tree(self.path("."), depth=1).splitlines()[1:], ["└── d/"])

    def test_grep(self) -> None:
        self.files.write(self.path("a.c"), "one\ntwo\nthree\n")
        self.files.write(self.path(".hidden"), "two\n")
        notes: list[str] = []
        found = self.files.grep("^t.o$", self.path("."), after=1, on_note=notes.append)
        self.assertEqual([(match["line"], match["text"], match["kind"]) for match in found],
                         [(2, "two", "match"), (3, "three", "context")])
        self.assertIn("hidden or ignored", "".join(notes))
        self.assertEqual(len(self.files.grep("two", self.path("."), hidden=True)), 2)
        self.assertEqual(self.files.grep("two", self.path("."), glob="*.py"), [])
        self.assertEqual(len(self.files.grep("t", self.path("a.c"), limit=1)), 1)
        with self.assertRaisesRegex(FileError, "pattern"):
            self.files.grep("(", self.path("."))

    def make_local_tree(self) -> dict[str, bytes | None]:
        (self.local / "tree/empty").mkdir(parents=True)
        (self.local / "tree/sub/deep").mkdir(parents=True)
        (self.local / "tree/sub/deep/é b.bin").write_bytes(os.urandom(2 * 1024 * 1024 + 7))
        (self.local / "tree/run.sh").write_text("#!/bin/sh\necho ran\n")
        (self.local / "tree/run.sh").chmod(0o755)
        (self.local / "tree/-x").write_text("")
        return tree(self.local / "tree")

    def test_upload_and_download_of_a_directory(self) -> None:
        expected = self.make_local_tree()
        os.symlink("/etc/passwd", self.local / "tree/link")
        os.mkfifo(self.local / "tree/fifo")
        left_out = self.files.upload(self.local / "tree", self.path("copy"))
        self.assertEqual(left_out, [str(self.local / "tree/fifo"), str(self.local / "tree/link")])
        self.assertEqual(tree(self.work / "copy"), expected)
        self.assertEqual(self.execute([self.path("copy/run.sh")]).stdout, "ran\n")
        self.assertEqual(self.files.download(self.path("copy"), str(self.local / "back")), [])
        self.assertEqual(tree(self.local / "back"), expected)
        self.assertEqual((self.local / "back/run.sh").stat().st_mode & 0o777, 0o755)
        (self.local / "back/more").write_text("kept")
        self.files.download(self.path("copy"), self.local / "back")
        self.assertEqual(tree(self.local / "back"), {**expected, "more": b"kept"})
        self.assertEqual(self.hidden(), [])

    def test_upload_and_download_of_a_file(self) -> None:
        (self.local / "a").write_bytes(b"\0\xff")
        self.assertEqual(self.files.upload(str(self.local / "a"), self.path("new/b")), [])
        self.assertEqual(self.files.download(self.path("new/b"), self.local / "new/c"), [])
        self.assertEqual((self.local / "new/c").read_bytes(), b"\0\xff")
        with self.assertRaises(OSError):
            self.files.upload(self.local / "nothing", self.path("nothing"))

    def test_a_download_follows_no_link_of_the_sandbox(self) -> None:
        secret = self.directory / "secret"
        secret.mkdir()
        (secret / "key").write_text("secret")
        (self.work / "d").mkdir()
        (self.work / "d/ok").write_text("ok")
        os.symlink(secret, self.work / "d/directory")
        os.symlink(secret / "key", self.work / "d/file")
        os.mkfifo(self.work / "d/fifo")
        (self.work / os.fsdecode(b"d/\xff")).write_text("not UTF-8")
        left_out = self.files.download(self.path("d"), self.local / "copy")
        self.assertEqual(tree(self.local / "copy"), {"ok": b"ok"})
        self.assertEqual(sorted(Path(path).name for path in left_out),
                         ["directory", "fifo", "file", "\ufffd"])

    def test_a_download_follows_no_local_link_out_of_the_directory(self) -> None:
        outside = self.directory / "outside"
        outside.mkdir()
        (outside / "file").write_text("kept")
        (self.work / "d/sub").mkdir(parents=True)
        (self.work / "d/sub/file").write_text("new")
        (self.work / "d/file").write_text("new")
        (self.local / "copy").mkdir()
        os.symlink(outside, self.local / "copy/sub")
        os.symlink(outside / "file", self.local / "copy/file")
        self.assertEqual(self.files.download(self.path("d"), self.local / "copy"), [self.path("d/sub")])
        self.assertEqual(tree(outside), {"file": b"kept"})
        self.assertEqual((self.local / "copy/file").read_text(), "new")
        self.assertFalse((self.local / "copy/file").is_symlink())

    def test_a_download_writes_no_name_that_leads_out_of_the_directory(self) -> None:
        """No file system has such names, but an agent can send them."""
        (self.work / "d").mkdir()
        (self.work / "d/ok").write_text("ok")
        names = "", ".", "..", "a\0b"
        entries: list[Any] = [
            {"path": f"{self.path('d')}/{name}", "is_directory": is_directory, "mode": "0644"}
            for name in names for is_directory in (False, True)]
        entries.append({"path": self.path("d/ok"), "is_directory": False})
        real = _files.AsyncFiles.list

        async def hostile(files: _files.AsyncFiles, path: str) -> list[Any]:
            return entries if path == self.path("d") else await real(files, path)
        with mock.patch.object(_files.AsyncFiles, "list", hostile):
            left_out = self.files.download(self.path("d"), self.local / "in/copy")
        self.assertEqual(len(left_out), 8)
        self.assertEqual(tree(self.local), {"in": None, "in/copy": None, "in/copy/ok": b"ok"})

    def test_what_has_no_place_is_left_out(self) -> None:
        (self.local / "tree").mkdir()
        (self.local / os.fsdecode(b"tree/\xff")).write_text("not UTF-8")
        (self.local / "tree/ok").write_text("ok")
        self.assertEqual(self.files.upload(self.local / "tree", self.path("copy")),
                         [str(self.local / os.fsdecode(b"tree/\xff"))])
        (self.work / "copy/sub").mkdir()
        (self.work / "copy/a").write_text("a")
        (self.local / "back/a").mkdir(parents=True)
        (self.local / "back/sub").write_text("kept")
        left_out = self.files.download(self.path("copy"), self.local / "back")
        self.assertEqual(left_out, [self.path("copy/a"), self.path("copy/sub")])
        self.assertEqual(tree(self.local / "back"), {"a": None, "sub": b"kept", "ok": b"ok"})

    def test_a_large_file_whose_name_ends_with_a_newline(self) -> None:
        Path(self.path("a")).write_text("kept")
        self.files.write(self.path("a\n"), bytes(26 * 1024 * 1024))
        self.assertEqual(Path(self.path("a")).read_text(), "kept")
        self.assertEqual(Path(self.path("a\n")).stat().st_size, 26 * 1024 * 1024)

    def test_text_is_utf8_with_or_without_a_byte_order_mark(self) -> None:
        self.files.write(self.path("a"), "\ufeffé")
        self.assertEqual(self.files.read(self.path("a")), "é")
        self.files.write(self.path("a"), b"\xff")
        with self.assertRaisesRegex(FileError, "is not UTF-8"):
            self.files.read(self.path("a"))

    def test_secrets_that_are_masked_are_an_error(self) -> None:
        """A step of the server has named the secret, which the agent masks from then on."""
        content = b"a secret in a file"
        Path(self.path("a")).write_bytes(content)
        secret = base64.b64encode(content).decode()
        step = {"stepId": "1", "command": "true", "env": {"S": secret}, "secrets": ["S"]}
        self.redis.lpush(self.key("in"), json.dumps(step))
        with self.assertRaisesRegex(FileError, "a secret in the answer is masked"):
            self.files.read(self.path("a"))

    def test_asyncio(self) -> None:
        expected = self.make_local_tree()

        async def run() -> None:
            async with AsyncSandbox(self.url, JOB) as sandbox:
                files = sandbox.files
                await files.write(self.path("a"), "one\n")
                self.assertEqual(await files.read(self.path("a")), "one\n")
                self.assertEqual(await files.read_bytes(self.path("a")), b"one\n")
                await files.edit(self.path("a"), "one", "two")
                self.assertEqual([match["text"] for match in await files.grep("t", self.path("a"))],
                                 ["two"])
                self.assertTrue(await files.exists(self.path("a")))
                await files.upload(self.local / "tree", self.path("copy"))
                await files.download(self.path("copy"), self.local / "back")
                self.assertEqual(len(await files.list(self.path("."))), 2)
                self.assertIn("copy/", await files.tree(self.path(".")))
                with self.assertRaises(FileNotFound):
                    await files.read(self.path("nothing"))
        asyncio.run(run())
        self.assertEqual(tree(self.local / "back"), expected)


if __name__ == "__main__":
    unittest.main()
