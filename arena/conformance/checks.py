"""The table of environment checks, in the order of the report: each check's name, its rule and the remedy."""

from collections.abc import Callable
from dataclasses import dataclass

from arena.conformance.report import Finding, NotApplicableError, Verdict, ViolationError, describe


@dataclass(frozen=True)
class Check:
    """One rule of the environment contract.

    Attributes:
        name: Name of its row in the report.
        rule: The requirement for every environment.
        remedy: How to repair an environment that breaks the rule.
        severity: Verdict of a violation: a warning if a game may break the rule on purpose.
        stops: Whether a violation ends the verification, because later results would be meaningless or matches would
            not end.
    """

    name: str
    rule: str
    remedy: str
    severity: Verdict = Verdict.FAILED
    stops: bool = False

    def finding(self, verdict: Verdict, detail: str, where: str = "") -> Finding:
        """Return the row of the report."""
        explanation = (self.rule, self.remedy) if verdict in (Verdict.FAILED, Verdict.WARNING) else ()
        return Finding(self.name, verdict, detail, where, *explanation)

    def run(self, check: Callable[[], str]) -> Finding:
        """Run a check that returns details if the rule is kept; an error of the game breaks it."""
        try:
            return self.finding(Verdict.PASSED, check())
        except NotApplicableError as reason:
            return self.finding(Verdict.NOT_APPLICABLE, str(reason))
        except ViolationError as violation:
            return self.finding(violation.verdict or self.severity, violation.seen, violation.where)
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises
            return self.finding(Verdict.FAILED, describe(error))


SPECIFICATION = Check(
    "specification",
    "the spec of an environment is complete, consistent, and the same each time it is created",
    "correct the spec: arena/environments/spec.py describes each field",
    stops=True,
)
SIGNATURE = Check(
    "signature",
    "two processes that create the environment get the same spec, because only its signature decides which "
    "players can meet",
    "declare nothing that depends on the process, such as the order of a set, a path, the time or a counter",
    stops=True,
)
ANSWERS = Check(
    "responds",
    "another process can open matches and play decisions, each within the time limit",
    "fix the error in the traceback, and make everything that the game needs available where it is created",
    stops=True,
)
LAYOUT = Check(
    "layout",
    "observations have the shapes of the spec: values are float32, masks and active are bool, all on the "
    "environment's device",
    "allocate them with spec.num_agents, spec.observation_size and the masked heads",
    stops=True,
)
RANGES = Check(
    "ranges",
    "every number of an observation is finite and within low and high of its block, and choices are whole numbers",
    "widen the bounds of the block, or scale or clip the observation",
)
OPTIONS = Check(
    "legal options",
    "every active agent has at least one legal option of every categorical head",
    "allow an option without effect, or mark the agent as inactive (in a mask 1 is legal and 0 is not)",
    stops=True,
)
ABSENT = Check(
    "inactive agents",
    "an agent that does not act, because it is dead or waits for its turn, observes zeros and has no legal "
    "options, except in the final observation",
    "set its values to 0 and its masks to false, except for at most one option without effect",
)
RETURNING = Check(
    "returning agents",
    "in games without turns, an inactive agent stays inactive until the episode ends, because its recurrent state"
    " is not reset",
    "give a new agent an index that is unused in this match, or declare turn_based if the agent only waits",
    severity=Verdict.WARNING,
)
OWN_SIDE = Check(
    "own side",
    "if the sides differ, each agent can observe which side it plays",
    "add an entry to the observation that is 0 at home and 1 away, unless agents should play both sides alike",
    severity=Verdict.WARNING,
)
ACCEPTED = Check(
    "legal actions",
    "step accepts every action that the masks allow, and the match continues or ends",
    "correct step, or forbid the action in the mask",
    stops=True,
)
REWARDS = Check(
    "rewards",
    "rewards are finite float32 of shape (E, N)",
    "correct the reward: look for a division by zero or an overflow",
    stops=True,
)
ZERO_SUM = Check(
    "zero-sum",
    "if the spec has zero_sum, the rewards of a match sum to 0 over all its agents",
    "give one side the negative reward of the other, or set zero_sum=False",
)
ENDS = Check(
    "ends",
    "a match ends within max_decisions, either terminated or truncated",
    "end it by the rules of the game or truncate it at the limit, never both, or declare a higher max_decisions",
    stops=True,
)
OUTCOMES = Check(
    "outcomes",
    "the outcome of a finished match has a score of home in [0, 1] and a reason of the spec, other rows have 0.5 "
    "and reason 0",
    "write the outcome when a match ends, and only then",
    stops=True,
)
LENGTHS = Check(
    "lengths",
    "an outcome counts the decisions of its match, including the last one",
    "count every step of a row since the start of its match, and restart with the next match",
    stops=True,
)
FINAL = Check(
    "final observation",
    "final_observation is the last observation of the match if its episode has ended, otherwise the current one, "
    "and after a truncation at least one agent in it is active",
    "observe the match before the row starts the next one",
)
SEEDS = Check(
    "seeds",
    "a row starts a match with its seed in next_seeds at the end of the previous match, or the seed given to "
    "reset, and reports it in seeds",
    "take the seed at the end of the match and draw the next one after that, as SeededRows does",
)
KEPT = Check(
    "returned arrays",
    "a later step does not change arrays that reset and step have returned",
    "return copies, not views of the state",
)
REPEATS = Check(
    "repeats",
    "the same seeds and actions give the same match bit for bit",
    "derive all randomness from the seed of the match, not from the clock, the process or a shared generator, or "
    "declare reproducible=False",
)
ROWS = Check(
    "rows",
    "a match does not depend on its row, on other rows or on the seed with which the environment was created",
    "store the state of each match in its own row, and derive all randomness from the seed of the match",
)
RESET = Check(
    "reset",
    "a match that starts after another one, with or without reset, equals the same match in a new environment",
    "reset the whole state of a match when it starts",
)
NEXT_MATCH = Check(
    "next match",
    "a match and its final observation do not depend on the next match of its row",
    "observe the match before the row starts the next one, and draw nothing from the next seed before that",
)
PROCESSES = Check(
    "processes",
    "a match does not depend on the number of processes that step it",
    "leave no state of one match for another in modules or files",
)
IGNORED = Check(
    "actions of inactive agents",
    "the actions of inactive agents have no effect",
    "ignore the actions of agents that are not active",
)
CHANCE = Check(
    "chance",
    "matches with different seeds differ if the spec has chance=True and are equal if it has chance=False",
    "derive the randomness of the game only from the seed of reset, or correct the spec",
)
ILLEGAL = Check(
    "illegal actions",
    "step raises InvalidActionError for a masked or nonexistent option and changes nothing, or the rules of the "
    "game define its effect",
    "validate all actions before the first takes effect, as arena/environments/adapters/subprocess/env.py does",
)
REFUSALS = Check(
    "invalid calls",
    "a negative seed, a wrong number of seeds, a step before the first reset, a missing head and an action of a "
    "wrong shape raise ArenaError",
    "derive from SeededRows of arena/environments/seeded.py, which checks this",
)
STEP_LIMIT = Check(
    "step limit",
    "at least some matches end by the rules of the game: a truncated match is scored as it is and treated as "
    "unfinished in training",
    "let the game end matches (terminated), or raise its limit. If the limit is a rule of the game, terminate "
    "there or declare limit_decides=True. Nothing is wrong if only random players never finish",
    severity=Verdict.WARNING,
)
SIDES = Check(
    "sides",
    "between equally strong players, like sides score the same, unless one of them has an advantage such as the "
    "first move",
    "if one side has an advantage by the rules, pass alike_sides=False to TwoSided or TensorGame, so that players"
    " are rated per side. Otherwise try more --matches and another --seed (one in twenty balanced games gets this"
    " warning by chance), then correct the game. Rated matches swap sides in any case",
    severity=Verdict.WARNING,
)
SCORES = Check(
    "scores and rewards",
    "the winner earns more reward: players learn from rewards but are rated by scores",
    "check whether sides or signs are swapped, and whether the reward is for winning",
    severity=Verdict.WARNING,
)
CONTAINED = Check(
    "side effects",
    "a match writes only temporary files, unpickles nothing, opens no connection, starts no process and leaves no"
    " thread that blocks the exit of the program",
    "load everything when the module is imported or the game is created, write nothing during matches, and make "
    "threads daemons",
)
SPEED = Check("speed", "", "")

TABLE = tuple(each for each in list(globals().values()) if isinstance(each, Check))
PLAYED = TABLE[TABLE.index(LAYOUT) : TABLE.index(REPEATS)]
"""Checks of every decision while matches are played at random."""
