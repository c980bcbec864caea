"""The table of environment checks, in the order of the report: each check's name, its rule and the remedy."""

from dataclasses import dataclass

from arena.conformance.report import Finding, Verdict


@dataclass(frozen=True)
class Check:
    """One promise of the environment contract.

    Attributes:
        name: Name of its row in the report.
        rule: What every environment must do.
        remedy: How to repair an environment that breaks the rule.
    """

    name: str
    rule: str
    remedy: str

    def passed(self, said: str) -> Finding:
        """Return that the environment keeps the rule."""
        return Finding(self.name, Verdict.PASSED, said)

    def info(self, said: str) -> Finding:
        """Return a fact where there is no rule to keep."""
        return Finding(self.name, Verdict.INFO, said)

    def failed(self, seen: str, where: str = "") -> Finding:
        """Return that the environment breaks the rule."""
        return Finding(self.name, Verdict.FAILED, seen, where, self.rule, self.remedy)

    def warned(self, seen: str, where: str = "") -> Finding:
        """Return that the environment may break the rule."""
        return Finding(self.name, Verdict.WARNING, seen, where, self.rule, self.remedy)

    def not_applicable(self, why: str) -> Finding:
        """Return that the rule does not concern this environment."""
        return Finding(self.name, Verdict.NOT_APPLICABLE, why)

    def not_reached(self, why: str) -> Finding:
        """Return that an earlier failure prevented the check."""
        return Finding(self.name, Verdict.NOT_REACHED, why)


SPECIFICATION = Check(
    "specification",
    "what an environment declares is complete and without contradiction, and is the same with every make",
    "mend the spec; arena/environments/spec.py says what each field means",
)
SIGNATURE = Check(
    "signature",
    "two processes that make the environment declare the same: players meet by its signature alone",
    "declare nothing that depends on the process, such as the order of a set, a path, the time or a counter",
)
ANSWERS = Check(
    "answers",
    "a process of its own can open matches and play decisions of them, each within the limit",
    "mend what the traceback names; what a game needs has to be there wherever it is made",
)
LAYOUT = Check(
    "layout",
    "observations have the shapes that the spec declares: values float32, masks and active bool, on the environment's "
    "device",
    "build them by spec.num_agents, spec.observation_size and the heads that are masked",
)
RANGES = Check(
    "ranges",
    "every entry of an observation is a finite number within its block's low and high; a choice is a whole number",
    "widen the block's bounds, or scale or clip what is shown",
)
OPTIONS = Check(
    "legal options",
    "whoever acts has at least one legal option of every categorical head",
    "allow an option that does nothing, or let the agent be inactive; in a mask 1 is legal and 0 is not",
)
ABSENT = Check(
    "absent agents",
    "who does not act, being dead or waiting for its turn, is shown zeros and has nothing to choose, until it acts "
    "again; only the final observation may show it more",
    "set its values to 0 and its masks to false, but for at most one option that does nothing",
)
RETURNING = Check(
    "who has left",
    "where sides do not move in turns, an agent that has become inactive stays so until the episode ends: its memory "
    "is not cleared",
    "give whoever comes new a place that nobody had in this match; or declare turn_based if it only waits",
)
OWN_SIDE = Check(
    "own side",
    "where sides are unlike, what an agent is shown tells which of them it plays",
    "show every agent an entry that is 0 at home and 1 away; nothing has to be done where it is to play alike there",
)
ACCEPTED = Check(
    "legal actions",
    "every action that the masks allow is taken, and the match goes on or ends",
    "mend the step, or forbid the action in the mask",
)
REWARDS = Check(
    "rewards",
    "rewards are finite float32 of shape (E, N)",
    "mend the reward: a division by zero or an overflow gives such numbers",
)
ZERO_SUM = Check(
    "zero-sum",
    "where the spec says zero_sum, the rewards of a match add up to 0 over all its agents",
    "pay the one side what the other loses, or say zero_sum=False",
)
ENDS = Check(
    "ends",
    "a match ends within max_decisions, either terminated or truncated",
    "end it by the game's rules or cut it off at the limit, never both; or declare the longest match",
)
OUTCOMES = Check(
    "outcomes",
    "where a match is over its outcome says home's score in [0, 1] and a reason of the spec; elsewhere it says 0.5 and "
    "reason 0",
    "write the outcome where a match ends, and only there",
)
LENGTHS = Check(
    "lengths",
    "an outcome counts the decisions of the match so far, the last one among them",
    "count every step of a row from its match's first, and begin again with the next match",
)
FINAL = Check(
    "final observation",
    "final_observation is the match's own last one where an episode has ended, and the observation elsewhere; where a "
    "limit cut it off, somebody is active in it",
    "look at the match before the row is opened anew",
)
SEEDS = Check(
    "seeds",
    "a row opens by the seed that stands in next_seeds when its match ends, or that reset is given, and says it in "
    "seeds",
    "take the seed at the end of the match, and draw the next one after it, as SeededRows does",
)
KEPT = Check(
    "kept results",
    "what reset and step return belongs to the caller: a later step does not change it",
    "return copies, not views of what is stepped on",
)
REPEATS = Check(
    "repeats",
    "the same seeds and the same actions give the same match to the last bit",
    "draw all chance from the seed of the match, and none from the clock, the process or a generator that all share; "
    "or declare reproducible=False",
)
ROWS = Check(
    "rows",
    "a match does not depend on its row, on the rows beside it, or on the seed that the environment was made with",
    "keep every match's state in its own row, and derive all chance from the match's seed",
)
RESET = Check(
    "reset",
    "a match that is opened after another one, by reset or by itself, is the one that a new environment opens",
    "set back everything that belongs to a match when it is opened",
)
NEXT_MATCH = Check(
    "next match",
    "a match and its final observation do not depend on the match that its row plays next",
    "look at the match before the row is opened anew, and draw nothing from the next seed before that",
)
PROCESSES = Check(
    "processes",
    "what is played does not depend on how many processes step it",
    "keep nothing in modules or files that one match leaves for another",
)
IGNORED = Check(
    "actions of absent",
    "what inactive agents are given as their actions changes nothing",
    "leave out the actions of agents that are not active",
)
CHANCE = Check(
    "chance",
    "matches of different seeds differ where the spec says chance=True, and are the same where it says chance=False",
    "draw the game's chance from the seed that it is reset by, and nowhere else; or say otherwise",
)
ILLEGAL = Check(
    "illegal actions",
    "an action that the mask forbids, or that is no option, is refused with InvalidActionError and changes nothing, or "
    "the game's rules say what it does",
    "check actions before the first is carried out, as arena/environments/adapters/subprocess/env.py does",
)
REFUSALS = Check(
    "wrong calls",
    "seeds below 0 or of another number, a step before the first reset, and actions with a head too few or of another "
    "shape are refused with ArenaError",
    "derive from SeededRows of arena/environments/seeded.py, which refuses them",
)
STEP_LIMIT = Check(
    "step limit",
    "some matches end by the game's rules: one that a limit cuts off is scored as it stands, and learned from as if it "
    "went on",
    "let the game end matches (terminated), or give it a longer limit; where the limit is a rule of the game, let it "
    "terminate there, or say limit_decides=True. Nothing has to be done where only players at random get nowhere",
)
SIDES = Check(
    "sides",
    "between players of the same strength like sides are level, or one of them has an advantage, such as the first "
    "move",
    "if one side has an advantage by the rules, give TwoSided or TensorGame alike_sides=False, so that players are "
    "rated on each side. If sides should be level, try more --matches and another --seed (of level games one in twenty "
    "is warned of by chance), and then mend the game. Rated matches swap sides on the same seeds either way",
)
SCORES = Check(
    "scores and rewards",
    "who wins earns more: players learn from rewards, and are rated by scores",
    "look whether sides or signs are mixed up, and whether the reward pays for what wins",
)
CONTAINED = Check(
    "keeps to itself",
    "playing writes no files but temporary ones, unpickles nothing, opens no connection, starts no process and leaves "
    "no thread behind for which programs would wait at their end",
    "load what is needed when the module is imported or the game is made, and write nothing while it is played; let "
    "threads be daemons",
)
SPEED = Check("speed", "", "")

TABLE = tuple(each for each in list(globals().values()) if isinstance(each, Check))
PLAYED = TABLE[TABLE.index(LAYOUT) : TABLE.index(REPEATS)]
"""Checks of every decision while matches are played at random."""
LATER = TABLE[TABLE.index(REPEATS) : TABLE.index(SPEED)]
"""Checks that need an environment whose matches can be played."""
