"""The commands that look after a vault."""

from memfs.cli.arguments import Command

TABLE: tuple[Command, ...] = ()
