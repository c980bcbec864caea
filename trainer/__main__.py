"""The `trainer` command, also as `python -m trainer`."""

from arena.extras import run_program


def main() -> None:
    """Run the command line, or name the extra that it needs."""
    run_program("trainer", "train")


if __name__ == "__main__":
    main()
