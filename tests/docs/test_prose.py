"""The checker of English finds offences and names their lines."""

from league_docs import prose

PAGE = """# A title with what and who; not prose

A first sentence. It goes on
over a line; here.

| what | who |
| --- | --- |

    code; what

- an item that says nothing
```bash
what; who
```
"""


def test_offences_are_found_in_prose_alone_with_their_lines() -> None:
    found = list(prose.offences(prose.page_sentences(PAGE)))
    assert [each.partition(": ")[0] for each in found] == ["3", "11"]
    assert "';'" in found[0]
    assert "says" in found[1]


def test_long_sentences_are_offences() -> None:
    sentences = prose.page_sentences(f"{'word ' * 33}. {'word ' * 32}.")
    assert len(list(prose.offences(sentences))) == 1


def test_error_messages_and_help_texts_are_checked() -> None:
    source = """
@app.command(epilog="Example: league up")
def up(port: Annotated[int, Option(help="Port that nobody uses.")]) -> None:
    \"\"\"Run what is needed.\"\"\"
    raise ArenaError(f"the port {port} is refused")
"""
    sentences = prose.source_sentences(source, help_texts=True)
    assert sorted(offence.split("'")[1] for offence in prose.offences(sentences)) == ["nobody", "refused", "what"]


def test_unknown_terms_and_pages_without_you_are_faults() -> None:
    sentences = prose.page_sentences(f"A *learner* meets *snapshots* and a *zorble*. {'Words go on. ' * 70}")
    faults = list(prose.page_faults("docs/guides/some.md", sentences))
    assert [fault.split("'")[1] for fault in faults] == ["zorble", "you"]
    assert not list(prose.page_faults("docs/contributing/some.md", sentences))


def test_measures_count_words_per_thousand() -> None:
    sentences = prose.page_sentences("You can do this. For example, you can run it; what else.")
    words, you, example, what, *_ = prose.measures(sentences)
    assert (words, you, example, what) == ("12", "166.7", "83.3", "83.3")
