"""Rooms: which folder of src/ may include which. docs/architecture.md is the only source."""

import re

from .tree import Finding

TABLE = "docs/architecture.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
ROOM_ROW = re.compile(r"^\|\s*(\w+)\s*\|(.*)\|\s*([^|]*?)\s*\|\s*$")


class TableError(Exception):
    pass


def read_table(tree):
    """{room: rooms it may include} from the table headed `| room | ... | may include |`."""
    if TABLE not in tree.paths:
        raise TableError("the room table is missing")
    rooms, inside = {}, False
    for line in tree.lines(TABLE):
        row = ROOM_ROW.match(line)
        if row and row[1] == "room" and row[3] == "may include":
            inside = True
        elif inside and not line.startswith("|"):
            break
        elif inside and row:
            rooms[row[1]] = row[3]
    if not rooms:
        raise TableError("no table with columns room ... may include")
    allowed = {}
    for room, cell in rooms.items():
        named = set(rooms) - {room} if cell == "all" else set(cell.split()) - {"-"}
        if unknown := named - set(rooms):
            raise TableError(f"room {room} may include {min(unknown)}, which is no room")
        allowed[room] = named
    if cycle := find_cycle(allowed):
        raise TableError("the table itself has a cycle: " + " -> ".join(cycle))
    return allowed


def includes(tree, path):
    """(line number, bracket, included path) of each #include."""
    for number, line in enumerate(tree.lines(path), start=1):
        if found := INCLUDE.match(line):
            yield number, found[1], found[2]


def find_cycle(edges):
    """A list of nodes a -> ... -> a, or None. Iterative depth-first search."""
    finished = set()
    for start in sorted(edges):
        if start in finished:
            continue
        trail, on_trail = [(start, iter(sorted(edges.get(start, ()))))], [start]
        while trail:
            node, following = trail[-1]
            following_node = next(following, None)
            if following_node is None:
                trail.pop()
                on_trail.pop()
                finished.add(node)
            elif following_node in on_trail:
                return on_trail[on_trail.index(following_node):] + [following_node]
            elif following_node not in finished:
                trail.append((following_node, iter(sorted(edges.get(following_node, ())))))
                on_trail.append(following_node)
    return None


def room_includes(tree):
    """A file of src/ includes only the rooms that its row of docs/architecture.md allows."""
    try:
        allowed = read_table(tree)
    except TableError as error:
        yield Finding(TABLE, 0, str(error))
        return
    public = {"api", "cli"}  # the rooms that stand above the public headers
    for path in tree.under("src", endings=(".cc", ".h")):
        parts = path.split("/")
        room = parts[1]
        if len(parts) < 3 or room not in allowed:
            yield Finding(path, 0, f"src/{room} is in no row of {TABLE}")
            continue
        folder = path.rsplit("/", 1)[0]
        for number, bracket, included in includes(tree, path):
            first = included.split("/")[0]
            if first in allowed:
                if first != room and first not in allowed[room]:
                    may = " ".join(sorted(allowed[room])) or "nothing"
                    yield Finding(path, number,
                                  f"room {room} includes {included}; it may include {may}")
            elif first == "parallax" and room not in public:
                yield Finding(path, number, f"room {room} is below the public headers")
            elif bracket == '"' and tree.has(f"{folder}/{included}"):
                yield Finding(path, number, f'write "{folder[4:]}/{included}": room first')
    for path in tree.under("include", "examples", endings=(".cc", ".h")):
        for number, _, included in includes(tree, path):
            if included.split("/")[0] in allowed:
                yield Finding(path, number, f"{path.split('/')[0]}/ uses public headers only")


def include_cycles(tree):
    """No header reaches itself through its includes."""
    edges = {}
    for path in tree.under("src", "include", endings=".h"):
        targets = set()
        for _, _, included in includes(tree, path):
            for candidate in (f"src/{included}", f"include/{included}"):
                if candidate in tree.paths:
                    targets.add(candidate)
        edges[path] = targets
    if cycle := find_cycle(edges):
        yield Finding(cycle[0], 0, "includes itself: " + " -> ".join(cycle[1:]))
