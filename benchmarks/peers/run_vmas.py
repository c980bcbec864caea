"""Reference of `benchmarks.environment`: VMAS football, ten a side, stepped for each line on standard input.

It runs under an interpreter of its own, because VMAS pins old versions of what it needs:

    python -m venv vmas-venv
    vmas-venv/bin/pip install -c constraints.txt torch numpy
    vmas-venv/bin/pip install --no-deps vmas==1.5.2
    vmas-venv/bin/pip install gym==0.26.2 "pyglet<=1.5.27" cloudpickle six
"""

import sys
import time
import warnings

warnings.simplefilter("ignore")

NO_VMAS = 3
TEAM, WARM_UP_STEPS = 10, 5


def main(num_envs: int, steps: int) -> None:
    """Answer every line on standard input with the agent-steps per CPU second of so many steps."""
    try:
        import torch
        from vmas import make_env
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_VMAS)
    torch.set_num_threads(1)
    env = make_env(
        "football",
        num_envs=num_envs,
        device="cpu",
        seed=0,
        n_blue_agents=TEAM,
        n_red_agents=TEAM,
        ai_blue_agents=False,
        ai_red_agents=False,
    )
    time_steps(env, WARM_UP_STEPS)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(num_envs * env.n_agents * steps / time_steps(env, steps), flush=True)


def time_steps(env, steps: int) -> float:  # noqa: ANN001 - VMAS has no types
    """CPU seconds of stepping alone, under random actions that are drawn outside the measured time."""
    env.reset()
    seconds = 0.0
    for _ in range(steps):
        actions = [env.get_random_action(agent) for agent in env.agents]
        start = time.thread_time()
        env.step(actions)
        seconds += time.thread_time() - start
    return seconds


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
