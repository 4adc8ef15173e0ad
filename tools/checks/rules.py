"""The rules, by name. A rule takes a Tree and yields Findings."""

from . import docs, files, hidden_globals, rooms

RULES = {
    "format": files.clang_format,
    "rooms": rooms.room_includes,
    "cycles": rooms.include_cycles,
    "size": files.size,
    "header": files.header_comment,
    "once": files.included_once,
    "globals": hidden_globals.hidden_globals,
    "cases": files.operator_cases,
    "links": docs.links,
}
