"""Sections that say what runs, where, and in whose company."""

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from league.wire import Balance, Name, Role, Start
from trainer.history import COMPONENT_SHARE
from trainer.settings.section import Section

LEARNER_NAME_MAX = 56
"""Longest name of a learner: its worker is called `trainer-`, this, and what of the game's name still fits."""


WORKER_NAME_MAX = 64
"""Longest name of a worker that fits wherever the league shows it."""


def check_name(name: str, longest: int) -> str:
    """A name that the league takes.

    Raises:
        ValueError: It has none of its form, or is too long.
    """
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        rule = "letters, digits, spaces and any of _ . : + -, no space and no colon in front"
        raise ValueError(f"give 1 to {longest} {rule}") from error
    if len(name) > longest:
        raise ValueError(f"it has {len(name)} characters; give at most {longest}")
    return name


class RunSettings(Section):
    """How long and on what.

    One thread is the default because a league's machine runs several processes: two threads that wait for each other
    on two busy cores made a 97 ms step take up to 3.5 s.
    """

    seed: int = Field(0, ge=0, lt=2**63, description="Seed of weights, sampling and shuffling")
    device: str = Field("cpu", description="Torch device that learns and acts, such as cpu or cuda:0")
    threads: int = Field(1, ge=1, le=256, description="Torch threads of this process")
    update_processes: int = Field(
        0,
        ge=0,
        le=256,
        description="Processes that share every minibatch of an update on a CPU, this one among them; 0 for one for "
        "each thread where that pays, 1 for this one alone",
    )
    ranks_timeout_s: float = Field(
        600.0,
        gt=0.0,
        le=86400.0,
        description="Under torchrun, how long one process waits for another before it is taken for lost",
    )
    total_steps: int = Field(0, ge=0, description="Stop after this many environment steps; 0 never stops")
    save_every_updates: int = Field(20, ge=1, description="Save the run's state after this many updates")
    deterministic: bool = Field(
        False, description="Use algorithms that repeat to the last bit, slower on a GPU; it overrules cudnn_tuner"
    )
    cudnn_tuner: bool = Field(True, description="Let cuDNN try its algorithms and keep the fastest, on a GPU")

    @model_validator(mode="after")
    def _processes_share_on_a_processor(self) -> "RunSettings":
        if self.update_processes > 1 and self.device != "cpu":
            raise ValueError(
                f"run.update_processes is {self.update_processes}, but run.device is {self.device}, where one process "
                "makes updates: set it to 0, or run.device to cpu"
            )
        return self


class EnvironmentSettings(Section):
    """What is played."""

    name: str = Field("mech-duel", min_length=1, description="Registered environment")
    num_envs: int = Field(64, ge=1, le=65536, description="Matches that run at once; each has its own opponent")
    self_play: float = Field(
        0.35, ge=0.0, le=1.0, description="Share of them in which the learner plays itself and learns from both sides"
    )
    processes: int = Field(
        0,
        ge=0,
        le=256,
        description="Processes that step them, where the game plays one match at a time, such as PettingZoo's; 0 for "
        "the trainer's own",
    )
    step_limit_s: float = Field(
        120.0,
        gt=0.0,
        le=86400.0,
        description="Seconds that one of them may take for a decision of its matches: one that takes longer is ended "
        "and replaced",
    )

    @property
    def self_play_rows(self) -> frozenset[int]:
        """Numbers of the environments of self-play, always the same; neighbours have their share, however few.

        A share below 1 leaves one environment to others: a learner that met nobody would never be rated.
        """
        most = self.num_envs if self.self_play == 1.0 else self.num_envs - 1
        count = min(round(self.self_play * self.num_envs), most)
        return frozenset(
            row for row in range(self.num_envs) if (row + 1) * count // self.num_envs > row * count // self.num_envs
        )


class CurriculumSettings(Section):
    """Easier matches first, where the environment can be taught; none of them is reported to the league.

    How strong opponents are is the league's to say.
    """

    matches: int = Field(
        0, ge=0, description="Matches over which lessons grow to the whole game; 0 plays it from the start"
    )
    team_share: float = Field(1.0, gt=0.0, le=1.0, description="Share of each team that takes part in the first match")
    map_share: float = Field(1.0, gt=0.0, le=1.0, description="Share of the maps, the easiest, in the first match")

    @model_validator(mode="after")
    def _shares_grow_over_matches(self) -> "CurriculumSettings":
        for name, share in {"team_share": self.team_share, "map_share": self.map_share}.items():
            if share < 1.0 and not self.matches:
                raise ValueError(
                    f"curriculum.{name} is {share}, but curriculum.matches is 0, which plays the whole game from the "
                    f"start: set curriculum.matches too, or leave curriculum.{name} out"
                )
        return self


class HealthSettings(Section):
    """What the monitor of a run is told."""

    component_share: float = Field(
        COMPONENT_SHARE,
        gt=0.0,
        le=1.0,
        description="Share of what is earned that one component of the reward may have before it is said to dominate",
    )


class LeagueSettings(Section):
    """The league and this learner's place in it."""

    learner: str = Field("main", description="Name of the trained lineage")
    role: Role = Field("main", description="What the learner is there for: main, main_exploiter or league_exploiter")
    lease_budget: int = Field(4, ge=1, description="Matches against one leased opponent")
    snapshot_every_steps: int = Field(
        500_000, ge=1, description="Publish a snapshot after this many steps, or earlier where the league says so"
    )
    average_steps: int = Field(
        0,
        ge=0,
        description="A main publishes the mean of its weights over so many steps, and over no more than about a ninth "
        "of those since they began; 0 publishes them as they are, as exploiters do in any case",
    )
    heartbeat_s: float = Field(10.0, gt=0.0, description="Time between two reports of progress")
    timeout_s: float = Field(5.0, gt=0.0, description="Longest wait for the league before training goes on")
    connect_s: float = Field(60.0, ge=0.0, description="How long a first start waits for the league")
    backoff_max_s: float = Field(60.0, gt=0.0, description="Longest pause between attempts while the league is away")
    disk_cache_bytes: int = Field(2 * 2**30, ge=0, description="Opponents kept in the run folder")
    memory_cache_bytes: int = Field(256 * 2**20, ge=0, description="Opponents kept loaded")
    device_cache_bytes: int = Field(256 * 2**20, ge=0, description="Opponents kept where they act, beyond who plays")

    @property
    def averages(self) -> bool:
        """Whether what is published is a mean."""
        return self.role == "main" and self.average_steps > 0

    @field_validator("learner")
    @classmethod
    def _is_a_name(cls, learner: str) -> str:
        return check_name(learner, LEARNER_NAME_MAX)


class RoleSettings(Section):
    """Numbers of the learner's role; where one is left out, the league has it. See docs/league_play.md."""

    snapshot_steps: int | None = Field(
        None, ge=0, description="Steps after which it may leave a snapshot; half of league.snapshot_every_steps"
    )
    snapshot_win_rate: float | None = Field(
        None, ge=0.0, le=1.0, description="It then does once it beats everybody who counts more often than that"
    )
    reset: float | None = Field(None, ge=0.0, le=1.0, description="Probability of beginning anew after a snapshot")
    start: Start | None = Field(None, description="With whose weights: first for its own first ones, main for a main's")
    self_play_share: float | None = Field(
        None, ge=0.0, le=1.0, description="A main's share against itself and other mains, without environment.self_play"
    )
    weighting: str | None = Field(None, description="Rule by which it prefers opponents; see docs/matchmaking.md")
    power: float | None = Field(None, ge=0.0, description="Exponent of the rule hard")
    uniform_share: float | None = Field(None, ge=0.0, le=1.0, description="Share of opponents taken evenly")
    balance: Balance | None = Field(
        None, description="Who is met alike but for that rule: snapshots, or learners, however many each of them left"
    )
    verification_share: float | None = Field(
        None, ge=0.0, le=1.0, description="A main's share against its known weaknesses"
    )
    live_above: float | None = Field(
        None, ge=0.0, le=1.0, description="It plays mains as they are now that it beats more often, else their past"
    )
    exploiter_below: float | None = Field(
        None, ge=0.0, le=1.0, description="Exploiters that a main beats less often are a weakness"
    )
    past_below: float | None = Field(
        None, ge=0.0, le=1.0, description="Own snapshots that a main beats less often are a weakness"
    )
