"""Encryption of fields: round trips, binding, keys, purging of plain text, and key rotation."""

import asyncio
import os
import re
import secrets
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.commands import REPOSITORY, Git, Script
from support.files import Snapshot
from support.vaults import paths, put

from memfs import Memory, Vault
from memfs.errors import (
    DecryptionError,
    InvalidKeyError,
    InvalidMemoryError,
    InvalidNamespaceError,
    MalformedMemoryError,
    MemfsError,
    SettingsError,
)
from memfs.fs.files import digest
from memfs.privacy.aead import NONCE_BYTES, Cipher
from memfs.privacy.ciphertext_format import FieldCipher, FieldLocation
from memfs.privacy.field_encryption import LEFT_IN_FILE_NAME, LEFT_IN_GIT, LEFT_IN_OPEN_FILE, Encryption
from memfs.privacy.keys import from_environment, new_key, parse_key, variable_name
from memfs.query.keyword_terms import memory_keywords
from memfs.stores import VaultStore
from memfs.vault import settings as vault_settings

RING = {name: secrets.token_bytes(32) for name in ("default", "team", "next")}
SECRETS = ("quokka", "numbat", "platypus", "wombat", "bilby")
TEXT = "The quokka sleeps.\n\nA numbat, too."
LOCATION = FieldLocation("tea.md", "m-1", "body")


@pytest.fixture
def encryption(vault: Vault) -> Encryption:
    return Encryption(vault, RING.get)


def encrypted_lines(memory: Memory) -> list[str]:
    return re.findall(r"enc:v1:[\w:-]+", memory.text)


def files_with_plain_text(root: Path, words: Iterable[str] = SECRETS, without: str = ".git/objects") -> list[str]:
    """Return the files that contain one of the words in their bytes or names."""
    return [
        f"{word} in {path.relative_to(root)}"
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.relative_to(root).as_posix().startswith(without)
        for word in words
        if word.encode() in path.read_bytes().lower() or word in path.name.lower()
    ]


# --- round trips


@given(st.text(), st.sampled_from(["default", "team"]))
def test_any_text_is_decrypted_exactly(text: str, key: str) -> None:
    cipher = FieldCipher(RING.get)

    value = cipher.encrypt(text, LOCATION, key)

    assert re.fullmatch(rf"enc:v1:{key}:[A-Za-z0-9_-]{{38,}}", value)
    assert cipher.decrypt(value, LOCATION) == text


BODY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@settings(max_examples=60)
@given(
    BODY,
    st.sampled_from(
        ["---\nid: m-1\n---\n\n{}\n", "---\r\nid: m-1\r\n---\r\n{}", "\ufeff---\nid: m-1 # mine\n---\n{}\n\n\n"]
    ),
)
@example("One end.\nAnother.\r\n", "---\r\nid: m-1\r\n---\r\n{}")
def test_decrypting_restores_every_byte(vault: Vault, encryption: Encryption, body: str, layout: str) -> None:
    before = put(vault, "tea.md", layout.format(body))
    if "enc:v1:" in body or not before.body.strip():
        return

    encrypted = encryption.encrypt("tea.md")
    after = vault.read("tea.md")
    decrypted = encryption.decrypt("tea.md")

    assert (encrypted.outcome, decrypted.outcome) == ("encrypted", "decrypted")
    assert after.legible.strip() == "[encrypted]"
    assert encryption.reveal(after).data == before.data == vault.read("tea.md").data


@pytest.mark.parametrize(
    "value", ["Alice", "", "0123", "true", " a: b\n#c", 7, 2.5, True, ["a", "b c", 3], "2026-11-15", "日本\x00\u2028"]
)
def test_a_header_value_is_decrypted_with_its_type(vault: Vault, encryption: Encryption, value: object) -> None:
    added = vault.add("Tea.", key=value, importance=2)
    before = vault.read(added.id)

    encryption.encrypt(added.id, fields=["key"])
    hidden = vault.read(added.id)
    encryption.decrypt(added.id)

    assert hidden.header.get("key").startswith("enc:v1:default:")
    assert (hidden.header.importance, hidden.body) == (2, "Tea.")
    assert vault.read(added.id).data == before.data


def test_lists_of_known_keys_stay_lists(vault: Vault, encryption: Encryption) -> None:
    added = vault.add("Tea.", tags=["food", "wombat"], aliases=["bilby"])

    encryption.encrypt(added.id, fields=["tags", "aliases"])
    hidden = vault.read(added.id)
    vault.update(added.id, add_tags=["new"])

    assert [len(hidden.header.tags), len(hidden.header.aliases)] == [1, 1]
    revealed = encryption.reveal(vault.read(added.id))
    assert revealed.header.tags == ("food", "wombat", "new")
    assert revealed.header.aliases == ("bilby",)


def test_only_the_lines_of_the_field_change(vault: Vault, encryption: Encryption) -> None:
    text = (
        "---\nid: m-1\n# mine\ntitle:   'Bilby'  # a name\nupdated: 2026-01-01T10:00:00.5Z\nodd: {a: 1}\n---\n\nTea.\n"
    )
    put(vault, "tea.md", text)

    encryption.encrypt("tea.md", fields=["title"])

    lines = vault.read("tea.md").text.splitlines(keepends=True)
    assert lines[3].startswith('title:   "enc:v1:default:')
    assert lines[3].endswith('"  # a name\n')
    assert [*lines[:3], *lines[4:]] == [*text.splitlines(keepends=True)[:3], *text.splitlines(keepends=True)[4:]]


def test_encrypting_it_again_changes_nothing(vault: Vault, encryption: Encryption, snapshot: Snapshot) -> None:
    added = vault.add(TEXT)
    encryption.encrypt(added.id)
    before = snapshot(vault.root, ".memfs")

    assert encryption.encrypt(added.id).outcome == "unchanged"
    assert snapshot(vault.root, ".memfs") == before


def test_encrypting_with_another_key_replaces_the_key(vault: Vault, encryption: Encryption) -> None:
    added = vault.add(TEXT)
    encryption.encrypt(added.id)

    assert encryption.encrypt(added.id, key="team").outcome == "encrypted"
    assert Encryption(vault, {"team": RING["team"]}.get).reveal(vault.read(added.id)).body == TEXT


def test_appended_text_is_plain_until_it_is_encrypted(vault: Vault, encryption: Encryption) -> None:
    added = vault.add(TEXT)
    encryption.encrypt(added.id)
    vault.append(added.id, "A bilby digs.")

    assert paths(vault, "bilby") == [added.path]
    assert vault.search("bilby")[0].snippet == "[encrypted] A bilby digs."
    assert encryption.reveal(vault.read(added.id)).body == f"{TEXT}\nA bilby digs."
    encryption.encrypt(added.id)
    assert vault.search("bilby") == []
    assert encryption.decrypt(added.id).outcome == "decrypted"
    assert vault.read(added.id).body == f"{TEXT}\nA bilby digs."


def test_decrypting_a_plain_memory_changes_nothing(vault: Vault, encryption: Encryption) -> None:
    added = vault.add("Tea.", title="Bilby")
    encryption.encrypt(added.id, fields="title")

    assert encryption.decrypt(added.id, fields=["body"]).outcome == "unchanged"
    assert vault.read(added.id).title == "[encrypted]"


# --- binding to memory, field and key


def test_a_nonce_is_never_used_twice() -> None:
    cipher = Cipher(RING["default"])

    assert len({cipher.encrypt(b"tea", b"")[:NONCE_BYTES] for _ in range(10_000)}) == 10_000


@given(st.text(max_size=40), st.data())
def test_any_changed_byte_is_refused(text: str, data: st.DataObject) -> None:
    cipher = FieldCipher(RING.get)
    value = cipher.encrypt(text, LOCATION, "default")
    at = data.draw(st.integers(len("enc:v1:default:"), len(value) - 1))
    other = data.draw(st.sampled_from("ABCabc019_-=+ \n").filter(lambda char: char != value[at]))

    for bad in (value[:at] + other + value[at + 1 :], value[:at], value + other, value[:at] + value[at + 1 :]):
        with pytest.raises(DecryptionError):
            cipher.decrypt(bad, LOCATION)


def test_only_the_canonical_base64_of_a_value_is_accepted() -> None:
    cipher = FieldCipher(RING.get)
    value = cipher.encrypt("tea", LOCATION, "default")  # 31 bytes: the last character has 4 bits, 2 of them unused
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = value[:-1] + letters[letters.index(value[-1]) ^ 1]

    with pytest.raises(DecryptionError, match="not whole"):
        cipher.decrypt(twin, LOCATION)


@given(st.binary(min_size=1, max_size=60), st.integers(0, 10_000), st.integers(0, 7))
def test_any_flipped_bit_is_refused(text: bytes, at: int, bit: int) -> None:
    cipher = Cipher(RING["default"])
    data = bytearray(cipher.encrypt(text, b"bound"))

    data[at % len(data)] ^= 1 << bit

    assert cipher.decrypt(bytes(data), b"bound") is None


def test_a_value_from_another_memory_is_refused(vault: Vault, encryption: Encryption) -> None:
    one, two = vault.add("A quokka."), vault.add("A numbat.")
    for added in (one, two):
        encryption.encrypt(added.id)
    first, second = (vault.read(added.id).body for added in (one, two))
    vault.update(one.id, body=second)
    vault.update(two.id, body=first)

    for added in (one, two):
        with pytest.raises(DecryptionError, match="body: cannot be decrypted with the key 'default': another key, or"):
            encryption.reveal(vault.read(added.id))
    vault.update(one.id, body=first)
    assert encryption.reveal(vault.read(one.id)).body == "A quokka."


def test_a_value_from_another_field_is_refused(vault: Vault, encryption: Encryption) -> None:
    added = vault.add("A quokka.", phone="numbat", mail="bilby")
    encryption.encrypt(added.id, fields=["body", "phone", "mail"])
    memory = vault.read(added.id)
    phone, mail = memory.header.get("phone"), memory.header.get("mail")

    for keys in ({"phone": mail}, {"mail": phone}, {"phone": memory.body}, {"body": phone}):
        vault.update(added.id, **keys)
        with pytest.raises(DecryptionError):
            encryption.reveal(vault.read(added.id))
        vault.update(added.id, body=memory.body, phone=phone, mail=mail)
    assert encryption.reveal(vault.read(added.id)).header.get("mail") == "bilby"


def test_another_key_name_is_refused_even_for_the_same_key(vault: Vault) -> None:
    encryption = Encryption(vault, dict.fromkeys(("default", "team"), RING["default"]).get)
    for key, other in (("default", "team"), ("team", "default")):
        added = vault.add(f"A quokka of {key}.")
        encryption.encrypt(added.id, key=key)
        vault.update(added.id, body=vault.read(added.id).body.replace(key, other))

        with pytest.raises(DecryptionError) as caught:
            encryption.decrypt(added.id)
        assert (caught.value.key, caught.value.field, caught.value.path) == (other, "body", added.path)


def test_a_moved_memory_is_decrypted_at_its_new_path(vault: Vault, encryption: Encryption) -> None:
    one, two = vault.add("A quokka.", "/a"), vault.add("A numbat.", "/a")
    for added in (one, two):
        encryption.encrypt(added.id)
    vault.move(one.id, "/b/other.md")
    os.rename(vault.root / two.path, vault.root / "b" / "by-hand.md")
    vault.forget(one.id)

    assert encryption.reveal(vault.read(one.id)).body == "A quokka."
    assert encryption.reveal(vault.read("b/by-hand.md")).body == "A numbat."


def test_decrypting_a_memory_that_lost_its_id_is_an_error(vault: Vault, encryption: Encryption) -> None:
    added = vault.add("A quokka.")
    encryption.encrypt(added.id)
    put(vault, added.path, vault.read(added.id).text.replace(f"id: {added.id}\n", ""))

    with pytest.raises(DecryptionError, match="the memory has lost its id"):
        encryption.decrypt(added.path)


@pytest.mark.parametrize(
    "text", ["A quokka.\n", "---\ntype: note\n---\n\nA quokka.\n", "---\r\nb: 1\r\n---\r\nA quokka."]
)
def test_encrypting_a_file_without_an_id_adds_one(vault: Vault, encryption: Encryption, text: str) -> None:
    put(vault, "people/bob.md", text)

    written = encryption.encrypt("people/bob")

    memory = vault.read("people/bob")
    assert re.fullmatch(r"m-[0-9a-z]{26}", written.id)
    assert memory.id == written.id
    assert set(text.splitlines()) - {"A quokka."} <= set(memory.text.splitlines())
    assert encryption.reveal(memory).body == "A quokka."
    os.rename(vault.root / "people/bob.md", vault.root / "robert.md")
    assert encryption.decrypt(written.id).path == "robert.md"


# --- keys


def test_a_wrong_key_leaves_every_file_as_it_is(vault: Vault, encryption: Encryption, snapshot: Snapshot) -> None:
    added = vault.add(TEXT, title="Tea", phone="platypus")
    encryption.encrypt(added.id, fields=["body", "phone"])
    before, stamp = snapshot(vault.root), vault.read(added.id).stamp
    for keys in ({"default": RING["team"]}, {}, {"default": b"short"}, {"default": "x" * 32}):
        wrong = Encryption(vault, keys.get)  # type: ignore[arg-type]
        for work in (wrong.decrypt, lambda ref, by=wrong: by.reveal(vault.read(ref)), wrong.encrypt):
            with pytest.raises((DecryptionError, InvalidKeyError)) as caught:
                work(added.id)
            assert not any(word in str(caught.value) + repr(caught.value.args) for word in SECRETS)

    assert snapshot(vault.root) == before
    assert vault.read(added.id).stamp == stamp


def test_an_error_names_path_field_and_key(vault: Vault, encryption: Encryption) -> None:
    added = vault.add("Tea.", "/n", phone="platypus")
    encryption.encrypt(added.id, fields=["phone"], key="team")

    with pytest.raises(DecryptionError) as caught:
        Encryption(vault, {"team": RING["next"]}.get).decrypt(added.id)
    error = caught.value
    assert (error.path, error.field, error.key) == (added.path, "phone", "team")
    assert str(error).startswith("n/tea.md: phone: cannot be decrypted with the key 'team': another key")


def test_keys_come_from_the_environment_in_base64_or_hex(monkeypatch: pytest.MonkeyPatch) -> None:
    key = bytes(range(32))
    texts = [
        key.hex(),
        key.hex().upper(),
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    ]
    for text in texts:
        monkeypatch.setenv("MEMFS_KEY", f"{text}\n")
        monkeypatch.setenv("MEMFS_KEY_TEAM_2", text)
        assert from_environment("default") == from_environment("team_2") == key
    assert parse_key("-" * 43, "x") == parse_key("+" * 43, "x")
    monkeypatch.delenv("MEMFS_KEY")
    assert from_environment("default") is None
    assert [variable_name("default"), variable_name("team_2")] == ["MEMFS_KEY", "MEMFS_KEY_TEAM_2"]


@pytest.mark.parametrize("text", ["quokka", "00" * 31, "00" * 33, "A" * 42, "A" * 44, "ä" * 43, "A" * 42 + "*"])
def test_an_invalid_key_is_refused_and_not_quoted(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MEMFS_KEY", text)

    with pytest.raises(InvalidKeyError, match=r"MEMFS_KEY: not 32 bytes in base64 or hex") as caught:
        from_environment("default")
    assert text not in str(caught.value)


@pytest.mark.parametrize("name", ["", "Team", "a-b", "1a", "a" * 33, "a:b", "a\n", "a\0b", 3])
def test_an_invalid_key_name_is_refused(vault: Vault, encryption: Encryption, name: str) -> None:
    added = vault.add("Tea.")

    with pytest.raises(InvalidKeyError, match="a name is a lower-case letter followed by"):
        encryption.encrypt(added.id, key=name)


def test_new_keys_are_valid_and_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {parse_key(new_key(), "x") for _ in range(100)}

    assert len(keys) == 100
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize("line", ["key: abc", "encryption:\n  key: abc", "MEMFS_KEY: abc"])
def test_vault_settings_cannot_contain_a_key(line: str) -> None:
    with pytest.raises(SettingsError, match="unknown key"):
        vault_settings.load(f"version: 1\n{line}\n")


def test_without_the_extra_there_is_one_clear_error(tmp_path: Path, run_script: Script, snapshot: Snapshot) -> None:
    with Vault.init(tmp_path / "vault") as vault:
        added = vault.add("Tea.")
    before = snapshot(tmp_path)
    code = """
sys.modules["cryptography"] = None
from memfs.privacy.field_encryption import Encryption
with Vault(sys.argv[1]) as vault:
    try:
        Encryption(vault, lambda name: bytes(32)).encrypt(sys.argv[2])
    except errors.SettingsError as error:
        print(error, error.hint, sep="|")
"""
    ran = run_script(code, tmp_path / "vault", added.id)

    assert ran.stdout == (
        "encryption: needs the extra 'crypto', which is not installed|Install it: pip install 'memfs-vault[crypto]'.\n"
    ), ran.stderr
    assert snapshot(tmp_path) == before


def test_cryptography_is_imported_only_on_encryption(tmp_path: Path, run_script: Script) -> None:
    code = """
from memfs.privacy.field_encryption import Encryption
with Vault.init(sys.argv[1]) as vault:
    encryption = Encryption(vault, lambda name: bytes(32))
    added = vault.add("Tea.")
    encryption.reveal(vault.read(added.id))
    print("cryptography" in sys.modules)
    encryption.encrypt(added.id)
    print("cryptography" in sys.modules)
"""

    assert run_script(code, tmp_path / "vault").stdout.split() == ["False", "True"]


# --- what cannot be encrypted


@pytest.mark.parametrize("field", ["id", "type", "status", "created", "expires", "importance", "pinned", "supersedes"])
def test_fields_that_memfs_reads_cannot_be_encrypted(vault: Vault, encryption: Encryption, field: str) -> None:
    added = vault.add("Tea.", status="draft")

    with pytest.raises(InvalidMemoryError, match=rf"tea\.md: {field}: cannot be encrypted"):
        encryption.encrypt(added.id, fields=[field])


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("---\nid: m-1\n---\n\nTea.\n", "phone"),
        ("---\nid: m-1\nphone: {home: quokka}\n---\n\nTea.\n", "phone"),
        ("---\nid: m-1\nphone: [[quokka]]\n---\n\nTea.\n", "phone"),
        ("---\nid: m-1\n---\n\n\n", "body"),
        ("---\nid: m-1\nnested key: quokka\n---\n\nTea.\n", "nested key"),
    ],
)
def test_missing_fields_and_values_that_cannot_be_written_back_are_refused(
    vault: Vault, encryption: Encryption, text: str, field: str
) -> None:
    before = put(vault, "tea.md", text)

    with pytest.raises(InvalidMemoryError) as caught:
        encryption.encrypt("tea.md", fields=[field])
    assert "quokka" not in str(caught.value)
    assert vault.read("tea.md") == before


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"---\nid: m-1\n---\n\nCaf\xe9 quokka.\n", MalformedMemoryError),
        ("---\nid: m-1\n: bad: [\n---\n\nA quokka.\n", MalformedMemoryError),
        ("---\nid: m-1\n---\n\nenc:v1:default:short\nA quokka.\n", DecryptionError),
        ("---\nid: m-1\n---\n\nenc:v1:\n", DecryptionError),
        ("---\nid: m-1\n---\n\n" + "A quokka. " * 700_000, InvalidMemoryError),
    ],
    ids=["not utf-8", "bad header", "no ciphertext", "no key", "too large"],
)
def test_a_file_that_cannot_be_encrypted_stays_as_it_is(
    vault: Vault, encryption: Encryption, text: str | bytes, error: type[MemfsError]
) -> None:
    before = put(vault, "tea.md", text)

    with pytest.raises(error):
        encryption.encrypt("tea.md")
    assert vault.read("tea.md") == before


def test_a_failed_memory_does_not_stop_the_others(vault: Vault, encryption: Encryption) -> None:
    added = vault.add(TEXT)
    progress_calls: list[tuple[int, int]] = []

    results = encryption.encrypt_many(["nothing", added.id], progress=lambda *done: progress_calls.append(done))

    assert [type(result).__name__ for result in results] == ["MemoryNotFoundError", "Encrypted"]
    assert progress_calls == [(1, 2), (2, 2)]
    assert vault.read(added.id).is_encrypted


def test_a_concurrent_save_is_never_overwritten(vault: Vault) -> None:
    added = vault.add(TEXT)
    Encryption(vault, RING.get).encrypt(added.id)
    file = vault.root / added.path

    def keys(name: str) -> bytes:
        file.write_text(file.read_text() + "Saved meanwhile.\n")  # after the file was read, before it is written
        return RING[name]

    Encryption(vault, keys).decrypt(added.id)

    assert vault.read(added.id).body == f"{TEXT}\nSaved meanwhile."


# --- search and agents


def test_no_search_finds_encrypted_text_or_its_ciphertext(vault: Vault, encryption: Encryption) -> None:
    added = vault.add(TEXT, "/n", title="Bilby", tags=["wombat", "food"], phone="platypus", description="A quokka.")
    vault.add("Something else.")
    vault.search("quokka")
    encryption.encrypt(added.id, fields=["body", "title", "tags", "phone", "description"], rename=True)
    vault.update(added.id, add_tags=["open"], room="seven")
    token = encrypted_lines(vault.read(added.id))
    assert [term for term in memory_keywords(vault.read(added.id)) if "enc:" in term] == []
    pieces = [piece for value in token for piece in re.split(r"[:_-]", value) if len(piece) > 2]

    for is_published in (False, True):
        if is_published:
            vault.sync()
        for word in (*SECRETS, *pieces, "enc", "v1", "encrypted"):
            assert paths(vault, word) == [], (word, is_published)
        for where in (("phone", "EQUALS", "platypus"), ("phone", "CONTAINS", "enc"), ("phone", "EQUALS", token[2])):
            assert paths(vault, "", where=[where]) == []
        assert paths(vault, "", tags=["wombat"]) == paths(vault, "", tags=[token[1]]) == []
        assert paths(vault, "", where=[("tags", "CONTAINS", "enc:")]) == []
        assert len(paths(vault, "open")) == len(paths(vault, "", tags=["open"])) == 1
        assert len(paths(vault, "", where=[("phone", "EXISTS")])) == len(paths(vault, "", where={"room": "seven"})) == 1
        hit = vault.search("open")[0]
        assert (hit.title, hit.snippet, hit.memory.description) == ("[encrypted]", "[encrypted]", "[encrypted]")
    assert vault.doctor() == []


def test_unpublished_and_published_memories_score_the_same(vault: Vault, encryption: Encryption) -> None:
    for number in range(30):
        vault.add(f"Memory {number} of the garden.", "/n")
    vault.sync()
    ids = [
        vault.add(f"Garden secret {number}.", "/n", title="Garden", source="session s-1, message 3").id
        for number in (1, 2)
    ]
    encryption.encrypt_many(ids)
    before = [(hit.memory.path, round(hit.relevance, 6)) for hit in vault.search("garden", limit=40)]
    assert vault.status().pending == 2

    vault.sync()

    assert [path for path, _ in before[:2]] == [vault.read(name).path for name in ids]
    after = [hit.memory.path for hit in vault.search("garden", limit=40)]
    assert after[:2] == [path for path, _ in before[:2]]
    assert vault.doctor() == []


def test_an_agent_sees_encrypted_and_cannot_replace_the_text(vault: Vault, encryption: Encryption) -> None:
    added = vault.add(TEXT, "/facts", title="Garden", phone="platypus")
    encryption.encrypt(added.id, fields=["body", "phone"])
    store = VaultStore(vault, "/facts")

    (found,) = asyncio.run(store.search("garden"))
    assert found.content == "[encrypted]"
    assert (found.metadata or {})["phone"] == "[encrypted]"
    assert asyncio.run(store.similar("garden")) == []
    with pytest.raises(InvalidMemoryError, match="its text is encrypted"):
        asyncio.run(store.update(added.id, "Nothing."))
    assert encryption.reveal(vault.read(added.id)).body == TEXT


# --- purging of plain text


@pytest.mark.parametrize("in_git", [True, False], ids=["git", "plain"])
def test_no_byte_of_the_plain_text_is_left_in_the_vault(tmp_path: Path, git: Git, in_git: bool) -> None:
    root = tmp_path / "vault"
    Vault.init(root)
    with Vault(root) as vault:
        moved = vault.add("A quokka, as it was before git.", "/n", title="Numbat")
        vault.append(moved.id, "And a bilby.")
    if in_git:
        git(root, "init")
    with Vault(root, watch=True) as vault:
        added = vault.add("A numbat sleeps.", "/n", tags=["wombat"], phone="platypus", title="Bilby")
        vault.update(added.id, body=TEXT, phone="platypus 2")
        vault.append(added.id, "A platypus.")
        vault.update(added.id, tags=["wombat", "quokka"])
        vault.move(added.id, "/m")
        vault.add("Nothing of the kind.", "/n")
        assert len(paths(vault, "quokka", include="all")) == 2
        vault.sync()
        os.rename(root / moved.path, root / "n/by-hand.md")
        put(vault, "n/plain.md", "A wombat of a person.\n")
        vault.append("n/plain", "With a bilby.")
        os.rename(root / "n/plain.md", root / "n/simple.md")
        assert files_with_plain_text(root)

        encryption = Encryption(vault, RING.get)
        encryption.encrypt(added.id, fields=["body", "tags", "phone", "title"], rename=True)
        encryption.encrypt("n/by-hand", fields=["body", "title"])
        encryption.encrypt("n/simple")
        assert vault.doctor() == []

    assert files_with_plain_text(root) == []
    with Vault(root) as vault:
        assert [paths(vault, word, include="all") for word in SECRETS] == [[]] * len(SECRETS)
        assert vault.doctor() == []
        assert files_with_plain_text(root) == []
        encryption = Encryption(vault, RING.get)
        assert encryption.reveal(vault.read(added.id)).body == f"{TEXT}\nA platypus."
        assert encryption.reveal(vault.read(moved.id)).title == "Numbat"


def test_versions_without_the_plain_text_are_kept(vault: Vault, encryption: Encryption) -> None:
    added, other = vault.add(TEXT), vault.add("A numbat of its own.")
    vault.append(other.id, "And more.")
    encryption.encrypt(added.id)
    vault.update(added.id, importance=5)
    encryption.encrypt(added.id)

    assert len(vault.versions(added.id)) == 2
    assert len(vault.versions(other.id)) == 2
    vault.restore(added.id)
    assert vault.read(added.id).header.importance == 1
    assert encryption.reveal(vault.read(added.id)).body == TEXT


def test_a_torn_version_with_the_plain_text_is_dropped_too(tmp_path: Path) -> None:
    with Vault.init(tmp_path) as vault:
        added = vault.add(TEXT)
        (log,) = [path for path in (tmp_path / ".memfs/history").iterdir() if b"quokka" in path.read_bytes()]
        for torn in (log, log.with_name("00.log" if log.name != "00.log" else "01.log")):
            with open(torn, "ab") as file:
                file.write(b'\x1e["x.md", 17, "00", 9999]\nThe quokka was torn')
        Encryption(vault, RING.get).encrypt(added.id, rename=True)

    assert files_with_plain_text(tmp_path) == []


def test_an_index_of_another_format_is_purged(tmp_path: Path) -> None:
    with Vault.init(tmp_path) as vault:
        added = vault.add(TEXT)
        vault.sync()
    current = tmp_path / ".memfs/index/current"
    text = re.sub(rb'"\d+/', b'"0/', current.read_bytes().partition(b"\n")[2])
    current.write_bytes(b"%d\n%b" % (zlib.crc32(text), text))
    assert any(".memfs/index" in where for where in files_with_plain_text(tmp_path))

    with Vault(tmp_path) as vault:
        Encryption(vault, RING.get).encrypt(added.id, rename=True)

    assert files_with_plain_text(tmp_path) == []


def test_an_incomplete_index_is_purged(tmp_path: Path) -> None:
    with Vault.init(tmp_path) as vault:
        added = vault.add(TEXT)
        vault.sync()
    (tmp_path / ".memfs/index/current").unlink()

    with Vault(tmp_path) as vault:
        Encryption(vault, RING.get).encrypt(added.id, rename=True)

    assert files_with_plain_text(tmp_path) == []


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_file_that_a_killed_writer_displaced_is_purged(tmp_path: Path, is_swept: bool) -> None:
    with Vault.init(tmp_path) as vault:
        added = vault.add(TEXT)
        Encryption(vault, RING.get).encrypt(added.id, rename=True)
    writer_dir = tmp_path / ".memfs/tmp/1-dead"  # the state after a crash between exchange and unlink
    writer_dir.mkdir()
    plain = f"---\nid: {added.id}\n---\n\n{TEXT}\n".encode()
    (writer_dir / f"1.0.{digest(b'x')}.{added.path}").write_bytes(plain)
    if is_swept:
        with Vault(tmp_path) as vault:
            vault.add("Anything.")  # the sweep keeps the file as a version
    assert files_with_plain_text(tmp_path)

    with Vault(tmp_path) as vault:
        assert Encryption(vault, RING.get).encrypt(added.id).outcome == "unchanged"

    assert files_with_plain_text(tmp_path) == []


def test_a_file_that_a_program_has_open_is_reported_and_purged_when_it_is_closed(tmp_path: Path) -> None:
    with Vault.init(tmp_path) as vault:
        added = vault.add(TEXT, title="Tea")
        with open(tmp_path / added.path, "r+", encoding="utf-8"):
            written = Encryption(vault, RING.get).encrypt(added.id, rename=False)
            assert LEFT_IN_OPEN_FILE in written.left
            assert files_with_plain_text(tmp_path / ".memfs")

    assert files_with_plain_text(tmp_path) == []


def test_places_with_remaining_plain_text_are_reported(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init")
    with Vault.init(tmp_path / "vault") as vault:
        named, plain = vault.add("A quokka sleeps."), vault.create("x.md", "---\nid: m-1\n---\n\nA quokka.\n")
        encryption = Encryption(vault, RING.get)

        assert encryption.encrypt(named.id).left == (LEFT_IN_FILE_NAME, LEFT_IN_GIT)
        assert encryption.encrypt(plain.path).left == (LEFT_IN_GIT,)
        renamed = encryption.encrypt(named.id, rename=True)
    assert (renamed.path, renamed.left) == (f"{named.id}.md", (LEFT_IN_GIT,))


def test_an_invalid_file_name_is_refused_before_anything_is_written(vault: Vault, encryption: Encryption) -> None:
    before = put(vault, "tea.md", "---\nid: people/bob\n---\n\nA quokka.\n")

    with pytest.raises(InvalidNamespaceError):
        encryption.encrypt("tea.md", rename=True)
    assert vault.read("tea.md") == before


# --- rotation


def test_rotation_changes_the_key_of_everything_and_nothing_else(vault: Vault, encryption: Encryption) -> None:
    one = vault.add(TEXT, "/a", tags=["wombat"], phone="bilby")
    two, other, clear = vault.add("A numbat.", "/b"), vault.add("A platypus.", "/b"), vault.add("Tea.", "/b")
    encryption.encrypt(one.id, fields=["body", "tags"])
    encryption.encrypt(one.id, fields=["phone"], key="team")
    encryption.encrypt(other.id, key="team")
    encryption.encrypt(two.id)
    vault.append(one.id, "Added since.")
    vault.update(one.id, add_tags=["open"])
    vault.forget(two.id)
    before = {name: vault.read(name) for name in (one.id, other.id, clear.id)}
    progress_calls: list[tuple[int, int]] = []

    results = encryption.rotate("default", "next", progress=lambda *done: progress_calls.append(done))

    assert sorted(getattr(result, "path", "") for result in results) == [one.path, "archive/b/a-numbat.md"]
    assert {getattr(result, "outcome", "") for result in results} == {"rotated"}
    assert progress_calls == [(1, 2), (2, 2)]
    assert [vault.read(name) for name in (other.id, clear.id)] == [before[other.id], before[clear.id]]
    lines = zip(before[one.id].text.splitlines(), vault.read(one.id).text.splitlines(), strict=True)
    changed = [(old.partition("enc:v1:"), new.partition("enc:v1:")) for old, new in lines if old != new]
    assert [(old[2][:8], new[2][:5]) for old, new in changed] == [("default:", "next:"), ("default:", "next:")]
    without = Encryption(vault, {name: RING[name] for name in ("team", "next")}.get)
    revealed = without.reveal(vault.read(one.id))
    assert (revealed.body, revealed.header.tags) == (f"{TEXT}\nAdded since.", ("wombat", "open"))
    assert without.reveal(vault.read(two.id)).body == "A numbat."
    assert list(encryption.rotate("default", "next")) == []


def test_kept_versions_are_rotated_too(vault: Vault, encryption: Encryption) -> None:
    gone, there = vault.add(TEXT), vault.add("A numbat.")
    for added in (gone, there):
        encryption.encrypt(added.id)
        vault.update(added.id, importance=4)
    (vault.root / gone.path).unlink()

    encryption.rotate("default", "next")

    assert files_with_plain_text(vault.root, ["enc:v1:default:"]) == []
    without = Encryption(vault, {"next": RING["next"]}.get)
    assert vault.restore(gone.path).outcome == "restored"
    assert without.reveal(vault.read(gone.path)).body == TEXT
    for version in vault.versions(there.path):
        vault.restore(there.path, version.hash)
        assert without.reveal(vault.read(there.path)).body == "A numbat."


def test_a_memory_that_cannot_be_rotated_does_not_stop_the_others(vault: Vault, encryption: Encryption) -> None:
    bad, good = vault.add("A quokka.", "/a"), vault.add("A numbat.", "/b")
    for added in (bad, good):
        encryption.encrypt(added.id)
    body = vault.read(bad.id).body
    vault.update(bad.id, body=body[:-1])
    put(vault, "c.md", f"---\nid: x\nid: y\nphone: {body}\n---\n\nTea.\n")
    before = [vault.read(bad.id), vault.read("c")]

    results = encryption.rotate("default", "next")

    assert [type(result).__name__ for result in results] == ["MalformedMemoryError", "DecryptionError", "Written"]
    assert [vault.read(bad.id), vault.read("c")] == before
    vault.restore(bad.id)  # the whole version was rotated
    assert encryption.reveal(vault.read(bad.id)).body == "A quokka."


def test_rotation_stays_in_its_namespace_and_its_scope(vault: Vault, encryption: Encryption) -> None:
    ids = [vault.add(f"A quokka in {place}.", f"/{place}").id for place in ("a", "b", "c")]
    encryption.encrypt_many(ids)
    vault.forget(ids[0])

    encryption.rotate("default", "next", "/a")
    Encryption(vault.scope("/b"), RING.get).rotate("default", "team")

    assert [encrypted_lines(vault.read(name))[0].split(":")[2] for name in ids] == ["next", "team", "default"]
    versions = {
        path.name: sorted(set(re.findall(rb"enc:v1:(\w+):", path.read_bytes())))
        for path in (vault.root / ".memfs/history").iterdir()
    }
    assert sorted(key for keys in versions.values() for key in keys) == [b"default", b"next", b"team"]


@pytest.mark.parametrize("names", [("default", "default"), ("default", "other"), ("other", "default")])
def test_rotation_needs_two_different_keys(vault: Vault, encryption: Encryption, names: tuple[str, str]) -> None:
    added = vault.add(TEXT)
    encryption.encrypt(added.id)
    before = vault.read(added.id)

    with pytest.raises((InvalidKeyError, InvalidMemoryError)):
        encryption.rotate(*names)
    assert vault.read(added.id) == before


def test_the_documented_commands_remove_the_file_from_git(tmp_path: Path, git: Git) -> None:
    root = tmp_path / "vault"
    page = (REPOSITORY / "docs/encryption.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    with Vault.init(root) as vault:
        git(root, "init")
        added = vault.add(TEXT)
        for message in ("one", "two"):
            git(root, "add", "-A")
            git(root, "commit", "-m", message)
            vault.append(added.id, "A bilby.")
        Encryption(vault, RING.get).encrypt(added.id, rename=True)
    git(root, "add", "-A")
    git(root, "commit", "-m", "three")
    assert "quokka" in git(root, "log", "-p", "--all")

    script = tmp_path / "rewrite.sh"
    script.write_text(f"set -e\nexport OLD_PATH={added.path} FILTER_BRANCH_SQUELCH_WARNING=1\n{commands}")
    git(root, "-c", f"alias.rewrite=!sh {script}", "rewrite")

    there = git(root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    objects = "".join(git(root, "cat-file", "-p", one.split()[0]) for one in there)
    assert "enc:v1:" in objects
    assert [word for word in SECRETS if word in objects] == []
    assert files_with_plain_text(root, without=".git/ ") == []
    with Vault(root) as vault:
        assert Encryption(vault, RING.get).reveal(vault.read(added.id)).body.startswith(TEXT)
