"""The settings of a vault in `memfs.yaml`: the schema, and checks. Unknown keys are errors."""

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

FILE_NAME = "memfs.yaml"
FORMAT_VERSION = 1
Action = Literal["off", "redact", "reject"]  # on a kind of personal data or secret in a text that an agent writes
ACTIONS: tuple[Action, ...] = get_args(Action)
PERSONAL_KINDS = ("email", "phone", "card", "iban", "ip")
SECRET_KINDS = (
    "private-key", "aws-key", "aws-secret", "github-token", "gitlab-token", "slack-token", "stripe-key", "openai-key",
    "anthropic-key", "google-key", "npm-token", "pypi-token", "huggingface-token", "service-token", "jwt",
    "authorization", "url-password", "api-key", "password",
)  # fmt: skip
KINDS = (*PERSONAL_KINDS, "secrets", *SECRET_KINDS)


def load(text: str) -> Mapping[str, Any]:
    """Parse and check the text of `memfs.yaml`; keys that it does not set are absent. Raises SettingsError."""
    try:
        values, _ = scan_header(text)
    except Fault as fault:
        line = fault.line - 1  # a fault counts the `---` above a header, which this file does not have
        raise SettingsError(f"{FILE_NAME}:{line}", fault.reason) from None
    version = values.get("version", FORMAT_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SettingsError(FILE_NAME, f"version: {version!r} is not a whole number from 1")
    if version > FORMAT_VERSION:
        error = SettingsError(
            FILE_NAME, f"version {version} was made by a newer memfs; this one knows up to {FORMAT_VERSION}"
        )
        raise error.with_hint("Install a later memfs: pip install --upgrade memfs-vault.")
    if set(values) <= {"version"}:
        return values
    return _validate(values)


def _validate(values: Mapping[str, Any]) -> Mapping[str, Any]:
    from pydantic import ValidationError

    try:
        return _model().model_validate(values).model_dump(exclude_unset=True)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = ", ".join(_keys_at(fault["loc"][:-1]))
            raise SettingsError(FILE_NAME, f"unknown key {key!r}; known keys: {known}") from None
        raise SettingsError(FILE_NAME, f"{key}: {fault['msg'].removeprefix('Value error, ')}") from None


def _keys_at(location: Sequence[int | str]) -> Iterable[str]:
    """Return the known keys at a location in the settings."""
    model: Any = _model()
    for name in location:
        model = model.model_fields[name].annotation
    return model.model_fields  # type: ignore[no-any-return]  # pydantic's mapping is untyped


@cache
def _model() -> "type[BaseModel]":
    """Return the schema. It is created only for a vault with settings, because importing pydantic is slow."""
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

        version: int = FORMAT_VERSION
        actor: str | None = Field(default=None, min_length=1)
        namespaces: dict[str, str] = Field(default_factory=dict)
        retrieval: Retrieval = Field(default_factory=Retrieval)
        forgetting: Forgetting = Field(default_factory=Forgetting)
        redaction: dict[str, Action] = Field(default_factory=dict)

        @field_validator("namespaces")
        @classmethod
        def check_templates(cls, value: dict[str, str]) -> dict[str, str]:
            for template in value.values():
                try:
                    Template(template)
                except MemfsError as error:
                    raise ValueError(str(error)) from error
            return value

        @field_validator("redaction")
        @classmethod
        def check_kinds(cls, value: dict[str, Action]) -> dict[str, Action]:
            for kind in value:
                if kind not in KINDS:
                    raise ValueError(f"unknown kind {kind!r}; known kinds: {', '.join(KINDS)}")
            return value

    return Settings
