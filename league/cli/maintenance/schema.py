"""`league db`: upgrade or check the database schema."""

import typer

from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.db import schema
from league.settings import Settings

app = typer.Typer(help="Upgrade or check the database schema.", no_args_is_help=True)


@app.command(epilog="Example: league db upgrade --database-url postgresql://league@localhost/league")
def upgrade(home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Upgrade the database schema to this version. `league serve` and `league up` do so automatically."""
    settings = Settings.load(home=home, database_url=database_url)
    database.migrate(settings)
    typer.echo(f"at revision {schema.head()}")


@app.command("check", epilog="Example: league db check")
def check_schema(home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Check that the database schema is that of this version. Exits with 1 if it is not."""
    with database.current(Settings.load(home=home, database_url=database_url)) as connection:
        typer.echo(f"{connection} is at revision {schema.head()}, which this version requires")
