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
            "concepts/does-a-league-pay",
            "concepts/trust",
            "concepts/payoffs",
            "concepts/*",
        ],
        "Guides: games": [
            "guides/games/*",
            "your_game",
            "pettingzoo",
            "openspiel",
            "tensor_games",
            "jax",
            "external_players",
            "verify",
        ],
        "Guides: training": ["guides/train/*", "training", "networks", "league_play", "multi_gpu", "fleet", "health"],
        "Guides: evaluation": [
            "guides/judge/*",
            "ratings",
            "matchmaking",
            "gates",
            "payoff",
            "behaviour",
            "replays",
            "results",
        ],
        "Guides: operation": [
            "guides/operate/*",
            "operations",
            "deployment",
            "security",
            "checkpoints",
            "reliability",
            "scale",
            "dashboard",
        ],
        "Reference": ["reference/glossary", "reference/*", "reference/python-api/index", "mech_arena"],
        "Contributing": [
            "contributing/index",
            "contributing/*",
            "contributing/decisions/index",
        ],
    },
    "reference/python-api/index": {"Modules": ["reference/python-api/[!i]*"]},
    "contributing/decisions/index": {"": ["contributing/decisions/[0-9]*"]},
}
