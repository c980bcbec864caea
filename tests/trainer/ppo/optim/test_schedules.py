import pytest

from trainer.ppo.optim.schedules import Shape, anneal, linear_warmup, progress


@pytest.mark.holds("G12")
@pytest.mark.parametrize(
    ("shape", "at_start", "half_way", "at_end"),
    [(Shape.LINEAR, 4e-4, 2.2e-4, 4e-5), (Shape.COSINE, 4e-4, 2.2e-4, 4e-5)],
)
def test_anneal_goes_from_start_to_final_and_stays_there(shape, at_start, half_way, at_end):
    values = [anneal(shape, 4e-4, 4e-5, progress(step, 100)) for step in (0, 50, 100, 1000)]
    assert values == pytest.approx([at_start, half_way, at_end, at_end])


@pytest.mark.holds("G12")
def test_cosine_is_slower_than_linear_at_both_ends():
    assert anneal(Shape.COSINE, 1.0, 0.0, 0.25) == pytest.approx(0.5 + 0.5**1.5)
    assert anneal(Shape.COSINE, 1.0, 0.0, 0.25) > anneal(Shape.LINEAR, 1.0, 0.0, 0.25)
    assert anneal(Shape.COSINE, 1.0, 0.0, 0.75) < anneal(Shape.LINEAR, 1.0, 0.0, 0.75)


def test_linear_warmup_rises_to_one_and_stays_there():
    assert [linear_warmup(step, 10) for step in (0, 5, 10, 100)] == [0.0, 0.5, 1.0, 1.0]
    assert linear_warmup(0, 0) == 1.0


COSINE = {"horizon_steps": 144, "shape": "cosine"}

RATES = {"learning_rate": 1e-3, "learning_rate_final": 1e-4}


def test_settings_choose_shape_final_value_and_warmup(play):
    learner = play(schedules=COSINE, optimizer={**RATES, "learning_rate_warm_up_steps": 36}).learner
    rates = []
    for steps in (0, 18, 36, 72, 144, 999):
        learner.steps = steps
        rates.append(learner.coefficients().learning_rate)
    early = [0.5 * anneal(Shape.COSINE, 1e-3, 1e-4, 18 / 144), anneal(Shape.COSINE, 1e-3, 1e-4, 36 / 144)]
    assert rates == pytest.approx([0.0, *early, 5.5e-4, 1e-4, 1e-4])


@pytest.mark.holds("G12")
def test_schedule_continues_after_a_resume(play, never):
    whole, resumed = (play(schedules=COSINE, optimizer=RATES) for _ in range(2))
    whole.learner.learn(whole.collect(), never)
    resumed.learner.restore(whole.learner.tensors(), whole.learner.steps, whole.learner.updates)
    rates = [each.learner.learn(each.collect(), never)["charts/learning_rate"] for each in (whole, resumed)]
    assert rates == pytest.approx([anneal(Shape.COSINE, 1e-3, 1e-4, 0.5)] * 2)
