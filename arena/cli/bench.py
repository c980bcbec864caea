"""`arena bench`."""

import time
from typing import Annotated

import typer

from arena.cli.options import AsJson, EnvironmentName
from arena.cli.output import game_stdout_to_stderr, make_table, prepare_torch, print_json, stdout
from arena.environments import make
from arena.errors import InputError

BENCH_STEPS = 200
BENCH_REPEATS = 5

app = typer.Typer()

THREADS_MAX = 1024
NUM_ENVS_MAX = 2**24


@app.command(epilog="Example: arena bench --environment mech-duel --num-envs 1024 --threads 1 --json")
def bench(
    environment: EnvironmentName,
    num_envs: Annotated[
        int, typer.Option("--num-envs", min=1, max=NUM_ENVS_MAX, help="Number of parallel matches.")
    ] = 256,
    threads: Annotated[
        int, typer.Option("--threads", min=1, max=THREADS_MAX, help="Threads of tensor operations.")
    ] = 1,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:INDEX.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure the speed of an environment with random actions, and its memory per match.

    Rates are per CPU second of the stepping thread, or per second on a GPU: the median of five repeats.
    """
    import torch

    from arena.play.throughput import measure, measure_memory

    prepare_torch(threads)
    try:
        with game_stdout_to_stderr():
            env = make(environment, num_envs=num_envs, device=device)
    except (RuntimeError, MemoryError) as error:
        if "memory" not in str(error):
            raise
        raise InputError(
            f"{num_envs} matches of {environment} do not fit into the memory of {device}: use fewer"
        ) from error
    on_gpu = env.device.type == "cuda"

    def gpu_clock() -> float:
        torch.cuda.synchronize(env.device)
        return time.perf_counter()

    with game_stdout_to_stderr():
        speed = measure(
            env,
            steps=BENCH_STEPS,
            repeats=BENCH_REPEATS,
            clock=gpu_clock if on_gpu else time.thread_time,
            rng=torch.Generator(env.device).manual_seed(0),
        )
        memory = measure_memory(env)
    if as_json:
        print_json(
            {
                "environment": environment,
                "num_envs": num_envs,
                "device": str(env.device),
                "agent_steps_per_s": speed.agent_steps_per_s,
                "env_steps_per_s": speed.env_steps_per_s,
                "state_bytes_per_env": memory.state,
                "observation_bytes_per_env": memory.observation,
                "shared_bytes": memory.shared,
            }
        )
        return
    rates = ("agent\nsteps/s", "match\nsteps/s")
    table = make_table("environment", "matches", "device", *rates, "state", "observed", "shared")
    speeds = (f"{rate:,.0f}" for rate in (speed.agent_steps_per_s, speed.env_steps_per_s))
    sizes = (f"{size / 1000:,.1f} kB" for size in (memory.state, memory.observation, memory.shared))
    table.add_row(environment, str(num_envs), str(env.device), *speeds, *sizes)
    stdout().print(table)
    stdout().print("State and observation are per match. Shared memory, such as maps, is for all matches.")
