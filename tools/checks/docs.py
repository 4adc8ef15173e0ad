"""Links of the Markdown pages lead somewhere."""

import os
import re

from .tree import Finding

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+)\)|!\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")


def prose(lines):
    """(line number, text) outside fenced blocks, code spans blanked."""
    fenced = False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`", "", line)


def anchors(lines):
    """The names that headings get on the usual hosts: lower case, spaces to dashes."""
    names = set()
    fenced = False
    for line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and (heading := HEADING.match(line)):
            text = re.sub(r"[^\w\- ]", "", heading[1].lower())
            names.add(text.replace(" ", "-"))
    return names


def links(tree):
    """Each relative link of a Markdown page names a file (and heading) that exists."""
    for path in tree.under("", endings=".md"):
        folder = os.path.dirname(path)
        for number, text in prose(tree.lines(path)):
            for found in LINK.finditer(text):
                target = found[1] or found[2]
                if re.match(r"[a-z][a-z+.-]*:", target):
                    continue
                name, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(folder, name)) if name else path
                if full.startswith("..") or not tree.has(full):
                    yield Finding(path, number, f"link to {target}: no such file")
                elif anchor and full.endswith(".md") and anchor not in anchors(tree.lines(full)):
                    yield Finding(path, number, f"link to {target}: no such heading")
