"""The `league` command, also as `python -m league`."""

from arena.extras import run_program


def main() -> None:
    """Run the command line, or name the extra that it needs."""
    run_program("league", "server")


if __name__ == "__main__":
    main()
