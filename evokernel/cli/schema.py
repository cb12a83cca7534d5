"""`evokernel schema`: the JSON schema of a config."""

import click


@click.command()
def command() -> None:
    """Print the JSON schema of a config, with which an editor completes keys and names, explains and checks them.

    Editors with yaml-language-server find it by the first line of a config, `# yaml-language-server: $schema=FILE`.

    It knows each setting by itself; `evolve` checks beyond it what settings say together.
    """
    from evokernel.scaffold.config_schema import schema_text

    click.echo(schema_text(), nl=False)
