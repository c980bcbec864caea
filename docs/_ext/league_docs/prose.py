"""Checks the English of pages, help texts and error messages, against the style in CONTRIBUTING.

`make check` runs it: it prints new offences and exits with 1 if there are any. A page for readers must also talk to
them ("you"), and each term that it puts in italics must be in the glossary. With `--measure` it prints the measures
of each page, with `--update` it stores the present counts as the baseline.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from league_docs import glossary

ROOT = Path(__file__).parents[3]
BASELINE = Path(__file__).with_name("prose_baseline.json")
LONGEST_SENTENCE = 32
OFFENCES_PER_1000_WORDS = 7  # the sum of the aims below
LEAST_YOU = 8  # per 1,000 words
LEAST_WORDS = 200  # of a page that must talk to its reader
GUIDES = ("README.md", "docs/concepts/", "docs/guides/", "docs/tutorial/")
TERMS = ("README.md", "docs/concepts/", "docs/guides/", "docs/index.md", "docs/reference/", "docs/tutorial/")
RULE_BOOK = "docs/reference/mech-arena.md"  # it defines the words of its game itself
_WORD = re.compile(r"\w[\w'-]*")
_ITALICS = re.compile(r"(?<![*\w])\*([^*\s][^*]+)\*(?![*\w])")
WORDS = {
    r";": "write two sentences",
    r"\b(?:what)\b": "name the thing",
    r"\b(?:who|whom|whoever|whomever|nobody|somebody|everybody)\b": "name the person or the part",
    r"\b(?:says?|said|told)\b": "use prints, returns, reports or shows",
    r"\b(?:heard|heeds?|heeded|of late|anew|foretells?|foretold|refuses|refused)\b": "use the usual word, as reject",
}
"""Patterns to avoid, with advice."""

MEASURES = {
    "you": (r"\b(?:you|your|yours)\b", "at least 8"),
    "for example": (r"\bfor (?:example|instance)\b", "at least 1"),
    "what": (r"\bwhat\b", "at most 2"),
    "who": (r"\b(?:who|whoever|whom)\b", "at most 1"),
    "say": (r"\b(?:says?|said|told)\b", "at most 1"),
    ";": (r";", "at most 3"),
}
"""Patterns to count, with their aims per 1,000 words."""


class Sentence(NamedTuple):
    """A sentence and the line that it begins on."""

    line: int
    text: str


def page_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a page: without code, tables, headings and comments."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    sentences: list[Sentence] = []
    paragraph: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        code = line.startswith("    ") and not paragraph and not item
        prose = bool(line.strip()) and not line.startswith(("|", "#", "![")) and not code
        if item or not prose:
            sentences += _split(paragraph)
            paragraph = []
        if prose:
            paragraph.append((number, line[item.end() :] if item else line.strip()))
    return sentences


def source_sentences(text: str, *, help_texts: bool) -> list[Sentence]:
    """Return the sentences of error messages, and of help texts if the module defines commands.

    The parts of an error message, the rule and the remedy, are separated by a semicolon.
    """
    found: list[Sentence] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found += [Sentence(line, part) for line, text in _strings(node.exc) for part in text.split("; ")]
        elif help_texts and isinstance(node, ast.keyword) and node.arg in {"help", "epilog"}:
            found += _strings(node.value)
        elif help_texts and isinstance(node, ast.FunctionDef) and "command" in ast.dump(ast.List(node.decorator_list)):
            found += [Sentence(node.lineno + 1, each.text) for each in page_sentences(ast.get_docstring(node) or "")]
    return found


def offences(sentences: list[Sentence]) -> Iterator[str]:
    """Yield the offences of sentences, each with its line."""
    for line, text in sentences:
        if (length := len(_WORD.findall(text))) > LONGEST_SENTENCE:
            yield f"{line}: a sentence of {length} words: split it, at most {LONGEST_SENTENCE} words"
        for pattern, advice in WORDS.items():
            yield from (f"{line}: {match[0]!r}: {advice}" for match in re.finditer(pattern, text, re.IGNORECASE))


def page_faults(name: str, sentences: list[Sentence]) -> Iterator[str]:
    """Yield the faults that no baseline excuses: unknown terms, and a page that does not talk to its reader."""
    if name.startswith(TERMS) and name != RULE_BOOK:
        for line, text in sentences:
            unknown = [term for term in _ITALICS.findall(text) if not glossary.is_term(term)]
            yield from (f"{line}: term {term!r}: define it in docs/reference/glossary.md" for term in unknown)
    words, you = (float(each) for each in measures(sentences)[:2])
    if name.startswith(GUIDES) and words >= LEAST_WORDS and you < LEAST_YOU:
        yield f"1: 'you' {you:.1f} times in 1,000 words: talk to the reader, at least {LEAST_YOU} times"


def files() -> dict[str, list[Sentence]]:
    """Return the sentences of each file that is checked."""
    folders = [ROOT / name for name in ("benchmarks", "docs", "studies")]
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    pages += sorted(page for folder in folders for page in folder.rglob("*.md"))
    texts = {page: page_sentences(page.read_text(encoding="utf-8")) for page in pages}
    for module in sorted(file for package in ("arena", "league", "trainer") for file in (ROOT / package).rglob("*.py")):
        texts[module] = source_sentences(module.read_text(encoding="utf-8"), help_texts="cli" in module.parts)
    return {file.relative_to(ROOT).as_posix(): sentences for file, sentences in texts.items()}


def measures(sentences: list[Sentence]) -> list[str]:
    """Return the number of words, the counts per 1,000 words, and median and 90th percentile of words in a sentence."""
    text, lengths = " ".join(each.text for each in sentences), [len(_WORD.findall(each.text)) for each in sentences]
    rates = [1000 * len(re.findall(pattern, text, re.I)) / (sum(lengths) or 1) for pattern, _ in MEASURES.values()]
    p90 = quantiles([*lengths, *lengths], n=10)[-1] if lengths else 0.0
    return [f"{sum(lengths)}", *(f"{rate:.1f}" for rate in rates), f"{median(lengths or [0]):.0f}/{p90:.0f}"]


def _split(paragraph: list[tuple[int, str]]) -> Iterator[Sentence]:
    """Split the lines of a paragraph into sentences; code becomes one word, and links their text."""
    joined = "".join(f"\x00{number}\x00{line} " for number, line in paragraph)
    joined = re.sub(r"`[^`]+`", lambda code: "".join(re.findall(r"\x00\d+\x00", code[0])) + "CODE", joined)
    joined = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", joined)
    line = paragraph[0][0] if paragraph else 0
    for sentence in re.split(r"(?<=[.!?])[*\")]*\s+(?=[\x00\w\"'(*])", joined):
        lines = [int(each) for each in re.findall(r"\x00(\d+)\x00", sentence)]
        if text := re.sub(r"\x00\d+\x00", "", sentence).strip():
            yield Sentence(lines[0] if sentence.startswith("\x00") else line, text)
        line = lines[-1] if lines else line


def _strings(node: ast.AST) -> Iterator[Sentence]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield from (Sentence(each.lineno, part) for part in each.value.split(". ") if " " in part.strip())


def main(arguments: list[str]) -> int:
    """Check all files, or do what the only option asks for."""
    checked = files()
    found = {name: list(offences(sentences)) for name, sentences in checked.items()}
    rates = {name: OFFENCES_PER_1000_WORDS * int(measures(each)[0]) // 1000 for name, each in checked.items()}
    many = {name: each for name, each in found.items() if len(each) > rates[name]}
    if "--update" in arguments:
        BASELINE.write_text(json.dumps({name: len(each) for name, each in many.items()}, indent=1) + "\n")
        return 0
    if "--measure" in arguments:
        pages = {name: sentences for name, sentences in checked.items() if name.endswith(".md")}
        rows = {"per 1,000 words": ["words", *MEASURES, "sentence"]}
        rows |= {"aim": ["", *(aim for _, aim in MEASURES.values()), "15/28"]}
        rows |= {name: measures(sentences) for name, sentences in pages.items()}
        rows["all pages"] = measures([each for sentences in pages.values() for each in sentences])
        sys.stdout.writelines(f"{name:48}{' '.join(f'{each:>11}' for each in row)}\n" for name, row in rows.items())
        return 0
    faults = {name: list(page_faults(name, sentences)) for name, sentences in checked.items()}
    sys.stdout.writelines(f"{name}:{fault}\n" for name, each in faults.items() for fault in each)
    baseline = json.loads(BASELINE.read_text())
    worse = {name: each for name, each in many.items() if len(each) > baseline.get(name, 0)}
    for name, each in worse.items():
        sys.stdout.writelines(f"{name}:{offence}\n" for offence in each)
        sys.stdout.write(f"{name}: {len(each)} offences, {max(rates[name], baseline.get(name, 0))} allowed\n")
    return int(bool(worse) or any(faults.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
