"""The files that the rules read, from the repository or from memory (self-test)."""

import dataclasses
import os
import pathlib
import subprocess


@dataclasses.dataclass(frozen=True)
class Finding:
    """One breach of a rule; `line` counts from 1, 0 means the file as a whole."""

    path: str
    line: int
    message: str
    warning: bool = False

    def text(self, rule):
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {rule}: {'warning: ' if self.warning else ''}{self.message}"


NOT_SOURCE = (".git/", ".venv/", ".venv-peers/", "build/", "models/generated/")


def walk(root):
    for folder, _, names in os.walk(root):
        for name in names:
            if not name.endswith(".pyc"):
                yield (pathlib.Path(folder) / name).relative_to(root).as_posix()


class Tree:
    """Paths relative to the root, with '/' between parts, and their text."""

    def __init__(self, files, root=None):
        self._texts = dict(files)
        self.root = root
        self.paths = sorted(self._texts)

    @staticmethod
    def of_repository(root):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=root, capture_output=True)
        if listing.returncode == 0:
            paths = {p for p in listing.stdout.decode().split("\0") if p and (root / p).is_file()}
        else:  # an unpacked archive, or a repository of another user
            paths = {p for p in walk(root) if not p.startswith(NOT_SOURCE)}
        return Tree(dict.fromkeys(paths), root)

    def text(self, path):
        if self._texts[path] is None:
            data = (self.root / path).read_bytes()
            self._texts[path] = data.decode("utf-8", errors="replace")
        return self._texts[path]

    def lines(self, path):
        return self.text(path).splitlines()

    def has(self, path):
        """Whether a link to `path` (a file or a folder) leads somewhere."""
        path = os.path.normpath(path)
        return path in self._texts or any(p.startswith(path + "/") for p in self._texts)

    def under(self, *folders, endings):
        """Paths inside any of `folders` ("" is the root) whose name ends in one of `endings`."""
        for path in self.paths:
            inside = any(not f or path.startswith(f + "/") for f in folders)
            if inside and pathlib.PurePosixPath(path).name.endswith(endings):
                yield path
