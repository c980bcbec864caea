"""A small HTML tree: parse a page of the dashboard, change it, and write it again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from typing import Self

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
"""Elements without content and end tag."""


@dataclass
class Element:
    """An element with its attributes; its children are elements and markup."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)

    def walk(self) -> Iterator["Element"]:
        """Yield the elements inside, parents first."""
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.walk()

    def find(self, wanted: Callable[["Element"], bool]) -> "Element | None":
        """Return the first element inside that fits."""
        return next((each for each in self.walk() if wanted(each)), None)

    def replace(self, change: Callable[["Element"], "list[Element | str]"]) -> Self:
        """Replace each child element by the result of a function, from the outside in; [child] keeps it."""
        children: list[Element | str] = []
        for child in self.children:
            children += [child] if isinstance(child, str) else change(child)
        self.children = children
        for child in children:
            if isinstance(child, Element):
                child.replace(change)
        return self

    def get(self, name: str) -> str:
        """Return an attribute, or an empty string."""
        return self.attributes.get(name) or ""

    def has_class(self, name: str) -> bool:
        """Return whether the element has a CSS class."""
        return name in self.get("class").split()

    def write(self) -> str:
        """Return the element as HTML."""
        return "".join(self._pieces())

    def _pieces(self) -> Iterator[str]:
        if self.tag:
            pairs = (name if value is None else f'{name}="{escape(value)}"' for name, value in self.attributes.items())
            yield f"<{' '.join([self.tag, *pairs])}>"
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._pieces()
        if self.tag and self.tag not in _VOID:
            yield f"</{self.tag}>"


def parse(text: str) -> Element:
    """Return a tree without a tag of its own, whose children are those of a page or a part of one."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    return builder.root


class _Builder(HTMLParser):
    """Builds the tree; entities and text stay as they are written."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        index = next((index for index in range(len(self._open) - 1, 0, -1) if self._open[index].tag == tag), None)
        if index is not None:
            del self._open[index:]

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def handle_decl(self, decl: str) -> None:
        self.handle_data(f"<!{decl}>")
