"""The journal of changed paths."""

from support.files import opened_root

from memfs import Vault
from memfs.storage.change_journal import ChangeJournal


def test_a_journal_is_read_from_a_cursor_on(vault: Vault) -> None:
    vault.add("Tea.", "n")
    ours, theirs = ChangeJournal(), ChangeJournal()
    with opened_root(vault.root) as root:
        ours.create(root)
        assert theirs.read(root) is None
        ours.read(root)
        cursor = ours.cursor(root)
        assert ours.append(root, ["a.md", "new\nline%.md"])
        assert theirs.read(root) == ["a.md", "new\nline%.md"]
        assert theirs.start_at(root, cursor)
        assert theirs.read(root) == ["a.md", "new\nline%.md"]
        assert not theirs.start_at(root, "junk")
        ours.restart(root)
        assert theirs.read(root) is None
        assert not theirs.start_at(root, cursor)
