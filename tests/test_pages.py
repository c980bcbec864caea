"""What the pages of the documentation name is there: files, headings, commands and their options."""

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import typer
from league_docs import site
from league_docs.navigation import NAVIGATION
from typer.core import TyperGroup

ROOT = Path(__file__).parents[1]
MESSAGE = "league unreachable"  # what a trainer says
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in ("benchmarks", "docs", "studies") for page in (ROOT / folder).rglob("*.md")),
    ]
)


@cache
def lines(page: Path) -> list[tuple[bool, str]]:
    """Lines of a page, each with whether it is code; a line that a backslash carries on is one with the next."""
    found: list[tuple[bool, str]] = []
    fenced = carried = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            continue
        code = fenced or line.startswith("    ")
        if carried:
            line = found.pop()[1][:-1] + line.strip()
        carried = code and line.endswith("\\")
        found.append((code, line))
    return found


def prose(page: Path) -> str:
    return "\n".join(line for code, line in lines(page) if not code)


@cache
def headings(page: Path) -> set[str]:
    """What GitHub calls the headings of a page in an address."""
    return slugs(prose(page))


def slugs(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@cache
def generated_headings(page: Path) -> set[str]:
    """Headings that a page has only in the site."""
    return slugs(site.expand(page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    text = prose(page)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def broken(page: Path, link: str) -> str | None:
    """Why a link leads nowhere, None where it leads somewhere."""
    name, _, heading = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return "no such file"
    found = not heading or heading in headings(target) or heading in generated_headings(target)
    return None if found else "no such heading"


def test_every_link_leads_to_a_file_and_to_one_of_its_headings() -> None:
    told = [(page, link) for page in PAGES for link in links(page)]
    assert not [(page.name, link, why) for page, link in told if (why := broken(page, link))]


def test_every_short_link_is_defined() -> None:
    for page in PAGES:
        used = set(re.findall(r"\]\[([^\]]+)\]", prose(page)))
        defined = set(re.findall(r"^\[([^\]]+)\]: ", prose(page), re.MULTILINE))
        assert used == defined, f"{page.name}: {used ^ defined}"


def test_navigation_lists_every_page_once() -> None:
    docs = ROOT / "docs"
    listed = [
        page for sections in NAVIGATION.values() for _, pages in site.listed_pages(docs, sections) for page in pages
    ]
    pages = {page.relative_to(docs).with_suffix("").as_posix() for page in docs.rglob("*.md")}
    counts = {page: listed.count(page) for page in pages - {"index"}}
    assert set(counts.values()) == {1}, f"list each page once in docs/_ext/league_docs/navigation.py: {counts}"


def plain(heading: str) -> str:
    return heading.strip("?. `")


def named_pages(text: str) -> list[tuple[Path, str]]:
    """Pages that a text names by their path, each with the section that it names behind it, or nothing."""
    joined = re.sub(r"\s*\n[#\s]*", " ", text)
    found = re.findall(r'(?<![\w/])(docs/[\w/-]+\.md)(?:, "([^"]+)")?', joined)
    return [(ROOT / name, section) for name, section in found]


def test_every_page_and_section_that_a_file_names_is_there() -> None:
    folders = [ROOT / name for name in ("arena", "benchmarks", "docs", "examples", "league", "trainer")]
    files = [
        each for folder in folders for each in folder.rglob("*") if each.suffix in {".html", ".md", ".py", ".toml"}
    ]
    wrong = []
    for file in files:
        for page, section in named_pages(file.read_text(encoding="utf-8")):
            titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE) if page.exists() else []
            if not titles or (section and plain(section) not in map(plain, titles)):
                wrong.append((file.name, page.name, section))
    assert not wrong


@cache
def programs() -> dict[str, TyperGroup]:
    from arena.cli import app as arena
    from league.cli import app as league
    from trainer.cli.commands import app as trainer

    return {app.info.name: typer.main.get_group(app) for app in (arena, league, trainer)}


def commands(page: Path) -> list[str]:
    """Commands that a page tells its reader to type, in blocks of code and between backticks."""
    told = [line.strip() for code, line in lines(page) if code]
    told += [" ".join(inline.split()) for inline in re.findall(r"`([^`]+)`", prose(page))]
    return [re.sub(r"^\$ |^(?:[A-Z_]+=\S* )+", "", each) for each in told]


def wrong_with(command: str) -> str | None:
    """What of a command is not there, None where all of it is or where it is no command."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:  # prose in a block of code
        return None
    benchmark = re.match(r"python (?:-m ((?:benchmarks|studies)[\w.]*)|(benchmarks/\w+)\.py)", command)
    if benchmark:
        module = benchmark[1] or benchmark[2].replace("/", ".")
        return None if importlib.util.find_spec(module) else f"no module {module}"
    if len(words) < 2 or words[0] not in programs():
        return None
    called, rest = programs()[words[0]], words[1:]
    while isinstance(called, TyperGroup) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if not re.fullmatch(r"[a-z][a-z-]*", name) or command.startswith(MESSAGE):  # such as COMMAND
            return None
        found = called.get_command(typer.Context(called), name)
        if found is None:
            return f"no command {name}"
        called = found
    known = {option for each in called.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    ends = next((place for place, word in enumerate(rest) if word in {"|", "&", "&&", ";", "--"}), len(rest))
    told = [re.match(r"--[a-z0-9-]+", word.strip("[]")) for word in rest[:ends]]
    strange = [each[0] for each in told if each and each[0] not in known]
    return f"no option {', '.join(strange)}" if strange else None


def test_every_command_and_option_that_a_page_names_is_there() -> None:
    told = [(page, command) for page in PAGES if page.name != "CHANGELOG.md" for command in commands(page)]
    assert not [(page.name, command, why) for page, command in told if (why := wrong_with(command))]
