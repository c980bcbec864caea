"""Sections of the site. Patterns that match no page yet are left out."""

from collections.abc import Mapping, Sequence

Navigation = Mapping[str, Mapping[str, Sequence[str]]]
"""Sections by the page that they belong to: captions, and patterns of the pages below each.

A section without a caption is listed on the page itself.
"""

NAVIGATION: Navigation = {
    "index": {
        "Tutorial": ["tutorial/first-league", "tutorial/your-game", "tutorial/*"],
        "Concepts": [
            "concepts/overview",
            "concepts/ratings",
            "concepts/matchmaking",
            "concepts/payoffs",
            "concepts/trust",
            "concepts/does-a-league-pay",
            "concepts/*",
        ],
        "Guides: games": [
            "guides/games/pettingzoo",
            "guides/games/openspiel",
            "guides/games/tensors",
            "guides/games/jax",
            "guides/games/*",
        ],
        "Guides: training": ["guides/train/run", "guides/train/networks", "guides/train/*"],
        "Guides: evaluation": ["guides/judge/gates", "guides/judge/compare", "guides/judge/*"],
        "Guides: operation": ["guides/operate/deploy", "guides/operate/secure", "guides/operate/*"],
        "Reference": ["reference/glossary", "reference/*", "reference/python-api/index"],
        "Contributing": [
            "contributing/index",
            "contributing/architecture",
            "contributing/*",
            "contributing/decisions/index",
        ],
    },
    "reference/python-api/index": {"Modules": ["reference/python-api/[!i]*"]},
    "contributing/decisions/index": {"": ["contributing/decisions/[0-9]*"]},
}
