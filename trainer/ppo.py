"""The update: epochs over shuffled segments, with the stop, the clip and the guard in their places.

The loss is put together in `objective` from `losses`; indexing is in `chunks`, scales are in `normalization`.
"""

import logging
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from arena.policies import ActorCritic
from trainer.auxiliary import NextObservation
from trainer.chunks import Segments, cut, shuffled
from trainer.diagnostics import head_gradients
from trainer.distributed import ALONE, Ranks, any_of, average, average_gradient
from trainer.errors import DivergedError
from trainer.objective import Batch, Coefficients
from trainer.optimizer import Optimizer, learned
from trainer.partners import NOBODY, Minibatch, Nobody, PartnerLostError, Partners
from trainer.rollout import Rollout
from trainer.samples import Targets
from trainer.settings import OptimizerSettings, PPOSettings
from trainer.staleness import state_drift
from trainer.tally import Tally
from trainer.weighing import Lot, Part, Weigher

logger = logging.getLogger(__name__)

Renew = Callable[[Float[Tensor, "T R"]], Targets]
"""Takes values of all decisions, in the critic's units, for targets."""


class PPO:
    """Recurrent proximal policy optimisation of one network, alone or with the same network on other ranks.

    Gradients, the KL stop and the guard against what is not finite are those of the samples of all ranks. A minibatch
    goes through the network in parts, and back before the next: gradients add up to those of the whole.

    Attributes:
        auxiliary: Predicts observations; None where that has no weight.
        under_floor: Heads whose mean entropy was less than their floor in the last minibatch that they decided in:
            their bonus is raised in the next one.
        optimizer: Moves all that learns.
        rejected_steps: Optimiser steps that were not made because something was not finite.
    """

    def __init__(
        self,
        network: ActorCritic,
        settings: PPOSettings,
        optimizer: OptimizerSettings,
        rng: torch.Generator,
        ranks: Ranks = ALONE,
    ) -> None:
        self._network, self._settings, self._rng, self._ranks = network, settings, rng, ranks
        self._gradient_names = [f"heads/{head.name}/gradient_norm" for head in network.layout.heads]
        self._max_gradient_norm = optimizer.max_gradient_norm
        self.auxiliary = NextObservation(network) if settings.auxiliary_weight else None
        self._weigher = Weigher(network, settings, self.auxiliary, rng)
        self._partners: Partners | Nobody = NOBODY
        self.optimizer = Optimizer(learned(network, self.auxiliary), optimizer)
        self.under_floor = torch.zeros(
            len(network.layout.heads), dtype=torch.bool, device=network.observation_mean.device
        )
        self.rejected_steps = 0
        self.rejected_in_a_row = 0

    def update(
        self,
        rollout: Rollout,
        targets: Targets,
        coefficients: Coefficients,
        stopping: Callable[[], bool],
        renew: Renew | None = None,
    ) -> dict[str, float | None]:
        """Improve the network on one rollout and say how it went.

        The update ends early, before the optimiser's step, where the policy has moved 1.5 times the target KL away
        from the one that acted, or where `stopping` says so. `renew` gives new targets for every epoch after the first.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
        """
        self.optimizer.set_rate(coefficients.learning_rate)
        tally = Tally()
        with self._partners.at_work():
            segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
            self._network.train()
            try:
                kept_close = self._learn(rollout, targets, segments, coefficients, stopping, tally, renew)
            finally:
                self._network.eval()
            if (drift := state_drift(self._network, rollout)) is not None:
                tally.add("losses/state_drift", drift)
        return {
            **tally.means(),
            "losses/kl_stop": float(not kept_close),
            "losses/rejected_steps": float(self.rejected_steps),
        }

    def share_with(self, partners: Partners) -> None:
        """Make updates on their rollout together with them from now on."""
        self._partners.close()
        self._partners = partners

    @property
    def partners(self) -> Partners | Nobody:
        """Processes that take part in updates."""
        return self._partners

    def reject(self) -> None:
        """Count something that is not finite and must not reach the weights.

        Raises:
            DivergedError: It was once too often in a row.
        """
        self.rejected_steps += 1
        self.rejected_in_a_row += 1
        if self.rejected_in_a_row >= self._settings.nonfinite_limit:
            raise DivergedError(
                f"{self.rejected_in_a_row} updates in a row were not finite: the weights are those before them; "
                "lower schedules.learning_rate, or look for NaN in the environment's observations and rewards"
            )

    def evaluate(self, rollout: Rollout, targets: Targets, segments: Segments) -> Batch:
        """Run the network over whole segments and gather the decisions that count."""
        lot = Lot(segments, self._weigher.counts(targets, segments))
        batch, _ = self._weigher.judge(self._weigher.gather(rollout, targets, lot))
        return batch

    @torch.no_grad()
    def values(self, rollout: Rollout, segments: Segments) -> Float[Tensor, "T R"]:
        """V of every decision at which the agent acted under the present weights; the rollout's elsewhere."""
        values = rollout.value.flatten().clone()
        parts = max(self._settings.minibatches, len(self._weigher.deal(segments)))
        for chosen in segments.deal(min(parts, len(segments))):
            values[chosen.rows] = self._weigher.values(rollout, chosen)
        return values.view_as(rollout.value)

    def _learn(
        self,
        rollout: Rollout,
        targets: Targets,
        segments: Segments,
        coefficients: Coefficients,
        stopping: Callable[[], bool],
        tally: Tally,
        renew: Renew | None,
    ) -> bool:
        """Go through all epochs; false if the policy moved too far on the way."""
        device = segments.state.hidden.device
        shares = [int(each) for each in self._ranks.gather(torch.tensor(len(segments), device=device))]
        count = min([self._settings.minibatches, *(share for share in shares if share)])
        for epoch in range(self._settings.epochs if any(shares) else 0):
            if epoch and renew is not None:
                targets = renew(self.values(rollout, segments))
            order = shuffled(segments, count, self._rng)
            partners = self._partners if rollout is self._partners.rollout else NOBODY
            minibatches = partners.open(self._weigher, targets, segments, order, self._rng, first=epoch == 0)
            for minibatch in minibatches:
                if any_of(self._ranks, stopping(), device):
                    return True
                if not self._step(rollout, targets, segments, minibatch, coefficients, tally):
                    return False
        return True

    def _step(
        self,
        rollout: Rollout,
        targets: Targets,
        segments: Segments,
        minibatch: Minibatch,
        coefficients: Coefficients,
        tally: Tally,
    ) -> bool:
        """Learn from one minibatch; false if the policy has moved too far and nothing was learned."""
        partners = self._partners if len(minibatch.others) else NOBODY
        if partners is NOBODY:
            minibatch = minibatch.alone(segments)
        lots = self._weigher.lots(targets, minibatch.own)
        counts = _counts(lots, minibatch)
        count = counts.sum()
        if not any_of(self._ranks, bool(lots) or bool(minibatch.others.any()), count.device):
            return True
        self.optimizer.clear()
        predicted = self._predicted(rollout, targets, segments, minibatch, count)
        weights = self._weigher.objective.weights(coefficients, self.under_floor)
        try:
            whole = self._weigh(partners, rollout, targets, minibatch, lots, counts, predicted, weights)
        except PartnerLostError as error:  # nothing has changed yet, and other ranks hear nothing of it
            logger.warning(
                "%s: nothing is lost, but from here on updates are made in one process and do not repeat those of "
                "another run to the last bit; start again to have all processes",
                error,
            )
            self._dismiss_partners()
            self.optimizer.clear()
            minibatch = minibatch.alone(segments)
            lots = self._weigher.lots(targets, minibatch.own)
            whole = self._weigh(NOBODY, rollout, targets, minibatch, lots, _counts(lots, minibatch), predicted, weights)
        except BaseException:  # partners are left in the middle of a minibatch
            self._dismiss_partners()
            raise
        kl = torch.zeros_like(count) if whole is None else whole.figures.single("approx_kl")
        moved_too_far = float(average(self._ranks, kl, count)) > self._settings.kl_stop * self._settings.target_kl
        self._watch_floors(whole)
        if whole is not None:
            self._record(whole, tally)
        if moved_too_far:
            self.optimizer.clear()
        else:
            self._move(whole, count, tally)
        return not moved_too_far

    def _weigh(
        self,
        partners: Partners | Nobody,
        rollout: Rollout,
        targets: Targets,
        minibatch: Minibatch,
        lots: list[Lot],
        counts: Float[Tensor, " parts"],
        predicted: Tensor,
        weights: Tensor,
    ) -> Part | None:
        """What a minibatch comes to on this rank, with its gradient; None where nothing of it is this rank's.

        Raises:
            PartnerLostError: Before the gradient is that of the minibatch.
        """
        own, count = counts[: len(lots)], counts.sum()
        partners.ask(minibatch, count, predicted, weights)
        gathered = (self._weigher.gather(rollout, targets, lot) for lot in lots)
        parts = self._weigher.weigh(gathered, own / count, predicted, weights)
        everybodys = [*parts, *partners.figures(minibatch)]
        partners.add_gradients(self.optimizer.gradient)
        return Part.merged(everybodys, counts[counts > 0] / count) if everybodys else None

    def _dismiss_partners(self) -> None:
        self._partners.close()
        self._partners = NOBODY

    def _predicted(
        self, rollout: Rollout, targets: Targets, segments: Segments, minibatch: Minibatch, count: Float[Tensor, ""]
    ) -> Tensor:
        """What errors of predictions are divided by: by it, the mean over ranks is that over all their predictions."""
        if self.auxiliary is None:
            return torch.ones_like(count)
        lots = self._weigher.lots(targets, minibatch.alone(segments).own)
        places = self._weigher.places(rollout, lots, count)
        if self._ranks.count > 1:
            places = average(self._ranks, places / count.clamp(min=1.0), count) * count
        return places.clamp(min=torch.finfo(places.dtype).tiny)

    def _watch_floors(self, whole: Part | None) -> None:
        """See which heads are under their floors, over the decisions of all ranks."""
        if not self._weigher.objective.has_floors:
            return
        sums = torch.zeros(2, len(self.under_floor), device=self.under_floor.device)
        if whole is not None:
            samples, entropy = whole.figures.of_heads("samples"), whole.figures.of_heads("entropy")
            sums = torch.stack([samples, torch.where(samples > 0, samples * entropy, 0.0)])
        samples, total = self._ranks.total(sums).unbind()
        under = self._weigher.objective.under_floor(total / samples)
        self.under_floor = torch.where(samples > 0, under, self.under_floor)

    def _record(self, whole: Part, tally: Tally) -> None:
        """Take the figures of a minibatch into `tally`."""
        if not len(tally):
            tally.add("losses/first_ratio_error", whole.figures.single("ratio_error"))
        if self.auxiliary is not None:
            tally.add("losses/prediction_error", whole.prediction_error)
        self._weigher.objective.record(whole.figures, tally)

    def _move(self, whole: Part | None, count: Tensor, tally: Tally) -> None:
        """Make the optimiser's step, unless something is not finite; `whole` is this rank's minibatch."""
        average_gradient(self._ranks, self.optimizer.gradient, count)
        loss = average(self._ranks, torch.zeros_like(count) if whole is None else whole.loss, count)
        decided = torch.zeros_like(self.under_floor) if whole is None else whole.figures.of_heads("samples") > 0
        of_heads = head_gradients(self._network, decided)
        norm = self.optimizer.clip()
        if not bool(torch.isfinite(loss + norm)):  # a norm is never -infinity
            self.optimizer.clear()
            self.reject()
            return
        self.optimizer.step()
        self.rejected_in_a_row = 0
        tally.add("losses/gradient_norm", norm)
        tally.add("losses/gradient_clipped", (norm > self._max_gradient_norm).float())
        tally.add_each(self._gradient_names, of_heads)


def _counts(lots: list[Lot], minibatch: Minibatch) -> Float[Tensor, " parts"]:
    """Decisions that carry loss, of this process's parts of a minibatch and of each partner's."""
    own = minibatch.others.new_tensor([float(lot.counts.sum()) for lot in lots])
    return torch.cat([own, minibatch.others])
