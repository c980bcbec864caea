"""What every environment promises, rule by rule; each is a row of the report."""

from dataclasses import dataclass

from arena.conformance.report import Finding, Row, Verdict


@dataclass(frozen=True)
class Rule:
    """One promise.

    Attributes:
        check: What its row is called.
        says: The rule.
        way_out: What to do where it is broken.
    """

    check: str
    says: str
    way_out: str

    def passed(self, said: str) -> Row:
        """It was kept."""
        return Row(self.check, Verdict.PASSED, said, None)

    def info(self, said: str) -> Row:
        """There is nothing to keep, and something to know."""
        return Row(self.check, Verdict.INFO, said, None)

    def failed(self, seen: str, where: str = "") -> Row:
        """It was broken."""
        return Row(self.check, Verdict.FAILED, seen, Finding(seen, where, self.says, self.way_out))

    def warned(self, seen: str, where: str = "") -> Row:
        """It was kept, and somebody should know something."""
        return Row(self.check, Verdict.WARNING, seen, Finding(seen, where, self.says, self.way_out))

    def not_applicable(self, why: str) -> Row:
        """It says nothing about this environment."""
        return Row(self.check, Verdict.NOT_APPLICABLE, why, None)

    def not_reached(self, why: str) -> Row:
        """Something else was broken before."""
        return Row(self.check, Verdict.NOT_REACHED, why, None)


SPECIFICATION = Rule(
    "specification",
    "what an environment declares is complete and without contradiction, and is the same with every make",
    "mend the spec; arena/environments/spec.py says what each field means",
)
SIGNATURE = Rule(
    "signature",
    "two processes that make the environment declare the same: players meet by its signature alone",
    "declare nothing that depends on the process, such as the order of a set, a path, the time or a counter",
)
ANSWERS = Rule(
    "answers",
    "a process of its own can open matches and play decisions of them, each within the limit",
    "mend what the traceback names; what a game needs has to be there wherever it is made",
)
LAYOUT = Rule(
    "layout",
    "observations have the shapes that the spec declares: values float32, masks and active bool, on the environment's "
    "device",
    "build them by spec.num_agents, spec.observation_size and the heads that are masked",
)
RANGES = Rule(
    "ranges",
    "every entry of an observation is a finite number within its block's low and high; a choice is a whole number",
    "widen the block's bounds, or scale or clip what is shown",
)
OPTIONS = Rule(
    "legal options",
    "whoever acts has at least one legal option of every categorical head",
    "allow an option that does nothing, or let the agent be inactive; in a mask 1 is legal and 0 is not",
)
ABSENT = Rule(
    "absent agents",
    "who does not act, being dead or waiting for its turn, is shown zeros and has nothing to choose, until it acts "
    "again; only the final observation may show it more",
    "set its values to 0 and its masks to false, but for at most one option that does nothing",
)
RETURNING = Rule(
    "who has left",
    "where sides do not move in turns, an agent that has become inactive stays so until the episode ends: its memory "
    "is not cleared",
    "give whoever comes new a place that nobody had in this match; or declare turn_based if it only waits",
)
ACCEPTED = Rule(
    "legal actions",
    "every action that the masks allow is taken, and the match goes on or ends",
    "mend the step, or forbid the action in the mask",
)
ILLEGAL = Rule(
    "illegal actions",
    "an action that the mask forbids, or that is no option, is refused with InvalidActionError and changes nothing, or "
    "the game's rules say what it does",
    "check actions before the first is carried out, as arena/environments/adapters/subprocess/env.py does",
)
REFUSALS = Rule(
    "wrong calls",
    "seeds below 0 or of another number, a step before the first reset, and actions with a head too few or of another "
    "shape are refused with ArenaError",
    "derive from SeededRows of arena/environments/seeded.py, which refuses them",
)
OWN_SIDE = Rule(
    "own side",
    "where sides are unlike, what an agent is shown tells which of them it plays",
    "show every agent an entry that is 0 at home and 1 away; nothing has to be done where it is to play alike there",
)
REWARDS = Rule(
    "rewards",
    "rewards are finite float32 of shape (E, N)",
    "mend the reward: a division by zero or an overflow gives such numbers",
)
ZERO_SUM = Rule(
    "zero-sum",
    "where the spec says zero_sum, the rewards of a match add up to 0 over all its agents",
    "pay the one side what the other loses, or say zero_sum=False",
)
ENDS = Rule(
    "ends",
    "a match ends within max_decisions, either terminated or truncated",
    "end it by the game's rules or cut it off at the limit, never both; or declare the longest match",
)
OUTCOMES = Rule(
    "outcomes",
    "where a match is over its outcome says home's score in [0, 1] and a reason of the spec; elsewhere it says 0.5 and "
    "reason 0",
    "write the outcome where a match ends, and only there",
)
LENGTHS = Rule(
    "lengths",
    "an outcome counts the decisions of the match so far, the last one among them",
    "count every step of a row from its match's first, and begin again with the next match",
)
FINAL = Rule(
    "final observation",
    "final_observation is the match's own last one where an episode has ended, and the observation elsewhere; where a "
    "limit cut it off, somebody is active in it",
    "look at the match before the row is opened anew",
)
SEEDS = Rule(
    "seeds",
    "a row opens by the seed that stands in next_seeds when its match ends, or that reset is given, and says it in "
    "seeds",
    "take the seed at the end of the match, and draw the next one after it, as SeededRows does",
)
KEPT = Rule(
    "kept results",
    "what reset and step return belongs to the caller: a later step does not change it",
    "return copies, not views of what is stepped on",
)
REPEATS = Rule(
    "repeats",
    "the same seeds and the same actions give the same match to the last bit",
    "draw all chance from the seed of the match, and none from the clock, the process or a generator that all share; "
    "or declare reproducible=False",
)
ROWS = Rule(
    "rows",
    "a match does not depend on its row, on the rows beside it, or on the seed that the environment was made with",
    "keep every match's state in its own row, and derive all chance from the match's seed",
)
RESET = Rule(
    "reset",
    "a match that is opened after another one, by reset or by itself, is the one that a new environment opens",
    "set back everything that belongs to a match when it is opened",
)
NEXT_MATCH = Rule(
    "next match",
    "a match and its final observation do not depend on the match that its row plays next",
    "look at the match before the row is opened anew, and draw nothing from the next seed before that",
)
PROCESSES = Rule(
    "processes",
    "what is played does not depend on how many processes step it",
    "keep nothing in modules or files that one match leaves for another",
)
CHANCE = Rule(
    "chance",
    "matches of different seeds differ where the spec says chance=True, and are the same where it says chance=False",
    "draw the game's chance from the seed that it is reset by, and nowhere else; or say otherwise",
)
IGNORED = Rule(
    "actions of absent",
    "what inactive agents are given as their actions changes nothing",
    "leave out the actions of agents that are not active",
)
STEP_LIMIT = Rule(
    "step limit",
    "some matches end by the game's rules: one that a limit cuts off is scored as it stands, and learned from as if it "
    "went on",
    "let the game end matches (terminated), or give it a longer limit; where the limit is a rule of the game, let it "
    "terminate there, or say limit_decides=True. Nothing has to be done where only players at random get nowhere",
)
SIDES = Rule(
    "sides",
    "between players of the same strength like sides are level, or one of them has an advantage, such as the first "
    "move",
    "if one side has an advantage by the rules, give TwoSided or TensorGame alike_sides=False, so that players are "
    "rated on each side. If sides should be level, try more --matches and another --seed (of level games one in twenty "
    "is warned of by chance), and then mend the game. Rated matches swap sides on the same seeds either way",
)
SCORES = Rule(
    "scores and rewards",
    "who wins earns more: players learn from rewards, and are rated by scores",
    "look whether sides or signs are mixed up, and whether the reward pays for what wins",
)
CONTAINED = Rule(
    "keeps to itself",
    "playing writes no files but temporary ones, unpickles nothing, opens no connection, starts no process and leaves "
    "no thread behind for which programs would wait at their end",
    "load what is needed when the module is imported or the game is made, and write nothing while it is played; let "
    "threads be daemons",
)
SPEED = Rule("speed", "", "")

PLAYED = (
    LAYOUT,
    RANGES,
    OPTIONS,
    ABSENT,
    RETURNING,
    OWN_SIDE,
    ACCEPTED,
    REWARDS,
    ZERO_SUM,
    ENDS,
    OUTCOMES,
    LENGTHS,
    FINAL,
    SEEDS,
    KEPT,
)
"""Rules that are looked at while matches are played at random."""
