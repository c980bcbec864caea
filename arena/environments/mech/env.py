"""The mech arena as an environment: E matches stepped together by Warp kernels."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from arena.environments.base import (
    Actions,
    CountsBytes,
    CurriculumEnvironment,
    ItemisedEnvironment,
    MeasuredEnvironment,
    Observation,
    Outcome,
    ShapedEnvironment,
    StepResult,
)
from arena.environments.mech.config.curriculum import CurriculumStage
from arena.environments.mech.config.rewards import COMPONENTS, RewardWeights, preset_weights
from arena.environments.mech.config.scenario import PRESETS, MechConfig
from arena.environments.mech.engine import Structs, make_stepping
from arena.environments.mech.engine import arrays as batch
from arena.environments.mech.maps.pool import MAPS, build_pool
from arena.environments.mech.metrics import MechMetrics
from arena.environments.mech.observation_spec import make_spec
from arena.environments.seeded import SeededBatch


class MechEnvironment(SeededBatch):
    """E matches of one composition.

    Attributes:
        config: The composition.
        weights: Weight of every reward component.
        component_names: Names of the reward components.
        arrays: The live arrays of the state, (E, ...), by their names in `kernels.state.State`; writing to them changes
            the matches.
        hulls: The constant rows (N,) of the mechs, by their names in `kernels.state.Hulls`.
        stage: Current stage of the curriculum; see `set_stage`.
        on_decided: Functions called in every step after the decision and before matches that ended are reopened.
    """

    capabilities = (ItemisedEnvironment, ShapedEnvironment, MeasuredEnvironment, CurriculumEnvironment, CountsBytes)
    component_names = COMPONENTS

    def __init__(self, config: MechConfig, weights: RewardWeights, *, num_envs: int, device: str, seed: int) -> None:
        super().__init__(make_spec(config), num_envs=num_envs, device=device, seed=seed)
        self.config, self.weights = config, weights
        self.on_decided: list[Callable[[], None]] = []
        where = self.device
        shared = {
            "seeds": self.seeds,
            "next_seeds": self.next_seeds,
            "row_seeds": self._row_seeds,
            "episodes": self._episodes,
        }
        pool = build_pool(config)
        self._report = batch.allocate_report(num_envs, self.spec.num_agents, where)
        self._structs = Structs(
            state=batch.allocate_state(shared, config, num_envs, where),
            hulls=batch.describe_hulls(config, pool.footprints, where),
            arms=batch.describe_arms(config, where),
            terrain=batch.describe_terrain(config, pool, where),
            field=batch.describe_field(config, self.spec, weights, where),
            commands=batch.allocate_commands(self.spec, num_envs, where),
            report=self._report,
        )
        self.arrays: Mapping[str, Tensor] = self._structs.state.tensors
        self.hulls: Mapping[str, Tensor] = self._structs.hulls.tensors
        self.set_stage(CurriculumStage(own_share=weights.own_share))
        self._stepping = make_stepping(self._structs, self.spec, num_envs, where)

    @property
    def components(self) -> Float[Tensor, "E N C"]:
        """Weighted reward components of the last decision, in the order of COMPONENTS, before sides share."""
        return self._report["components"].clone()

    @property
    def own_bytes(self) -> int:
        """Memory of all matches, without observations."""
        return sum(each.size_bytes for each in (self._structs.state, self._structs.commands, self._structs.report))

    @property
    def shared_bytes(self) -> int:
        """Memory shared by all matches in bytes: maps, and constants of the composition."""
        shared = (self._structs.hulls, self._structs.arms, self._structs.terrain, self._structs.field)
        return sum(each.size_bytes for each in shared)

    @property
    def shaping_gamma(self) -> float:
        """Discount of the component `approach`."""
        return self.weights.gamma

    @property
    def nan_actions(self) -> Int[Tensor, "E N"]:
        """Number of NaN actions so far; each counted as 0."""
        return self.arrays["nan_actions"].clone()

    def set_stage(self, stage: CurriculumStage) -> None:
        """Set the stage of the curriculum, with opponents away; teams and maps change with each row's next match."""
        self.stage = stage
        self.arrays["fire_probability"].copy_(torch.tensor([1.0, stage.opponent_fire]))
        self.arrays["mechs"].fill_(max(1, round(stage.team_share * len(self.config.team))))
        self.arrays["maps"].fill_(max(1, round(stage.map_share * MAPS)))
        self.arrays["own_share"].fill_(stage.own_share)

    def measure(self) -> MechMetrics:
        """Compute the behaviour measures of both sides; see `MeasuredEnvironment`."""
        return MechMetrics(self, self.hulls)

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._take_seeds(seeds)
        # Reopening opens exactly the rows that ended.
        self.arrays["ended"].fill_(True)
        opening = self._stepping.reopen(batch.allocate_view(self.spec, self.num_envs, self.device))
        return self._observation(opening)

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every mech; see `Environment.step`."""
        self._require_fit(actions)
        for name, action in actions.items():
            self._structs.commands[name].copy_(action)
        final = self._stepping.decide()
        for listen in self.on_decided:
            listen()
        following = self._stepping.reopen(final)
        # Copies, because the arrays are reused in the next step and results belong to the caller.
        report = {name: tensor.clone() for name, tensor in self._report.tensors.items() if name != "components"}
        return StepResult(
            observation=self._observation(following),
            reward=report["reward"],
            terminated=report["terminated"],
            truncated=report["truncated"],
            final_observation=self._observation(final),
            outcome=Outcome(score=report["score"], reason=report["reason"], decisions=report["decisions"]),
        )

    def _observation(self, view: Mapping[str, Tensor]) -> Observation:
        return Observation(
            values=view["values"],
            masks={head.name: view[head.name] for head in self.spec.heads},
            active=view["active"],
        )


def make_mech(name: str, *, num_envs: int, device: str, seed: int) -> MechEnvironment:
    """Create matches of the preset `name`."""
    return MechEnvironment(PRESETS[name], preset_weights(name), num_envs=num_envs, device=device, seed=seed)
