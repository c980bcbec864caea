"""The documentation site: its navigation, and reference pages that are generated from the code at build time.

A page asks for generated text with a comment of its own line, such as `<!-- generated: cli -->`, so that the page is
still a page, with working links, where nothing is built.
"""
