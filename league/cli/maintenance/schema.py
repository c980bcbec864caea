"""`league db`: the database's schema is checked and brought up to date."""

import typer

from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.db import schema
from league.settings import Settings

app = typer.Typer(help="Upgrade or check the database schema.", no_args_is_help=True)


@app.command(epilog="Example: league db upgrade --database-url postgresql://league@localhost/league")
def upgrade(home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Bring the database's schema to this version's; `league serve` and `league up` do so by themselves."""
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    typer.echo(f"at revision {schema.head()}")


@app.command("check", epilog="Example: league db check")
def check_schema(home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Say whether the database's schema is this version's; exits with 1 where it is not."""
    with database.current(Settings.load(home=home, database_url=database_url)) as connection:
        typer.echo(f"{connection} is at revision {schema.head()}, as this version needs")
