"""Charts of a learner's metrics over steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """Curves of one kind over steps.

    Attributes:
        key: Identifier of the chart on the page.
        title: Heading.
        about: Description with typical values.
        names: Labels of metrics by name; `*` matches any word, which is the label.
        usual: Range in most successful runs; None if there is no typical range.
        share: Whether values are shares from 0 to 1.
        more: Whether it is shown only on request.
    """

    key: str
    title: str
    about: str
    names: Mapping[str, str]
    usual: tuple[float, float] | None = None
    share: bool = False
    more: bool = False


CHARTS = (
    Chart("return", "Return", "Mean of the last 200 matches", {"charts/episodic_return": "return"}),
    Chart(
        "win_rate",
        "Win rate by branch",
        "Mean score of the last 200 matches of each",
        {"charts/score": "all", "win_rate_by_branch/*": "*"},
        share=True,
    ),
    Chart("kl", "KL divergence", "Per update; typical 0.001 to 0.02", {"losses/approx_kl": "KL"}, (0.001, 0.02)),
    Chart(
        "clip_fraction",
        "Clip fraction",
        "Share of samples; typical 0.02 to 0.3",
        {"losses/clipfrac": "clipped"},
        (0.02, 0.3),
    ),
    Chart("entropy", "Entropy per head", "Categorical heads: over ln(options)", {"heads/*/entropy": "*"}),
    Chart(
        "explained_variance",
        "Explained variance",
        "Of the critic: 1 is perfect, 0 no better than the mean",
        {"losses/explained_variance": "explained"},
    ),
    Chart(
        "gradient_norm",
        "Gradient norm",
        "Before clipping; typical 0.05 to 5",
        {"losses/gradient_norm": "norm"},
        (0.05, 5.0),
    ),
    Chart("learning_rate", "Learning rate", "By the schedule", {"charts/learning_rate": "learning rate"}),
    Chart("speed", "Speed", "Steps of all environments per second", {"charts/SPS": "steps/s"}),
    Chart(
        "losses",
        "Losses",
        "Policy loss: typical size 0.01 to 0.1",
        {"losses/policy_loss": "policy", "losses/value_loss": "value"},
        more=True,
    ),
    Chart(
        "head_gradient",
        "Gradient norm per head",
        "Before clipping; a head without a gradient has no curve",
        {"heads/*/gradient_norm": "*"},
        more=True,
    ),
    Chart("head_kl", "KL per head", "Per update", {"heads/*/approx_kl": "*"}, more=True),
    Chart("head_clip", "Clip fraction per head", "Share of samples", {"heads/*/clipfrac": "*"}, more=True),
    Chart(
        "ratios",
        "Ratios of probabilities",
        "New to old: mean distance from 1, and samples above 5 or under 0.1",
        {"losses/ratio_deviation": "distance", "losses/ratio_alarms": "beyond"},
        more=True,
    ),
    Chart(
        "advantages",
        "Advantages",
        "Before they are normalised",
        {"scales/advantage_mean": "mean", "scales/advantage_std": "standard deviation"},
        more=True,
    ),
    Chart(
        "values",
        "Returns and values",
        "Observed returns, and the critic's values",
        {
            "scales/return_mean": "return",
            "scales/value_mean": "value",
            "scales/return_std": "spread of returns",
            "scales/value_std": "spread of values",
        },
        more=True,
    ),
    Chart("rewards", "Reward by component", "Mean per match and agent", {"reward/*": "*"}, more=True),
    Chart(
        "reward_share",
        "Share of the reward",
        "By absolute value",
        {"reward_share/*": "*"},
        share=True,
        more=True,
    ),
    Chart("length", "Length of matches", "In decisions", {"charts/episodic_length": "decisions"}, more=True),
    Chart(
        "memory",
        "Recurrent state drift",
        "Stored states against those of the new weights",
        {"losses/state_drift": "drift"},
        more=True,
    ),
    Chart(
        "time",
        "Time of an update",
        "In seconds",
        {"charts/rollout_s": "playing", "charts/update_s": "learning", "charts/league_s": "the league"},
        more=True,
    ),
)


@dataclass(frozen=True)
class Line:
    """A curve: its label and a value at each step; None is a gap."""

    label: str
    values: Sequence[float | None]


def lines_of(chart: Chart, metrics: Mapping[str, Sequence[float | None]]) -> list[Line]:
    """Return the curves of a chart, in the order of its names; those that match one pattern in alphabetical order."""
    found = []
    for pattern, label in chart.names.items():
        before, star, behind = pattern.partition("*")
        for name in sorted(metrics):
            word = name.removeprefix(before).removesuffix(behind)
            if name == f"{before}{word}{behind}" and ("/" not in word if star else not word):
                found.append(Line(word if star else label, metrics[name]))
    return found
