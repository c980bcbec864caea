"""Terms of the glossary: each page links the first use of a term to its definition, in the site alone."""

import re
from functools import cache
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "reference" / "glossary.md"

_ENTRY = re.compile(r"^\*\*(.+?)\*\*\n: +(.+?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_ABBREVIATION = re.compile(r" \((.+)\)$")
_PLAIN_WORDS = frozenset(
    {"decision", "environment", "league", "main", "match", "player", "rank", "run", "score", "side", "update"}
)
"""Terms that are ordinary words as well, so that most uses need no link."""

_SKIPPED = "|".join(
    (
        r"^```.*?^```$",  # fenced code
        r"<!--.*?-->",
        r"^#[^\n]*|^\|[^\n]*|^ {4}[^\n]*",  # headings, rows of tables, indented code
        r"!?\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])",  # links and pictures
        r"`[^`]+`",
        r"\*\*?[^*]+\*\*?",
    )
)


@cache
def definitions() -> dict[str, str]:
    """Return the definitions of the glossary by their terms, which are in lower case but for abbreviations."""
    return {term: " ".join(text.split()) for term, text in _ENTRY.findall(GLOSSARY.read_text(encoding="utf-8"))}


@cache
def spellings() -> dict[str, str]:
    """Return each spelling of a term in lower case, also its plural and its abbreviation, with the term."""
    found: dict[str, str] = {}
    for term in definitions():
        abbreviation = _ABBREVIATION.search(term)
        names = [_ABBREVIATION.sub("", term), *([abbreviation[1]] if abbreviation else [])]
        found |= {spelling.lower(): term for name in names for spelling in (name, _plural(name))}
    return found


def is_term(text: str) -> bool:
    """Tell whether the glossary defines a text."""
    return " ".join(text.split()).lower() in spellings()


def link_first_uses(text: str) -> str:
    """Link the first use of each term on a page to its definition."""
    linked = {spelling: term for spelling, term in spellings().items() if term not in _PLAIN_WORDS}
    words = "|".join(re.escape(each).replace(r"\ ", r"\s+") for each in sorted(linked, key=len, reverse=True))
    seen: set[str] = set()

    def link(found: re.Match[str]) -> str:
        term = linked.get(" ".join((found["term"] or "").split()).lower())
        if term is None or term in seen:
            return found[0]
        seen.add(term)
        return f"{{term}}`{' '.join(found[0].split())} <{term}>`"

    pattern = rf"(?:{_SKIPPED})|(?<![\w@/.-])(?P<term>{words})(?![\w@/-])"
    return re.sub(pattern, link, text, flags=re.MULTILINE | re.DOTALL | re.IGNORECASE)


def as_directive(text: str) -> str:
    """Turn the definitions of the glossary's page into the directive that links lead to."""
    first = text.index("**")
    entries = [f"{term}\n  {' '.join(about.split())}\n" for term, about in _ENTRY.findall(text[first:])]
    body = "\n".join(entries)
    return f"{text[:first]}```{{glossary}}\n{body}```\n"


def _plural(term: str) -> str:
    return f"{term}es" if term.endswith(("ch", "s")) else f"{term[:-1]}ies" if term.endswith("y") else f"{term}s"
