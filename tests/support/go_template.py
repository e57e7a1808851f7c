"""Render the subset of Go templates that the Helm chart uses; anything else raises ``TemplateError``."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

_ACTION = re.compile(r"\{\{(-(?=\s))?\s*(.*?)\s*((?<=\s)-)?\}\}", re.DOTALL)
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[()|,]|:=|\$?[A-Za-z_]\w*|\$|\.[\w.]*|-?\d+|\S)')


class TemplateError(Exception):
    """The template uses what this subset does not have, or calls ``fail`` or ``required``."""


@dataclass
class _Block:
    """``if``, ``range``, ``with`` or ``define``: branches of (expression, nodes)."""

    kind: str
    branches: list[tuple[str, list["_Node"]]] = field(default_factory=list)


_Node = str | tuple[str, str] | _Block
"""A text, an action of a kind (``print``) with its expression, or a block."""


class Templates:
    """Named templates. ``render`` gives the text of one of them."""

    def __init__(self, sources: Mapping[str, str], files: Mapping[str, str]) -> None:
        self._named: dict[str, list[_Node]] = {}
        self._files = files
        for name, source in sources.items():
            self._named[name] = self._parse(source)

    def render(self, name: str, dot: Mapping[str, Any]) -> str:
        """Return the text of a template for a context such as ``{"Values": …, "Release": …, "Chart": …}``."""
        return self._text(self._named[name], dot, {"$": dot})

    def _parse(self, source: str) -> list[_Node]:
        root = _Block("root", [("", [])])
        stack = [root]
        for piece in _pieces(source):
            if isinstance(piece, str):
                stack[-1].branches[-1][1].append(piece)
                continue
            word, _, rest = piece[1].partition(" ")
            if word in ("if", "range", "with", "define"):
                block = _Block(word, [(rest, [])])
                stack[-1].branches[-1][1].append(block)
                stack.append(block)
            elif word == "else":
                stack[-1].branches.append((rest.removeprefix("if").strip(), []))
            elif word == "end":
                self._close(stack)
            else:
                stack[-1].branches[-1][1].append(piece)
        if len(stack) != 1:
            raise TemplateError(f"no end of {stack[-1].kind} {stack[-1].branches[0][0]}")
        return root.branches[0][1]

    def _close(self, stack: list[_Block]) -> None:
        block = stack.pop()
        if not stack:
            raise TemplateError("an end without a beginning")
        if block.kind == "define":
            stack[-1].branches[-1][1].remove(block)
            self._named[json.loads(block.branches[0][0])] = block.branches[0][1]

    def _text(self, nodes: list[_Node], dot: Any, variables: Mapping[str, Any]) -> str:
        return "".join(self._node(node, dot, variables) for node in nodes)

    def _node(self, node: _Node, dot: Any, variables: Mapping[str, Any]) -> str:
        if isinstance(node, str):
            return node
        if isinstance(node, tuple):
            return _printed(self._value(node[1], dot, variables))
        if node.kind == "range":
            return "".join(self._text(node.branches[0][1], *each) for each in self._each(node, dot, variables))
        for expression, nodes in node.branches:
            value = self._value(expression, dot, variables) if expression else True
            if value:
                return self._text(nodes, value if node.kind == "with" and expression else dot, variables)
        return ""

    def _each(self, block: _Block, dot: Any, variables: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        if len(block.branches) > 1:
            raise TemplateError("range with else")
        names, assigned, expression = block.branches[0][0].rpartition(":=")
        value = self._value(expression, dot, variables)
        items = sorted(value.items()) if isinstance(value, dict) else enumerate(value or ())
        for key, item in items:
            given = dict(zip([name.strip() for name in names.split(",")], (key, item), strict=True)) if assigned else {}
            yield item, {**variables, **given}

    def _value(self, expression: str, dot: Any, variables: Mapping[str, Any]) -> Any:
        tokens = [token for token in _TOKEN.findall(expression) if token]
        value = _Expression(tokens, dot, variables, self._functions(dot)).pipeline()
        if tokens:
            raise TemplateError(f"not understood: {expression}")
        return value

    def _functions(self, dot: Any) -> Mapping[str, Callable[..., Any]]:
        return {**FUNCTIONS, "include": lambda name, context: self.render(name, context), ".Files.Get": self._files.get}


class _Expression:
    """Evaluate one pipeline from its tokens, which are taken from the front of the list."""

    def __init__(
        self,
        tokens: list[str],
        dot: Any,
        variables: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._tokens, self._dot, self._variables, self._functions = tokens, dot, variables, functions

    def pipeline(self) -> Any:
        value = self._command([])
        while self._tokens and self._tokens[0] == "|":
            self._tokens.pop(0)
            value = self._command([value])
        return value

    def _command(self, piped: list[Any]) -> Any:
        first = self._tokens[0]
        if first in self._functions:
            self._tokens.pop(0)
            arguments = []
            while self._tokens and self._tokens[0] not in ("|", ")"):
                arguments.append(self._operand())
            return self._functions[first](*arguments, *piped)
        if piped:
            raise TemplateError(f"{first} is no function of this subset")
        return self._operand()

    def _operand(self) -> Any:
        token = self._tokens.pop(0)
        if token == "(":
            value = self.pipeline()
            if not self._tokens or self._tokens.pop(0) != ")":
                raise TemplateError("a parenthesis is not closed")
            return value
        if token.startswith('"'):
            return json.loads(token)
        if token.startswith("."):
            return _field(self._dot, token)
        if token.startswith("$") and token in self._variables:
            value = self._variables[token]
            is_path = self._tokens and self._tokens[0].startswith(".") and token == "$"
            return _field(value, self._tokens.pop(0)) if is_path else value
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if token in ("true", "false"):
            return token == "true"
        raise TemplateError(f"{token} is not in this subset")


def _pieces(source: str) -> Iterator[str | tuple[str, str]]:
    """Yield texts and actions; a dash in an action takes the white space beside it."""
    at, trims = 0, False
    for match in _ACTION.finditer(source):
        text = source[at : match.start()]
        text = text.lstrip() if trims else text
        yield text.rstrip() if match[1] else text
        yield ("print", match[2])
        at, trims = match.end(), bool(match[3])
    yield source[at:].lstrip() if trims else source[at:]


def _field(value: Any, path: str) -> Any:
    for name in path.split(".")[1:]:
        if not name:
            continue
        if not isinstance(value, Mapping):
            raise TemplateError(f"{path} of a value without fields")
        if name not in value:
            raise TemplateError(f"{path}: there is no {name}; give it a default in values.yaml")
        value = value[name]
    return value


def _printed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, dict | list):
        raise TemplateError(f"printed without toYaml: {value}")
    return str(value)


def _indent(spaces: int, text: str) -> str:
    return "\n".join(" " * spaces + line for line in text.split("\n"))


def _printf(form: str, *values: Any) -> str:
    if re.sub("%[sv]", "", form).count("%"):
        raise TemplateError(f"printf {form!r}")
    return re.sub("%v", "%s", form) % tuple(map(_printed, values))


def _required(message: str, value: Any) -> Any:
    return value or _fail(message)


def _fail(message: str) -> Any:
    raise TemplateError(message)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "or": lambda *values: next((value for value in values if value), values[-1]),
    "not": lambda value: not value,
    "contains": lambda part, text: part in text,
    "default": lambda otherwise, value: value or otherwise,
    "fail": _fail,
    "indent": _indent,
    "printf": _printf,
    "quote": lambda value: json.dumps(_printed(value), ensure_ascii=False),
    "required": _required,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "toJson": lambda value: json.dumps(value, ensure_ascii=False),
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).removesuffix("\n"),
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda length, text: text[:length],
}
