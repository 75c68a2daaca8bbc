"""The commands that look after a vault."""

from memfs.cli.arguments import REFS, WITHIN, Command, argument, flag, several

FIELD = several("--field", metavar="NAME", help="a header key, or body; may be repeated")
KEY = argument("--key", metavar="NAME", default="default", help="the name of the key (default: default)")

TABLE: tuple[Command, ...] = (
    Command(
        "encrypt", "encryption", "Encrypt the bodies of memories, or header keys of them.",
        (REFS, FIELD, KEY, flag("--rename", help="name the file by its id, for its name may say what is in it")),
        "export MEMFS_KEY=$(memfs keygen)\n"
        "memfs encrypt facts/bob/allergic-to-peanuts --rename\n"
        "memfs encrypt people/bob --field phone --field birthday --key team",
    ),
    Command(
        "decrypt", "encryption", "Decrypt what is encrypted in memories, and write it back.", (REFS, FIELD),
        "memfs decrypt people/bob --field phone\nmemfs read people/bob --reveal  # shows it, and changes nothing",
    ),
    Command(
        "rotate", "encryption", "Encrypt with a new key what is encrypted with an old one.",
        (
            argument("--from", dest="old", metavar="OLD", required=True, help="the name of the old key"),
            argument("--to", dest="new", metavar="NEW", required=True, help="the name of the new key"),
            WITHIN,
        ),
        "export MEMFS_KEY_NEXT=$(memfs keygen --key next)\nmemfs rotate --from default --to next",
    ),
    Command(
        "keygen", "encryption", "Print a new key for encryption, and how to set it.", (KEY,),
        "export MEMFS_KEY=$(memfs keygen)",
    ),
)  # fmt: skip
