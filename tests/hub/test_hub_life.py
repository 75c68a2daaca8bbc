"""Three vaults and a hub, with random actions in random order: nothing is lost, and all vaults converge."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from support.postgres_server import Server

from memfs import Vault
from memfs.hub import Hub, pull, push

VAULTS = st.integers(0, 2)
PATHS = st.sampled_from(["tea.md", "facts/tea.md", "facts/Sushi.md", "people/bob.md", "people/eve/notes.md"])
ROUNDS = 4
EXAMPLES, STEPS = 15, 25


class HubMachine(RuleBasedStateMachine):
    """Every text is written once. Only a text that an action overwrites or removes may be gone at the end."""

    server: Server

    def __init__(self) -> None:
        super().__init__()
        self.server.run("DROP SCHEMA IF EXISTS memfs CASCADE")
        self._folder = Path(tempfile.mkdtemp())
        self._hub = Hub(self.server.url())
        self._vaults = [Vault.init(self._folder / name) for name in ("desk", "laptop", "server")]
        self._number = 0
        self._expected: set[bytes] = set()
        push(self._vaults[0], self._hub)

    def _expect_gone(self, path: Path) -> bytes:
        """Return the bytes of a file, and no longer expect them to survive."""
        data = path.read_bytes() if path.exists() else b""
        self._expected.discard(data)
        return data

    @rule(vault=VAULTS, path=PATHS, has_id=st.booleans())
    def save(self, vault: int, path: str, has_id: bool) -> None:
        target = self._vaults[vault].root / path
        old = self._expect_gone(target)
        self._number += 1
        start = f"---\nid: m-{self._number}\n---\n\n" if has_id else ""
        if old.startswith(b"---"):
            start = old[: old.index(b"\n\n") + 2].decode()  # an edit keeps the header
        text = f"{start}Text {self._number}.\n".encode()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
        self._expected.add(text)

    @rule(vault=VAULTS, path=PATHS)
    def remove(self, vault: int, path: str) -> None:
        target = self._vaults[vault].root / path
        self._expect_gone(target)
        target.unlink(missing_ok=True)

    @rule(vault=VAULTS, path=PATHS, to=PATHS)
    def move(self, vault: int, path: str, to: str) -> None:
        root = self._vaults[vault].root
        if (root / path).exists() and not (root / to).exists():
            (root / to).parent.mkdir(parents=True, exist_ok=True)
            (root / path).rename(root / to)

    @rule(vault=VAULTS)
    def push(self, vault: int) -> None:
        push(self._vaults[vault], self._hub)

    @rule(vault=VAULTS)
    def pull(self, vault: int) -> None:
        assert pull(self._vaults[vault], self._hub).problems == ()

    @rule(vault=VAULTS)
    def delete_sync_state(self, vault: int) -> None:
        shutil.rmtree(self._vaults[vault].root / ".memfs" / "hub", ignore_errors=True)

    def teardown(self) -> None:
        for _ in range(ROUNDS):
            for vault in self._vaults:
                pull(vault, self._hub)
                push(vault, self._hub)
        trees = [{memory.path: memory.data for memory in vault.list()} for vault in self._vaults]
        archives = [memory.data for vault in self._vaults for memory in vault.list(archived=True)]
        self._hub.close()
        for vault in self._vaults:
            vault.close()
        shutil.rmtree(self._folder)
        assert trees[0] == trees[1] == trees[2]
        assert self._expected <= {*trees[0].values(), *archives}


def test_any_sequence_of_actions_loses_nothing_and_all_vaults_converge(postgres: Server, postgres_url: str) -> None:
    HubMachine.server = postgres

    run_state_machine_as_test(HubMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS))
