"""Pages link the first use of each term to its definition."""

import re

from league_docs import glossary


def test_first_use_of_a_term_is_linked_outside_code_tables_and_links() -> None:
    text = (
        "# Leases\n\n| lease |\n\nA `lease`, a [lease](x.md), *lease*.\n\nTwo leases, a lease\nand a rating\nperiod.\n"
    )
    linked = glossary.link_first_uses(text)
    assert re.findall(r"\{term\}`[^`]+`", linked) == ["{term}`leases <lease>`", "{term}`rating period <rating period>`"]
    assert linked.startswith("# Leases\n\n| lease |\n\nA `lease`, a [lease](x.md), *lease*.")


def test_plurals_and_abbreviations_are_spellings_of_a_term() -> None:
    assert all(glossary.is_term(each) for each in ("RD", "deviation", "matches", "Rating periods"))
    assert not glossary.is_term("zorble")


def test_glossary_is_sorted_and_becomes_a_directive() -> None:
    terms = list(glossary.definitions())
    assert terms == sorted(terms, key=str.lower)
    directive = glossary.as_directive(glossary.GLOSSARY.read_text(encoding="utf-8"))
    assert directive.count("\n  ") == len(terms)
