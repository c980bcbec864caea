"""The `arena` command, also as `python -m arena`."""

from arena.extras import run_program


def main() -> None:
    """Run the command line, or name the extra that it needs."""
    run_program("arena", "arena")


if __name__ == "__main__":
    main()
