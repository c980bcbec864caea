"""How balanced the mech arena is: who wins, why, and what does the damage, as Markdown for its README.

    python -m studies.balance

Lieutenants play themselves on 1,000 seeds of every preset; against the other baselines, on 500 seeds from either side.
"""

import argparse
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from arena.environments import baselines, make_baseline
from arena.environments.base import Actions, Observation, StepResult
from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import DECISION_S
from arena.environments.mech.config.rewards import COMPONENTS
from arena.environments.mech.config.scenario import PRESETS, MechConfig
from arena.environments.mech.config.weapons import WEAPONS
from arena.environments.mech.env import MechEnvironment
from arena.environments.spec import SIDES
from arena.play.runner import MatchResult, play
from arena.play.series import play_series, score_interval

PLAYER = "lieutenant"


class Ledger:
    """Adds up what mechs do in the first match of every row. Sums are by mech, home first."""

    def opened(self, env: MechEnvironment, observation: Observation) -> None:
        """Begin with nothing."""
        agents = env.spec.num_agents
        self.env, self.playing = env, torch.ones(env.num_envs, dtype=torch.bool)
        self.raw_damage = torch.zeros(agents, len(WEAPONS))
        self.dealt, self.killed = torch.zeros(agents, agents), torch.zeros(agents, agents)
        self.terrain_damage, self.components = torch.zeros(agents), torch.zeros(agents, len(COMPONENTS))
        self.first_death = torch.zeros(env.num_envs, dtype=torch.int32)
        self.zone_s = torch.zeros(env.num_envs, SIDES)
        env.on_decided.append(self.note_decision)

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Close the rows whose match has ended."""
        self.playing = self.playing & ~step.over

    def note_decision(self) -> None:
        """Add what came of one decision, before anything is reset."""
        arrays, rows = self.env.arrays, self.playing
        for name in ("raw_damage", "dealt", "killed", "terrain_damage"):
            getattr(self, name).add_(arrays[name][rows].sum(dim=0))
        self.components += self.env.components[rows].sum(dim=0)
        fell = rows & (arrays["killed"].flatten(1).sum(dim=1) > 0.0) & (self.first_death == 0)
        self.first_death = torch.where(fell, arrays["decision"], self.first_death)
        self.zone_s[rows] = arrays["zone_s"][rows]


def main() -> None:
    """Play and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", choices=list(PRESETS), action="append", help="again for more; all by default")
    parser.add_argument("--matches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    presets = [PRESETS[name] for name in arguments.environment or PRESETS]
    played = [play_itself(config.name, arguments.matches, arguments.seed) for config in presets]
    ledgers = [ledger for ledger, _ in played]
    print_table(
        ("preset", "home's share", "draws", "ended by", "decisions, median", "first loss, median s", "zone s a side"),
        [describe_matches(config, ledger, results) for config, (ledger, results) in zip(presets, played, strict=True)],
    )
    print_table(("damage by weapon", *(config.name for config in presets)), by_weapon(ledgers))
    print_table(
        ("preset", "class", "of the mechs", "of damage", "of kills", "of losses", "losses a match"),
        [row for config, ledger in zip(presets, ledgers, strict=True) for row in by_class(config, ledger)],
    )
    print_table(
        ("reward a mech and match", *COMPONENTS),
        [by_component(config, ledger) for config, ledger in zip(presets, ledgers, strict=True)],
    )
    print_table(
        ("preset", "lieutenant against", "score", "95 % interval", "ended by"),
        [row for config in presets for row in against_others(config.name, arguments.matches, arguments.seed)],
    )


def play_itself(environment: str, matches: int, seed: int) -> tuple[Ledger, list[MatchResult]]:
    """Every seed in a row of its own, so that every row is heard for one match."""
    ledger, policy = Ledger(), make_baseline(environment, PLAYER)
    seeds = [seed * 1_000_000 + match for match in range(matches)]
    results = play(environment, policy, policy, seeds, torch.Generator(), max_envs=matches, watcher=ledger)
    return ledger, results


def describe_matches(config: MechConfig, ledger: Ledger, results: Sequence[MatchResult]) -> list[str]:
    """Who won and why."""
    score = statistics.mean(result.score for result in results)
    low, high = score_interval(score, len(results))
    draws = statistics.mean(result.score == 0.5 for result in results)
    fallen = ledger.first_death[ledger.first_death > 0].float()
    first = f"{fallen.median() * DECISION_S:.1f} (in {len(fallen) / len(results):.1%})" if len(fallen) else "none"
    return [
        config.name,
        f"{score:.3f} ({low:.3f} to {high:.3f})",
        f"{draws:.1%}",
        write_shares(Counter(result.reason for result in results)),
        f"{statistics.median(result.decisions for result in results):.0f} of {config.max_decisions}",
        first,
        f"{ledger.zone_s.mean():.1f} of {config.zone_goal_s:g}",
    ]


def by_weapon(ledgers: Iterable[Ledger]) -> list[list[str]]:
    """Share of the damage that hits enemies which each weapon does; the ground's beside it."""
    columns = []
    for ledger in ledgers:
        damage = [*ledger.raw_damage.sum(dim=0).tolist(), ledger.terrain_damage.sum().item()]
        columns.append([amount / max(sum(damage), 1.0) for amount in damage])
    names = [*(weapon.name for weapon in WEAPONS), "(lava and debris)"]
    return [[name, *(f"{column[row]:.1%}" for column in columns)] for row, name in enumerate(names)]


def by_class(config: MechConfig, ledger: Ledger) -> list[list[str]]:
    """What every class of a preset does and suffers."""
    kinds = torch.tensor([list(CLASSES).index(mech.name) for mech in config.team * SIDES])
    matches = len(ledger.playing)
    columns = (ledger.dealt.sum(dim=1), ledger.killed.sum(dim=1), ledger.killed.sum(dim=0))
    rows = []
    for kind, name in enumerate(CLASSES):
        own = kinds == kind
        if not own.any():
            continue
        losses = ledger.killed.sum(dim=0)[own].mean().item() / matches
        shares = [own.float().mean(), *(column[own].sum() / column.sum().clamp(min=1.0) for column in columns)]
        rows.append([config.name, name, *(f"{share:.1%}" for share in shares), f"{losses:.2f}"])
    return rows


def by_component(config: MechConfig, ledger: Ledger) -> list[str]:
    """Mean over mechs and matches of what each reward component adds up to."""
    means = ledger.components.mean(dim=0) / len(ledger.playing)
    return [config.name, *(f"{mean:+.3f}" for mean in means.tolist())]


def against_others(environment: str, matches: int, seed: int) -> list[list[str]]:
    """Scores against the other baselines, sides swapped."""
    rows = []
    for other in baselines(environment):
        if other.name != PLAYER:
            pair = [make_baseline(environment, name) for name in (PLAYER, other.name)]
            series = play_series(environment, *pair, matches=matches, seed=seed)
            low, high = series.interval
            rows.append(
                [
                    environment,
                    other.name,
                    f"{series.score:.4f}",
                    f"{low:.3f} to {high:.3f}",
                    write_shares(series.reasons),
                ]
            )
    return rows


def write_shares(counts: "Counter[str] | dict[str, int]") -> str:
    """Most frequent first."""
    total = sum(counts.values())
    return ", ".join(f"{name} {count / total:.1%}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print one Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")
    print()


if __name__ == "__main__":
    main()
