"""Settings of a vault: `memfs.yaml`. Unknown keys are errors."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from memfs.decay import HALF_LIFE_DAYS, PRUNE_BELOW
from memfs.errors import MemfsError, SettingsError
from memfs.format.frontmatter import Fault, scan_header
from memfs.namespace import Template
from memfs.query.tokens import LANGUAGES

if TYPE_CHECKING:
    from pydantic import BaseModel

NAME = "memfs.yaml"
VERSION = 1
Action = Literal["off", "redact", "reject"]  # what is done with a kind of thing that an agent should not write
ACTIONS: tuple[Action, ...] = get_args(Action)
PERSONAL_KINDS = ("email", "phone", "card", "iban", "ip")
SECRET_KINDS = (
    "private-key", "aws-key", "aws-secret", "github-token", "gitlab-token", "slack-token", "stripe-key", "openai-key",
    "anthropic-key", "google-key", "npm-token", "pypi-token", "huggingface-token", "service-token", "jwt",
    "authorization", "url-password", "api-key", "password",
)  # fmt: skip
KINDS = (*PERSONAL_KINDS, "secrets", *SECRET_KINDS)


def load(text: str) -> Mapping[str, Any]:
    """Read and check the text of `memfs.yaml`; what it does not set is absent."""
    try:
        values, _ = scan_header(text)
    except Fault as fault:
        raise SettingsError(f"{NAME}:{fault.line - 1}", fault.reason) from None
    version = values.get("version", VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SettingsError(NAME, f"version: {version!r} is not a whole number from 1")
    if version > VERSION:
        error = SettingsError(NAME, f"version {version} was made by a newer memfs; this one knows up to {VERSION}")
        raise error.with_hint("Install a later memfs: pip install --upgrade memfs-vault.")
    if set(values) <= {"version"}:
        return values
    return _checked(values)


def _checked(values: Mapping[str, Any]) -> Mapping[str, Any]:
    from pydantic import ValidationError

    try:
        return _model().model_validate(values).model_dump(exclude_unset=True)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = ", ".join(_fields(fault["loc"][:-1]))
            raise SettingsError(NAME, f"unknown key {key!r}; known keys: {known}") from None
        raise SettingsError(NAME, f"{key}: {fault['msg'].removeprefix('Value error, ')}") from None


def _fields(place: Sequence[int | str]) -> Iterable[str]:
    """The keys that there are at a place of the settings."""
    model: Any = _model()
    for name in place:
        model = model.model_fields[name].annotation
    return model.model_fields  # type: ignore[no-any-return]  # a mapping of pydantic's


@cache
def _model() -> "type[BaseModel]":
    """The schema; made when a vault has settings, for pydantic takes long to import."""
    from pydantic import BaseModel, ConfigDict, Field, field_validator

    class Retrieval(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)

        language: Literal[LANGUAGES] = "english"  # type: ignore[valid-type]  # a tuple of constants
        semantic: bool = False

    class Forgetting(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

        enabled: bool = True
        half_life_days: float = Field(default=HALF_LIFE_DAYS, gt=0)
        prune_below: float = Field(default=PRUNE_BELOW, ge=0, le=1)

    class Settings(BaseModel):
        model_config = ConfigDict(extra="forbid", strict=True)

        version: int = VERSION
        actor: str | None = Field(default=None, min_length=1)
        namespaces: dict[str, str] = Field(default_factory=dict)
        retrieval: Retrieval = Field(default_factory=Retrieval)
        forgetting: Forgetting = Field(default_factory=Forgetting)
        redaction: dict[str, Action] = Field(default_factory=dict)

        @field_validator("namespaces")
        @classmethod
        def are_templates(cls, value: dict[str, str]) -> dict[str, str]:
            for template in value.values():
                try:
                    Template(template)
                except MemfsError as error:
                    raise ValueError(str(error)) from error
            return value

        @field_validator("redaction")
        @classmethod
        def are_kinds(cls, value: dict[str, Action]) -> dict[str, Action]:
            for kind in value:
                if kind not in KINDS:
                    raise ValueError(f"unknown kind {kind!r}; known kinds: {', '.join(KINDS)}")
            return value

    return Settings
