"""`memfs push` and `memfs pull`, with copies of the example vault and a real server."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Ran
from support.postgres_server import PASSWORD, Server

from memfs import Vault
from memfs.cli.main import main

Memfs = Callable[..., Ran]


@pytest.fixture
def laptop(tmp_path: Path) -> str:
    """An empty vault, the second one of the hub."""
    Vault.init(tmp_path / "laptop").close()
    return str(tmp_path / "laptop")


@pytest.fixture
def memfs(
    example: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Memfs:
    """Run a command in the example vault, with MEMFS_HUB set."""
    monkeypatch.chdir(example)
    monkeypatch.setenv("MEMFS_HUB", postgres_url)

    def run(*words: str) -> Ran:
        code = main(list(words))
        return Ran(code, *capsys.readouterr())

    return run


def test_push_and_pull_report_their_changes(memfs: Memfs, laptop: str, postgres_url: str) -> None:
    pushed = memfs("push")
    assert (pushed.code, pushed.err) == (0, "")
    assert pushed.out.startswith("sent to postgresql://")
    assert ": 43 created in " in pushed.out
    pulled = memfs("pull", postgres_url, "/facts/bob", "--vault", laptop)

    assert pulled.code == 0
    *lines, last = pulled.out.splitlines()
    assert len(lines) == 4
    assert lines[0] == "created facts/bob/allergic-to-peanuts.md"
    assert ", /facts/bob: 4 created in " in last
    assert ": nothing in " in memfs("pull", "/facts/bob", "--vault", laptop).out


def test_pull_json_has_stable_keys(memfs: Memfs, laptop: str) -> None:
    memfs("push")
    memfs("pull", "--vault", laptop)
    memfs("append", "people/bob", "Here.")
    memfs("move", "people/yuki", "/team")
    memfs("forget", "people/claire")
    memfs("push")
    memfs("append", "people/bob", "There.", "--vault", laptop)
    ran = memfs("pull", "--json", "--vault", laptop)

    assert ran.code == 3
    value = ran.value
    assert value.pop("hub").startswith("postgresql://")
    assert value.pop("seconds") > 0
    copy = value["conflicts"][0]["copy"]
    assert copy.startswith("people/bob.conflict-")
    assert value == {
        "direction": "pull", "namespace": "/", "dry_run": False, "created": [], "updated": [],
        "moved": [{"from": "people/yuki.md", "to": "team/yuki.md"}], "removed": ["people/claire.md"], "unchanged": 0,
        "conflicts": [{"path": "people/bob.md", "reason": "changed here and on the hub", "copy": copy}],
        "problems": [],
    }  # fmt: skip
    reason = "another version of the memory beside it: both were changed at once"
    assert f"{copy}:1: {reason}\n" in memfs("check", "--vault", laptop).out


def test_a_conflict_has_a_hint(memfs: Memfs, laptop: str) -> None:
    memfs("push")
    memfs("pull", "--vault", laptop)
    memfs("append", "people/bob", "Here.")
    memfs("push")
    memfs("append", "people/bob", "There.", "--vault", laptop)
    refused = memfs("push", "--vault", laptop)

    assert refused.code == 3
    assert refused.out.startswith("conflict people/bob.md: changed here and on the hub: pull first\nsent to ")
    assert ": nothing, 1 conflict in " in refused.out
    assert refused.err == f"hint: Run `memfs --vault {laptop} pull`, resolve the conflicts, and push again.\n"
    pulled = memfs("pull", "--vault", laptop)
    assert "conflict people/bob.md: changed here and on the hub; the hub's version is in people/bob.con" in pulled.out
    assert memfs("push", "--vault", laptop).code == 0


def test_problems_are_printed_and_are_exit_code_1(memfs: Memfs, example: Path) -> None:
    (example / "facts" / "link.md").symlink_to("/etc/passwd")
    ran = memfs("push")

    assert ran.code == 1
    assert "facts/link.md:1: a symlink: not read\n" in ran.out
    assert ": 43 created in " in ran.out


def test_a_dry_run_prints_what_it_would_do(memfs: Memfs) -> None:
    assert memfs("push", "--dry-run").out.startswith("would send to postgresql://")
    memfs("push")
    assert memfs("pull", "--dry-run").out.startswith("would receive from postgresql://")


def test_without_a_hub_the_hint_shows_how_to_name_one(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMFS_HUB")

    for command in ("push", "pull"):
        ran = memfs(command)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.splitlines() == [
            f"memfs: {command}: no hub given",
            "hint: Name one: postgresql://USER@HOST/DATABASE, or set MEMFS_HUB.",
        ]
    assert "a hub is named by a URL" in memfs("push", "facts", "people").err
    assert "does not begin with postgresql://" in memfs("push", "redis://localhost").err


@pytest.mark.parametrize("word", ["postgresql:/u:s3cret@h/db", "postgres//u:s3cret@h/db", "u:s3cret@h/db"])
def test_a_mistyped_url_is_not_used_as_a_namespace_and_not_printed(memfs: Memfs, word: str, postgres_url: str) -> None:
    for words in ([word], [postgres_url, word]):
        ran = memfs("push", *words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("memfs: push: a hub is named by a URL such as postgresql://USER@HOST/DATABASE\n")
        assert "s3cret" not in ran.err


def test_push_of_a_missing_namespace_is_exit_code_1_with_a_hint(memfs: Memfs, example: Path) -> None:
    ran, known = memfs("push", "/fatcs"), memfs("push", "/facts/alice")
    pulled, dry = memfs("pull", "/fatcs"), memfs("push", "/fatcs", "--dry-run", "--json")
    shutil.rmtree(example / "facts" / "alice")
    gone = memfs("push", "/facts/alice", "--all-removals")

    by_option = memfs("push", "-n", "/people", "--dry-run", "--json").value
    assert by_option["namespace"] == "/people"
    assert by_option["created"] == memfs("push", "/people", "--dry-run", "--json").value["created"] != []
    assert (ran.code, pulled.code, dry.code, dry.err, known.code, gone.code) == (1, 1, 1, "", 0, 0)
    assert ran.out.startswith("sent to ")
    assert ran.err == pulled.err == "hint: There is no such namespace; see what there is with `memfs list`.\n"
    assert known.err == gone.err == ""


def test_no_password_is_ever_printed(memfs: Memfs, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFS_LOG", "debug")
    url, wrong = postgres.loopback(), postgres.loopback(password=f"{PASSWORD}-wrong")
    ran = [memfs("push", url), memfs("pull", url, "--json"), memfs("push", wrong), memfs("pull", wrong, "--json")]

    assert [one.code for one in ran] == [0, 0, 1, 1]
    assert "password authentication failed" in ran[2].err
    assert PASSWORD not in "".join(one.out + one.err for one in ran)


def test_pull_from_an_empty_hub_has_a_hint(memfs: Memfs) -> None:
    ran = memfs("pull")

    assert ran.code == 1
    assert ran.err.splitlines()[1] == "hint: Push to it first, or check the name of the database."


def test_a_namespace_template_takes_the_actor(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMFS_ACTOR", "bob")

    assert ", /facts/bob: 4 created in " in memfs("push", "/facts/{actorId}").out


def test_a_tenant_may_be_named(memfs: Memfs, postgres: Server) -> None:
    with postgres.roles("initech"):
        memfs("push")
        postgres.run(
            "GRANT USAGE ON SCHEMA memfs TO initech",
            "GRANT SELECT, INSERT, UPDATE ON memfs.hubs, memfs.files TO initech",
        )
        assert ": 43 created in " in memfs("push", "--tenant", "initech").out
        assert postgres.run("SELECT tenant, count(*) FROM memfs.files GROUP BY 1 ORDER BY 1") == [
            ("initech", 43), ("postgres", 43),
        ]  # fmt: skip


def test_an_unknown_tenant_is_an_error(memfs: Memfs) -> None:
    memfs("push")
    ran = memfs("push", "--tenant", "nobody")

    assert (ran.code, ran.out) == (1, "")
    first, hint = ran.err.splitlines()
    assert first.endswith(': role "nobody" does not exist')
    assert hint == "hint: Check the name of the tenant: it is a role of the server, see docs/hub.md."
