"""No mutable state outside objects: a heuristic over tokens, not a parser of C++.

It knows namespaces, classes, functions and initialisers by the words before their brace, and reports
 - a variable of a namespace that is not const, constexpr or a const pointer,
 - a `static` or `thread_local` variable of a function, and a static data member, likewise.
Where one is really needed, say why on its line: `// hidden-global ok: REASON`.
"""

import re

from .tree import Finding

ALLOWED = re.compile(r"//\s*hidden-global ok:\s*\S.{5,}")
TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)"""
    r"""|(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)")"""
    r"""|(?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>\.?\d(?:[\w.']|[eEpP][+-])*)"""
    r"""|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<sign>::|->|\[\[|\]\]|.)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE)

NAMESPACE, CLASS, ENUM, FUNCTION, VALUE = "namespace", "class", "enum", "function", "value"
CLASS_WORDS = {"class", "struct", "union"}
NOT_VARIABLES = {"using", "typedef", "friend", "static_assert", "namespace", "concept", "extern",
                 "operator", "goto", "return", "asm", "requires"}
ACCESS = {"public", "private", "protected"}


def tokens(text):
    """(token, line number) without comments, preprocessor lines and the inside of strings."""
    line = 1
    for match in TOKEN.finditer(text):
        if not match["skip"]:
            yield ('""' if match["raw"] or match["string"] else match[0]), line
        line += match[0].count("\n")


def without_brackets(statement, opening, closing):
    """Drops balanced opening...closing groups, leaving nothing in their place."""
    kept, depth = [], 0
    for token in statement:
        if token == opening:
            depth += 1
        elif token == closing and depth:
            depth -= 1
        elif not depth:
            kept.append(token)
    return kept


def without_templates(statement):
    """Drops `<...>` after a name, which is how template arguments (not comparisons) look."""
    kept, depth = [], 0
    for token in statement:
        if token == "<" and (depth or (kept and re.match(r"\w", kept[-1]))):
            depth += 1
        elif token == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(token)
    return kept


def declarator(statement):
    """The part of a statement before its initialiser, attributes and template arguments gone."""
    plain = without_templates(without_brackets(statement, "[[", "]]"))
    for index, token in enumerate(plain):
        if token in ("=", "{"):
            return plain[:index]
    return plain


def is_function_like(head):
    """Whether the declarator is that of a function, a macro call or a cast, not of a variable."""
    if "(" not in head:
        return False
    at = head.index("(")
    inside = head[at + 1] if at + 1 < len(head) else ")"
    if inside == "*":  # a pointer to function or array: int (*f)(int)
        return False
    if inside == '""' or re.match(r"\.?\d", inside) or inside in ("true", "false", "nullptr"):
        return at < 2  # MACRO("x") is a call; Type name(1) is a variable
    return True


def is_immutable(head):
    if "constexpr" in head or "consteval" in head:
        return True
    if "const" not in head:
        return False
    # `const T* p` may be pointed elsewhere; `T* const p` and `const T* const p` may not.
    stars = [i for i, token in enumerate(head) if token == "*"]
    return not stars or "const" in head[stars[-1]:]


def variable_of(statement):
    """The name of the mutable variable that a statement defines, or None."""
    if not statement or statement[0] in (",", ":", ")"):
        return None
    if NOT_VARIABLES & set(statement) or statement[0] in CLASS_WORDS | {"enum", "template"}:
        if statement[0] == "template" and not NOT_VARIABLES & set(statement):
            return variable_of(without_templates(statement)[1:])
        return None
    head = declarator(statement)
    if is_function_like(head) or is_immutable(head):
        return None
    if "(" in head:  # int (*f)(int), Type name(1)
        at = head.index("(")
        return head[at + 2] if head[at + 1] == "*" and at + 2 < len(head) else head[at - 1]
    words = [t for t in without_brackets(head, "[", "]") if re.match(r"[A-Za-z_]", t)]
    declared_class = "}" in head  # struct {...} name;
    return words[-1] if len(words) > 1 or (declared_class and words) else None


def opens(statement, scope):
    """What kind of scope the brace after `statement` opens, inside `scope`."""
    words = set(statement)
    if scope in (FUNCTION, VALUE, ENUM):
        return FUNCTION if scope == FUNCTION else VALUE
    if "namespace" in words or (statement[:1] == ["extern"] and len(statement) == 2):
        return NAMESPACE
    plain = without_templates(without_brackets(statement, "[[", "]]"))
    if "operator" in words:
        return FUNCTION
    if "=" in plain:
        return VALUE
    if "enum" in plain:
        return ENUM
    if CLASS_WORDS & set(plain) and not is_function_like(plain):
        return CLASS
    if not plain or "(" in plain or plain[0] in (",", ":"):
        return FUNCTION
    return VALUE  # Type name{...}


def static_in_function(body):
    """The names of mutable statics in the tokens of one statement of a function's body."""
    for index, token in enumerate(body):
        if token in ("static", "thread_local"):
            return variable_of([t for t in body[index:] if t not in ("static", "thread_local")])
    return None


def scan(text):
    """(line, name) of each mutable variable that is not an object's or a call's own."""
    scopes, statement, first_line = [NAMESPACE], [], 0
    saved = []  # statements interrupted by a brace of their own: initialisers, classes
    for token, line in tokens(text):
        scope = scopes[-1]
        if not statement:
            first_line = line
        if token == "{":
            kind = opens(statement, scope)
            if kind == FUNCTION and scope == FUNCTION and static_in_function(statement):
                kind = VALUE  # static T x{...} or = {...}: ends at its semicolon
            saved.append((statement, first_line))
            scopes.append(kind)
            statement = []
        elif token == "}":
            if len(scopes) == 1:
                statement = []
                continue
            kind = scopes.pop()
            before, before_line = saved.pop()
            if kind in (VALUE, CLASS, ENUM):
                marker = ["{", "}"] if kind == VALUE else ["}"]
                statement, first_line = before + marker, before_line
            else:
                statement = []
        elif token == ";":
            name = None
            if scope == FUNCTION:
                name = static_in_function(statement)
            elif scope == NAMESPACE:
                name = variable_of(after_class(statement))
            elif scope == CLASS and "static" in statement:
                name = variable_of([t for t in statement if t not in ("static", "inline")])
            if name:
                yield first_line, name
            statement = []
        elif token == ":" and scope in (CLASS, FUNCTION) and statement[-1:] and (
                statement[-1] in ACCESS or statement[0] in ("case", "default")):
            statement = []
        else:
            statement.append(token)


def after_class(statement):
    """`struct S {...} name` becomes `} name`, keeping a leading const; other statements stay."""
    if "}" not in statement or not statement or "=" in statement[:statement.index("}")]:
        return statement
    at = statement.index("}")
    if statement[at - 1:at] == ["{"]:  # the marker of an initialiser
        return statement
    qualifiers = [t for t in statement[:at] if t in ("const", "constexpr")]
    return qualifiers + statement[at:] if statement[at + 1:] else []


def hidden_globals(tree):
    """No mutable namespace variable, static local, static member or thread_local."""
    for path in tree.under("src", "include", endings=(".cc", ".h")):
        lines = tree.lines(path)
        for line, name in scan(tree.text(path)):
            if not ALLOWED.search(lines[line - 1]):
                yield Finding(path, line, f"mutable `{name}` outlives its function: pass it in")
