"""The commands that look after a vault."""

from memfs.cli.arguments import Command, argument, flag, moment, positive

DRAWINGS = ("text", "json", "dot", "mermaid")

TABLE: tuple[Command, ...] = (
    Command(
        "graph", "graph", "Show how memories are linked: all of them, what is around one, or the way to another.",
        (
            argument("ref", metavar="REF", nargs="?", completes="ref",
                     help="a memory, by path, id, title or alias (default: an overview)"),
            argument("--depth", metavar="N", type=positive, default=1, help="up to N links away (default: 1)"),
            argument("--to", metavar="REF", help="the shortest way to this memory", completes="ref"),
            argument("--as-of", metavar="DATE", type=moment, help="only what held then: a day, or a time"),
            argument("--relation", metavar="R", help="only links that say this, such as owned_by or mentions"),
            flag("--orphans", help="list the memories without a link in or out"),
            argument("--format", choices=DRAWINGS, default=DRAWINGS[0], completes=" ".join(DRAWINGS),
                     help="text (the default), json, dot (Graphviz) or mermaid"),
        ),
        "memfs graph\n"
        "memfs graph 'Bob Tanaka' --depth 2 --as-of 2026-06-01\n"
        "memfs graph people/emma --to people/yuki\n"
        "memfs graph projects/atlas/Atlas --format dot | dot -Tsvg > atlas.svg",
    ),
)  # fmt: skip
