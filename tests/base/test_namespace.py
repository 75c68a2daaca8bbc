"""Hostile names: refused with a clear error, or encoded; nothing outside the subtree is seen or touched."""

import os
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.files import Snapshot
from support.hostile_namespaces import HOSTILE, assert_inside, attempts, build, outside

from memfs import MemfsError, Namespace, Template, Vault
from memfs.errors import InvalidNamespaceError, MemoryNotFoundError, SettingsError
from memfs.namespace import fold, slug

FULL = settings().max_examples


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A vault with other namespaces, symlinks to the outside, and files around it."""
    return build(tmp_path / "around" / "vault")


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:40])
def test_a_scope_neither_reads_nor_changes_anything_outside_for_any_name(
    world: Path, snapshot: Snapshot, name: str
) -> None:
    before = outside(snapshot, world)

    with Vault(world) as vault:
        alice = vault.scope("/actors/alice")
        for attempt in attempts(alice, name):
            with suppress(MemfsError):
                assert_inside(attempt())
    assert outside(snapshot, world) == before


def test_there_are_many_hostile_names() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 150


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:40])
def test_a_hostile_name_changes_nothing_outside_the_vault(world: Path, snapshot: Snapshot, name: str) -> None:
    before = snapshot(world.parent, "vault")
    sessions, hidden = snapshot(world / "sessions"), snapshot(world / ".hidden")

    with Vault(world) as vault:
        for attempt in attempts(vault, name):
            with suppress(MemfsError):
                attempt()
    assert snapshot(world.parent, "vault") == before
    assert (snapshot(world / "sessions"), snapshot(world / ".hidden")) == (sessions, hidden)
    assert (world / "README.md").read_text() == "Secret.\n"
    assert (world / ".git/config").read_text() == "[core]\n"


# --- other namespaces ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["actors/alice2/secret.md", "/actors/alice2/secret", "m-secret", "m-old", "m-bob"])
@pytest.mark.parametrize("verb", ["read", "update", "append", "forget", "remove", "move", "versions", "restore"])
def test_a_scope_never_reaches_a_memory_of_a_namespace_with_a_similar_name(world: Path, verb: str, ref: str) -> None:
    with Vault(world) as vault:
        vault.read(ref)
        alice = vault.scope("/actors/alice")
        arguments = {"append": ("More.",), "move": ("actors/alice",)}.get(verb, ())

        with pytest.raises(MemoryNotFoundError):
            getattr(alice, verb)(ref, *arguments)


@pytest.mark.parametrize(
    "namespace", ["/actors/alice2", "/actors", "/", "", "people", "archive/actors/alice2", "archive"]
)
def test_a_scope_refuses_every_namespace_but_its_own(world: Path, namespace: str) -> None:
    with Vault(world) as vault:
        alice = vault.scope("/actors/alice")

        tries: list[Callable[[], object]] = [
            lambda: alice.add("Text.", namespace),
            lambda: alice.list(namespace),
            lambda: alice.check(namespace),
            lambda: alice.scope(namespace),
            lambda: alice.move("m-own", namespace),
            lambda: alice.move("m-own", f"{namespace}/x.md"),
        ]
        for attempt in tries:
            with pytest.raises(InvalidNamespaceError):
                attempt()


def test_a_scope_lists_and_checks_only_its_own_memories(world: Path) -> None:
    with Vault(world) as vault:
        alice = vault.scope("/actors/alice")
        alice.forget(alice.add("Old.").id)

        assert [memory.path for memory in alice.list()] == ["actors/alice/own.md"]
        assert [memory.path for memory in alice.list(archived=True)] == [
            "actors/alice/own.md",
            "archive/actors/alice/old.md",
        ]
        assert {problem.path for problem in alice.check()} == {"actors/alice/dangling.md", "actors/alice/pointer.md"}


def test_a_scope_does_not_restore_a_deleted_memory_of_another_namespace(world: Path) -> None:
    with Vault(world) as vault:
        vault.update("people/bob.md", importance=2)
        (world / "people/bob.md").unlink()

        with pytest.raises(MemoryNotFoundError):
            vault.scope("/actors/alice").restore("people/bob.md")
        assert vault.restore("people/bob.md").outcome == "restored"


def test_a_scope_of_a_scope_stays_in_both(vault: Vault) -> None:
    inner = vault.scope("/a").scope("/a/b")

    assert inner.add("Text.").path == "a/b/text.md"
    with pytest.raises(InvalidNamespaceError, match=r"outside the scope /a/b"):
        inner.add("Text.", "/a")
    with pytest.raises(InvalidNamespaceError, match=r"outside the scope /a"):
        vault.scope("/a").scope("/b")


@pytest.mark.parametrize("verb", ["read", "update", "append", "forget", "remove", "versions", "restore"])
def test_a_scope_named_like_a_file_does_not_contain_the_file(vault: Vault, verb: str) -> None:
    (vault.root / "people").mkdir()
    (vault.root / "people/bob.md").write_text("Secret.")
    vault.update("people/bob.md", importance=2)
    before = (vault.root / "people/bob.md").read_bytes()
    namespace = Template("/people/{actorId}").render(actor="bob.md")

    with pytest.raises(MemfsError):
        getattr(vault.scope(str(namespace)), verb)("people/bob.md", *(["More."] if verb == "append" else []))
    assert (vault.root / "people/bob.md").read_bytes() == before


def test_a_directory_replaced_by_a_symlink_is_not_followed(world: Path, snapshot: Snapshot) -> None:
    with Vault(world) as vault:
        alice = vault.scope("/actors/alice")
        added = alice.add("Text.", "actors/alice/work")
        (world / "actors/alice/work").rename(world / "actors/alice/work-before")
        (world / "actors/alice/work").symlink_to(world.parent / "elsewhere")
        before = outside(snapshot, world)

        tries: list[Callable[[], object]] = [
            lambda: alice.add("More.", "actors/alice/work"),
            lambda: alice.update(added.path, importance=2),
            lambda: alice.append(added.path, "More."),
            lambda: alice.move("m-own", "actors/alice/work"),
            lambda: alice.list("actors/alice/work"),
        ]
        for attempt in tries:
            with pytest.raises(MemfsError):
                attempt()
    assert outside(snapshot, world) == before


# --- case and normal form -----------------------------------------------------------------------------

SAME_NAMES = [
    ("tea", "TEA"), ("Tea", "tea"), ("straße", "STRASSE"), ("café", "cafe\u0301"), ("CAFE\u0301", "café"),
    ("ﬁn", "FIN"),
    ("Σίσυφος", "ΣΊΣΥΦΟΣ"), ("\u212b", "å"), ("가", "\u1100\u1161"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME_NAMES)
def test_spellings_that_differ_in_case_or_normal_form_are_one_name(vault: Vault, one: str, other: str) -> None:
    first = vault.add("First.", f"people/{one}")
    vault.move(first.id, f"people/{one}/{one}.md")

    second = vault.add("Second.", f"people/{other}")

    assert len(os.listdir(vault.root / "people")) == 1
    assert len(vault.list(f"people/{other}")) == 2
    assert vault.read(f"people/{other}/{other}.md").id == first.id
    assert vault.scope(f"people/{other}").read(f"people/{one}/{one}").id == first.id
    with pytest.raises(MemfsError, match="already exists"):
        vault.move(second.id, f"people/{one}/{other}.md")


def test_files_whose_names_differ_only_in_case_are_both_read_and_reported(vault: Vault) -> None:
    for name, text in {"tea": "A.", "TEA": "B.", "café": "C.", "cafe\u0301": "D."}.items():
        (vault.root / f"{name}.md").write_text(text, encoding="utf-8")

    assert {memory.body for memory in vault.list()} == {"A.", "B.", "C.", "D."}
    assert [vault.read(f"{name}.md").body for name in ("tea", "TEA", "café", "cafe\u0301")] == ["A.", "B.", "C.", "D."]
    assert len([problem for problem in vault.check() if "but for case or normal form" in problem.reason]) == 2


@given(st.text(max_size=8), st.text(max_size=8))
def test_folding_is_idempotent_and_ignores_the_normal_form(one: str, other: str) -> None:
    assert fold(fold(one)) == fold(one)
    assert fold(unicodedata.normalize("NFD", one)) == fold(one)
    assert (fold(one) == fold(other)) == (fold(other) == fold(one))


# --- namespaces and templates ---------------------------------------------------------------------------


@given(st.text(max_size=30))
@settings(max_examples=5 * FULL)
def test_an_accepted_namespace_has_only_valid_segments(text: str) -> None:
    try:
        namespace = Namespace.parse(text)
    except InvalidNamespaceError:
        return

    assert Namespace.parse(str(namespace)) == namespace
    for segment in namespace.segments:
        assert 1 <= len(segment) <= 100
        assert segment == unicodedata.normalize("NFC", segment)
        assert not any(unicodedata.category(char)[0] == "C" or char in '<>:"|?*\\/{}' for char in segment)
        assert segment[0] not in ".-~# "
        assert segment[-1] not in ". "


BRACES = [
    "/facts/{actorId}/{0.__class__}", "/{actor}", "/{}", "/{", "/}", "/{actorId", "/actorId}", "/{{actorId}}",
    "/{actorId!r}", "/{actorId:>10}", "/{actorId.x}", "/{actorId[0]}", "/{ActorId}", "/{actor Id}", "/{actorId}}",
    "/a{b}c", "/{\nactorId}",
]  # fmt: skip


@pytest.mark.parametrize("text", BRACES)
def test_a_template_with_any_other_brace_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Template(text)

    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["/../{actorId}", "/.memfs/{actorId}", "//{actorId}", "/con/{actorId}", "/a:b/{actorId}"]
)
def test_a_template_of_an_invalid_namespace_is_refused(text: str) -> None:
    with pytest.raises((InvalidNamespaceError, SettingsError)):
        Template(text)


def test_a_template_accepts_both_spellings_of_its_placeholders() -> None:
    camel = Template("/{actorId}/{sessionId}/{memoryStrategyId}")
    snake = Template("/{actor_id}/{session_id}/{memory_strategy_id}")

    for template in (camel, snake):
        assert str(template.render(actor="alice", session="s-1", strategy="facts")) == "/alice/s-1/facts"


def test_a_template_without_a_value_for_a_placeholder_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"no value for \{actorId\}"):
        Template("/facts/{actorId}").render(session="s-1")


@pytest.mark.parametrize("value", [name for name in HOSTILE if name])
def test_a_value_becomes_one_segment_or_is_refused_as_too_long(value: str) -> None:
    template = Template("/actors/{actorId}/{sessionId}")
    try:
        namespace = template.render(actor=value, session="{actorId}")
    except InvalidNamespaceError:
        assert len(quote(value, errors="surrogatepass")) > 80
        return

    assert len(namespace.segments) == 3
    assert namespace.segments[0] == "actors"
    assert namespace.segments[2] == "%7BactorId%7D"
    assert "/" not in namespace.segments[1]


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
@settings(max_examples=5 * FULL)
def test_two_values_share_a_segment_only_if_they_fold_to_the_same_name(one: str, other: str) -> None:
    template = Template("/x/{actorId}")
    try:
        first, second = template.render(actor=one), template.render(actor=other)
    except InvalidNamespaceError:
        assert len(quote(one) + quote(other)) > 100
        return

    assert len(first.segments) == len(second.segments) == 2
    assert (fold(first.path) == fold(second.path)) == (fold(one) == fold(other))


ENCODED = [
    ("../x", "%2E.%2Fx"), ("a/b", "a%2Fb"), ("{sessionId}", "%7BsessionId%7D"), ("%2e%2e", "%252e%252e"),
    ("..", "%2E%2E"),
    (".", "%2E"), ("-x", "%2Dx"), ("~", "%7E"), ("a b", "a%20b"), ("con", "%63on"), ("x.", "x%2E"), ("zoë", "zoë"),
    ("東京", "東京"), ("a\0b", "a%00b"), ("\u202ex", "%E2%80%AEx"), ("alice@example.org", "alice@example.org"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "segment"), ENCODED)
def test_values_are_encoded_in_one_pass(value: str, segment: str) -> None:
    assert Template("/{actorId}").render(actor=value).segments == (segment,)


# --- slugs ----------------------------------------------------------------------------------------------


SLUGS = [
    ("Alice likes tuna sushi.", "alice-likes-tuna-sushi"), ("東京のオフィス", "東京のオフィス"),
    ("Привет, мир!", "привет-мир"),    ("Don't panic", "dont-panic"), ("Zürich trip", "zürich-trip"),
    ("  ", "memory"), ("!!!", "memory"),
    ("", "memory"),
    ("con", "memory-con"), ("NUL", "memory-nul"), ("a/b\\c:d", "a-b-c-d"), ("../../etc/passwd", "etc-passwd"),
    ("مرحبا بالعالم", "مرحبا-بالعالم"), ("हिन्दी भाषा", "हिन्दी-भाषा"), ("😀 party 🎉", "party"), ("C++ & C#", "c-c"),
    ("x" * 80, "x" * 60), ("con " + "x" * 60, "memory-con"), ("aux " + "é" * 70, "memory-aux"), ("ﬁn", "fin"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name"), SLUGS)
def test_a_slug_is_the_words_of_a_text_in_any_script(text: str, name: str) -> None:
    assert slug(text) == name


def test_a_slug_is_cut_at_a_word() -> None:
    assert slug("one two three four five six seven eight nine ten eleven twelve thirteen") == (
        "one-two-three-four-five-six-seven-eight-nine-ten-eleven"
    )


@given(st.one_of(st.text(max_size=200), st.sampled_from(HOSTILE), st.text(alphabet="conaux nul1", max_size=80)))
@example("𐌰" * 80)
@example("con " + "x" * 80)
@settings(max_examples=8 * FULL)
def test_every_slug_is_a_valid_short_name(text: str) -> None:
    name = slug(text)

    assert 1 <= len(name) <= 60
    assert len(f"{name}-99999.md".encode()) <= 255
    assert Namespace.parse(name).segments == (unicodedata.normalize("NFC", name),)


def test_a_new_file_is_named_by_its_title_else_its_first_words(vault: Vault) -> None:
    assert vault.add("Some text.", "n", title="A title").path == "n/a-title.md"
    assert vault.add("# Heading first\n\nBody.", "n").path == "n/heading-first.md"
    assert vault.add("\n\n- a list item\n- another", "n").path.startswith("n/a-list-item")
