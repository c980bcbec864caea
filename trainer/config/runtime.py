"""Settings of the run, the environment, the league and the learner's role."""

from enum import StrEnum

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from league.wire import Balance, Name, Role, Start
from trainer.config.strict_model import StrictModel

MAX_REWARD_COMPONENT_SHARE = 0.8
"""Largest share of the reward that one of its components may have before a health rule warns."""

LEARNER_NAME_MAX = 56
"""Longest name of a learner: its worker is called `trainer-`, this, and as much of the game's name as fits."""


WORKER_NAME_MAX = 64
"""Longest name of a worker that fits wherever the league shows it."""


def check_name(name: str, longest: int) -> str:
    """Check a name by the rules of the league.

    Raises:
        ValueError: It has other characters, or is too long.
    """
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        rule = "letters, digits, spaces and any of _ . : + -, no space and no colon in front"
        raise ValueError(f"give 1 to {longest} {rule}") from error
    if len(name) > longest:
        raise ValueError(f"it has {len(name)} characters; give at most {longest}")
    return name


class MatmulPrecision(StrEnum):
    """Precision of float32 matrix products on a GPU, by torch's names."""

    HIGHEST = "highest"
    """Float32 itself."""
    HIGH = "high"
    """TF32: the range of float32 with 10 bits of its 23."""


class RunSettings(StrictModel):
    """Length, hardware and saving.

    One thread is the default because a league's machine runs several processes: two threads that wait for each other
    on two busy cores made a 97 ms step take up to 3.5 s.
    """

    seed: int = Field(0, ge=0, lt=2**63)
    """Seed of weights, sampling and shuffling."""
    device: str = Field("cpu")
    """Torch device for learning and acting, such as cpu, cuda or cuda:1."""
    threads: int = Field(1, ge=1, le=256)
    """Torch threads of this process; raise it on a machine that runs one trainer alone."""
    ranks_timeout_s: float = Field(600.0, gt=0.0, le=86400.0)
    """Under torchrun, seconds that a process waits for another before it counts as lost."""
    total_timesteps: int = Field(0, ge=0)
    """Environment steps after which the run ends; 0 for no end."""
    save_every_updates: int = Field(20, ge=1)
    """Updates between two saves of the run's state."""
    deterministic: bool = Field(False)
    """Use deterministic algorithms only; slower on a GPU, and turns cudnn_benchmark off."""
    matmul_precision: MatmulPrecision = Field(MatmulPrecision.HIGHEST)
    """Float32 matrix products on a GPU: highest (float32) or high (TF32, faster, about three digits)."""
    cudnn_benchmark: bool = Field(False)
    """Let cuDNN time its convolution algorithms for each input size; every new minibatch size is timed again."""


class EnvironmentSettings(StrictModel):
    """The game."""

    name: str = Field("mech-duel", min_length=1)
    """Registered environment."""
    num_envs: int = Field(64, ge=1, le=65536)
    """Parallel matches, each with its own opponent."""
    self_play: float = Field(0.35, ge=0.0, le=1.0)
    """Share of the matches in which the learner plays itself and learns from both sides."""
    processes: int = Field(0, ge=0, le=256)
    """Worker processes that step games with one match per instance, such as PettingZoo's; 0 steps them in the trainer's
    process."""
    step_limit_s: float = Field(120.0, gt=0.0, le=86400.0)
    """Seconds that a worker process may take for a step; one that takes longer is killed and replaced."""
    max_reward_component_share: float = Field(MAX_REWARD_COMPONENT_SHARE, gt=0.0, le=1.0)
    """Share of the absolute reward above which one component is diagnosed as reward_dominated."""

    @property
    def self_play_rows(self) -> frozenset[int]:
        """Indices of the environments with self-play, always the same and evenly spaced.

        A share below 1 leaves at least one environment to opponents: without any, a learner would never be rated.
        """
        most = self.num_envs if self.self_play == 1.0 else self.num_envs - 1
        count = min(round(self.self_play * self.num_envs), most)
        return frozenset(
            row for row in range(self.num_envs) if (row + 1) * count // self.num_envs > row * count // self.num_envs
        )


class CurriculumSettings(StrictModel):
    """Curriculum of easier matches, if the environment has curriculum stages; they are not reported to the league.

    The strength of opponents is up to the league.
    """

    matches: int = Field(0, ge=0)
    """Matches over which the curriculum grows to the whole game; 0 disables it."""
    team_share: float = Field(1.0, gt=0.0, le=1.0)
    """Share of each team in the first match."""
    map_share: float = Field(1.0, gt=0.0, le=1.0)
    """Share of the maps, easiest first, in the first match."""

    @model_validator(mode="after")
    def _shares_grow_over_matches(self) -> "CurriculumSettings":
        for name, share in {"team_share": self.team_share, "map_share": self.map_share}.items():
            if share < 1.0 and not self.matches:
                raise ValueError(
                    f"curriculum.{name} is {share}, but curriculum.matches is 0, which plays the whole game from the "
                    f"start: set curriculum.matches too, or leave curriculum.{name} out"
                )
        return self


class LeagueSettings(StrictModel):
    """The league and this learner in it."""

    learner: str = Field("main")
    """Name of the learner."""
    role: Role = Field("main")
    """Role of the learner: main, main_exploiter or league_exploiter."""
    lease_budget: int = Field(4, ge=1)
    """Matches per opponent lease."""
    snapshot_every_steps: int = Field(500000, ge=1)
    """Environment steps between two snapshots; the league may ask for one earlier."""
    ema_horizon_steps: int = Field(0, ge=0)
    """A main publishes the exponential moving average of its weights over about this many environment steps, at most a
    ninth of those trained; 0 publishes the weights themselves, as exploiters always do."""
    heartbeat_s: float = Field(10.0, gt=0.0)
    """Seconds between two heartbeats."""
    timeout_s: float = Field(5.0, gt=0.0)
    """Timeout of a request to the league, in seconds."""
    connect_s: float = Field(60.0, ge=0.0)
    """Seconds that the first start waits for the league named by --url or LEAGUE_URL."""
    backoff_max_s: float = Field(60.0, gt=0.0)
    """Longest back-off between two attempts of a request, in seconds."""
    disk_cache_bytes: int = Field(2 * 2**30, ge=0)
    """Size of the cache of opponents in the run folder."""
    memory_cache_bytes: int = Field(256 * 2**20, ge=0)
    """Size of the cache of loaded opponents in memory."""
    device_cache_bytes: int = Field(256 * 2**20, ge=0)
    """Size of the cache of idle opponents on run.device."""

    @property
    def averages(self) -> bool:
        """Whether published weights are averaged."""
        return self.role == "main" and self.ema_horizon_steps > 0

    @field_validator("learner")
    @classmethod
    def _is_a_name(cls, learner: str) -> str:
        return check_name(learner, LEARNER_NAME_MAX)


class RoleSettings(StrictModel):
    """Rules of the learner's role; the league's value holds for each that is left out.

    See docs/concepts/matchmaking.md.
    """

    snapshot_steps: int | None = Field(None, ge=0)
    """Least steps between two snapshots; default: half of league.snapshot_every_steps."""
    snapshot_win_rate: float | None = Field(None, ge=0.0, le=1.0)
    """Win rate against every relevant opponent at which a snapshot is taken early."""
    reset: float | None = Field(None, ge=0.0, le=1.0)
    """Probability of resetting the weights after a snapshot."""
    start: Start | None = Field(None)
    """Weights after a reset: first (its own initial ones) or main (a main's)."""
    self_play_share: float | None = Field(None, ge=0.0, le=1.0)
    """Share of a main's leases against itself and other mains, environment.self_play aside."""
    weighting: str | None = Field(None)
    """Weighting of opponents; see docs/concepts/matchmaking.md."""
    power: float | None = Field(None, ge=0.0)
    """Exponent of the weighting hard."""
    uniform_share: float | None = Field(None, ge=0.0, le=1.0)
    """Share of opponents drawn uniformly."""
    balance: Balance | None = Field(None)
    """Unit that is weighted: snapshots, or learners, however many snapshots each has."""
    verification_share: float | None = Field(None, ge=0.0, le=1.0)
    """Share of a main's leases against opponents that beat it."""
    live_above: float | None = Field(None, ge=0.0, le=1.0)
    """Win rate above which it plays a main's current weights rather than its past."""
    exploiter_below: float | None = Field(None, ge=0.0, le=1.0)
    """Win rate under which an exploiter counts as a weakness of a main."""
    past_below: float | None = Field(None, ge=0.0, le=1.0)
    """Win rate under which one of its own snapshots counts as a weakness of a main."""
