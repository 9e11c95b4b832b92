"""The files of a sandbox."""
from __future__ import annotations

import base64
import io
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, List, TypedDict, TypeVar, Union

from ._connection import Callback, Connection
from ._exchange import STOPPED, Exchange
from .errors import FileError, FileNotFound

READ_BYTES, PIECE_BYTES = 4 * 1024 * 1024, 1024 * 1024  # of one readBytes, and one writeBytes
PART_BYTES = 25 * PIECE_BYTES  # the largest file that writeBytes makes
APPEND = 'umask 077; cat -- "$1" >>"$2" && rm -f -- "$1"'
RENAME = """t=$(readlink -f -- "$2" && echo x) && t=${t%??} || t=$2
[ ! -e "$t" ] || [ -f "$t" ] || { echo "not a regular file: $2" >&2; exit 1; }
chmod "$(stat -c %a -- "$t" 2>/dev/null || echo 644)" "$1" && mv -f -- "$1" "$t\""""
NOT_FOUND = ("file not found", "directory not found", "path not found")
T = TypeVar("T")
LocalPath = Union[str, "os.PathLike[str]"]
Entry = TypedDict("Entry", {"path": str, "is_directory": bool, "size_bytes": int, "mtime": str,
                            "mode": str, "link": str}, total=False)
Match = TypedDict("Match", {"path": str, "line": int, "text": str, "kind": str}, total=False)


class AsyncFiles:
    """A relative path in the sandbox begins where steps start: at /work, if that exists."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def _ask(self, kind: str, path: str, parse: Callable[[str], T],
                   on_note: Callback | None = None, **fields: Any) -> T:
        exchange = Exchange(self._connection, {"kind": kind, "path": path, **fields}, stderr=on_note)
        result, answer = await exchange.run()
        message = str(answer.get("errorMessage"))
        if result.exit_code != 0:
            raise (FileNotFound if message.startswith(NOT_FOUND) else FileError)(message)
        try:
            return parse(answer.get("outputContent") or "")
        except ValueError as error:
            raise FileError(f"a secret in the answer is masked: {path}") from error

    async def _execute(self, command: str, *args: str) -> None:
        step = {"command": command, "args": args}
        result, answer = await Exchange(self._connection, step).run()
        if result.exit_code != 0:
            raise FileError(str(answer.get("errorMessage")))

    async def _fetch(self, path: str, take: Callable[[bytes], object]) -> None:
        def parse(answer: str) -> bytes:
            return base64.b64decode(json.loads(answer)["content"], validate=True)
        offset, piece = 0, bytes(READ_BYTES)
        while len(piece) == READ_BYTES:
            piece = await self._ask("readBytes", path, parse, offset=offset)
            take(piece)
            offset += len(piece)

    async def read_bytes(self, path: str) -> bytes:
        """Returns the content of a file of any size."""
        content = bytearray()
        await self._fetch(path, content.extend)
        return bytes(content)

    async def read(self, path: str) -> str:
        """Returns the text of a file of any size, without a byte order mark. Other bytes than UTF-8
        raise FileError."""
        content = await self.read_bytes(path)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileError(f"is not UTF-8: {path}") from error

    async def exists(self, path: str) -> bool:
        """Whether the path names a file, a directory, or anything else."""
        try:
            await self._ask("readBytes", path, str, length=1)
        except FileError as error:  # "is a directory", for example
            return not isinstance(error, FileNotFound)
        return True

    async def write(self, path: str, content: str | bytes) -> None:
        """Writes a file of any size, and its directories. Others see the old content or the new one.
        More than 25 MiB need sh, cat, chmod, mv and rm in the sandbox, and belong to its user."""
        await self._put(path, io.BytesIO(content.encode() if isinstance(content, str) else content))

    async def _put(self, path: str, file: BinaryIO) -> None:
        token = uuid.uuid4().hex
        hidden = f"{path[:path.rfind('/') + 1]}.sandbox-{token}"
        part, whole, size, has_whole = f"{hidden}.part", f"{hidden}.whole", 0, False
        try:
            following = file.read(PIECE_BYTES)
            while following or (size == 0 and not has_whole):
                piece, following = following, file.read(PIECE_BYTES)
                renames = not following and not has_whole
                await self._ask("writeBytes", part, str, content=base64.b64encode(piece).decode(),
                                append=size > 0, renameTo=path if renames else None)
                if renames:
                    return
                size += len(piece)
                if size == PART_BYTES or not following:
                    await self._execute("sh", "-c", APPEND, "sh", part, whole)
                    size, has_whole = 0, True
            await self._execute("sh", "-c", RENAME, "sh", whole, path)
        except STOPPED:  # the next step is not awaited, and may run twice
            remove = {"command": "rm", "args": ["-f", "--", part, whole], "replyTo": token}
            step = json.dumps({"stepId": token, **remove})
            await self._connection.send_quietly(("LPUSH", self._connection.key("in"), step))
            raise

    async def edit(self, path: str, old: str, new: str, *, all: bool = False) -> str:
        """Replaces a text that occurs once or, with `all`, at least once. Returns a description."""
        edits = [{"oldString": old, "newString": new, "replaceAll": all}]
        return await self._ask("editFile", path, str, edits=edits)

    async def tree(self, path: str = ".", depth: int = 4) -> str:
        """Draws a directory, with up to 1,000 entries."""
        return await self._ask("directoryTree", path, str, maxDepth=depth)

    async def grep(self, pattern: str, path: str = ".", *, glob: str | None = None,
                   limit: int = 1000, before: int = 0, after: int = 0, hidden: bool = False,
                   on_note: Callback | None = None) -> List[Match]:
        """Returns the lines of a file or a directory that match (PCRE2), with lines of context.
        Leaves out hidden and ignored files unless `hidden` is set. `on_note` gets what it missed."""
        return await self._ask(
            "grep", path, json.loads, on_note, pattern=pattern, glob=glob, headLimit=limit,
            contextBefore=before, contextAfter=after, searchHidden=hidden, prefixPaths=True)

    async def upload(self, source: LocalPath, path: str) -> List[str]:
        """Copies a local file or directory to this path, into a directory that exists. Executable
        files stay executable. Returns what was left out of a directory: links, special files, and
        names that are not UTF-8."""
        root, left_out, empty, executable = Path(source), [], [], []
        for local in [root, *sorted(root.rglob("*"))]:
            remote = "/".join((path.rstrip("/"), *local.relative_to(root).parts))
            if local != root and (local.is_symlink() or not (local.is_file() or local.is_dir())
                                  or remote != remote.encode("utf-8", "replace").decode()):
                left_out.append(str(local))
            elif local.is_dir():
                empty += [] if any(local.iterdir()) else [remote]
            else:
                with local.open("rb") as file:
                    await self._put(remote, file)
                executable += [remote] if os.access(local, os.X_OK) else []
        for words, paths in (("mkdir", "-p"), empty), (("chmod", "+x"), executable):
            for first in range(0, len(paths), 200):
                await self._execute(*words, "--", *paths[first:first + 200])
        return left_out

    async def download(self, path: str, destination: LocalPath) -> List[str]:
        """Copies a file or directory to this local path, into a directory that exists, with modes.
        Returns what was left out of a directory: symbolic links, what cannot be read, files whose
        local name is a directory's and vice versa, and names that are not UTF-8 or would lead out."""
        local, left_out = Path(destination), []
        try:
            entries = await self.list(path)
        except FileNotFound:
            raise
        except FileError:  # "is a regular file", for example
            return await self._save(path, local)
        local.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            remote, is_directory = entry["path"], entry["is_directory"]
            name = remote.rpartition("/")[2]
            target = local / name
            has_directory = target.is_dir() and not target.is_symlink()
            try:
                if name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name \
                        or "\ufffd" in name or "link" in entry or (
                            os.path.lexists(target) and is_directory != has_directory):
                    left_out.append(remote)
                elif is_directory:
                    left_out += await self.download(remote, target)
                else:
                    await self._save(remote, target, entry.get("mode", ""))
            except FileError:
                left_out.append(remote)
        return left_out

    async def _save(self, path: str, local: Path, mode: str = "") -> List[str]:
        local.parent.mkdir(parents=True, exist_ok=True)
        hidden = local.with_name(f".sandbox-{uuid.uuid4().hex}")
        try:
            with hidden.open("xb") as file:
                await self._fetch(path, file.write)
            hidden.chmod(int(mode, 8) & 0o777 if mode else hidden.stat().st_mode)
            hidden.replace(local)  # replaces a link instead of following it
        finally:
            hidden.unlink(missing_ok=True)
        return []

    async def list(self, path: str = ".") -> List[Entry]:
        """Returns all entries of a directory, or as many as fit into 16 MiB."""
        return await self._ask("listFiles", path, json.loads, allEntries=True)
