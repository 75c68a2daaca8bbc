"""Show memfs in half a minute: search, an outside edit found at once, two writers, a one-line git diff, links.

Runs on a copy of example-vault in a temporary directory, with real processes and real git.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memfs import Vault
from memfs.upkeep.link_graph import Graph

EXAMPLE = Path(__file__).resolve().parent.parent / "example-vault"
SUSHI = "preferences/alice/likes-tuna-sushi.md"
LINES = 100
WRITER = """
import sys
from memfs import Vault
with Vault(sys.argv[1]) as vault:
    for number in range(int(sys.argv[3])):
        vault.append("journal/2026-11-12.md", f"- {sys.argv[2]} noted {number}")
"""


def step(title: str) -> None:
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}")


def git(vault: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
    return subprocess.run(["git", *identity, *arguments], cwd=vault, check=True, capture_output=True, text=True).stdout


def show_add(vault: Vault) -> None:
    step("An agent adds a memory; adding it again changes nothing")
    for _ in range(2):
        added = vault.add("Alice takes the night train to Berlin on 3 December.", namespace="/facts/alice", type="fact")
        print(f"  {added.outcome:<10} {added.path}")


def ask(vault: Vault, question: str) -> None:
    started = time.perf_counter()
    hits = vault.search(question, limit=2)
    print(f"  {question}  ({(time.perf_counter() - started) * 1e3:.1f} ms)")
    for hit in hits:
        print(f"    {hit.relevance:.2f}  {hit.memory.path}  {hit.snippet[:60]}")


def show_search(vault: Vault) -> None:
    step("A search; the first one builds the index")
    for question in ("what does Alice eat?", "peanut allergy", "when is Atlas due?", "zurich"):
        ask(vault, question)


def show_edit(vault: Vault) -> None:
    step("A person edits a file: the next search finds the edit")
    seen = vault.read(SUSHI).stamp
    file = vault.root / SUSHI
    file.write_text(file.read_text().replace("most of all on Fridays", "with wasabi, most of all on Thursdays"))
    print(f"  edited     {SUSHI}")
    ask(vault, "wasabi")
    step("The agent read the file before the edit: its update is refused")
    try:
        vault.update(SUSHI, body="Alice likes pizza.", seen=seen)
    except Exception as error:
        print(f"  refused    {error}")
    print(f"  now        {vault.read(SUSHI).body.splitlines()[0]}")


def show_two_writers(vault: Vault) -> None:
    step(f"Two processes append {LINES} lines each to one file, at once")
    start = [sys.executable, "-c", WRITER, str(vault.root)]
    writers = [subprocess.Popen([*start, name, str(LINES)]) for name in ("alice's agent", "bob's agent")]
    codes = [writer.wait() for writer in writers]
    kept = [line for line in vault.read("journal/2026-11-12.md").body.splitlines() if " noted " in line]
    print(f"  exit codes {codes}, {len(kept)} of {2 * LINES} lines kept, {len(kept) - len(set(kept))} doubled")


def show_diff(vault: Vault) -> None:
    step("One key is updated: the git diff is one line")
    git(vault.root, "add", "-A")
    git(vault.root, "commit", "-qm", "the changes so far")
    vault.update("people/bob.md", importance=7)
    print("  " + git(vault.root, "diff", "--stat").strip().replace("\n", "\n  "))
    diff = git(vault.root, "diff", "--unified=0").splitlines()
    print("\n".join(f"  {line}" for line in diff if line[0] in "+-" and line[:3] not in {"+++", "---"}))


def show_links(vault: Vault) -> None:
    step("The links between memories: the path from Emma to Yuki")
    for triple in Graph.of(vault).path("Emma Moreau", "Yuki Sato") or ():
        print(f"  {triple.subject} {triple.relation} {triple.object}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="memfs-demo-") as folder:
        root = Path(folder) / "vault"
        shutil.copytree(EXAMPLE, root)
        git(root, "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "the example vault")
        with Vault(root) as vault:
            print(f"A copy of example-vault: {len(vault.list())} memories in {root}")
            show_search(vault)
            show_add(vault)
            show_edit(vault)
            show_two_writers(vault)
            show_diff(vault)
            show_links(vault)
            step("Problems to fix")
            for problem in vault.check():
                print(f"  {problem}")
    print("\nThe copy is deleted. Create your own vault: .venv/bin/memfs init notes")


if __name__ == "__main__":
    main()
