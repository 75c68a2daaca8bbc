"""The prompts and the reply formats of the strategies."""

from collections.abc import Mapping
from typing import Any, ClassVar

from memfs.agent.extraction.extractor import ModelExtractor

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_CHOICES = (
    "\n\nThe memories that are there already are numbered; `target` is such a number. `action` is one of:\n"
    "- add: no memory states it yet; target is null.\n"
    "- update: the target is still true, and content is its whole new text, with the new information worked in.\n"
    "- supersede: the target is true no longer; content is the fact that is true now.\n"
    "- skip: the target states it already."
)


class PreferenceExtractor(ModelExtractor):
    """Extracts preferences, with the categories and the context of each."""

    default_prompt = (
        "You note down what a person prefers, from a conversation, for later conversations: what they like and "
        "dislike, how they want things done, and what they always or never choose, said outright or plain from what "
        "they do.\n\n"
        "Each preference is one thing, and is understood on its own. Its context says in a sentence when and how it "
        "showed. Its categories are one to three general words such as food, travel or work. Leave out what holds "
        "for the moment only, what the assistant suggests and nobody takes up, and secrets."
    )
    add_format = (
        'Answer with JSON alone: an array of {"content": string, "context": string, "categories": [string]} objects, '
        'or {"facts": array} where the answer has to be an object. Without a preference the array is empty.'
    )
    choose_format = (
        'Answer with JSON alone: an array of {"content": string, "context": string, "categories": [string], "action": '
        'string, "target": number or null} objects, or {"facts": array} where the answer has to be an object. Without '
        "a preference the array is empty. `content` is the preference alone." + _CHOICES
    )
    task = "Extract the preferences from the transcript."
    extra_keys: ClassVar[Mapping[str, Any]] = {"context": _TEXT, "categories": _TEXTS}


class SummaryExtractor(ModelExtractor):
    """Extracts the topics of a session that are new or have changed."""

    default_prompt = (
        "You keep the summary of a conversation, a few sentences per topic: questions, findings, decisions and open "
        "points, also those of tools. Write for a reader who was not part of the conversation.\n\n"
        "The summary so far, if there is one, is shown as a memory; keep the titles of its topics. Give each topic "
        "that is new, and each whose text changes, whole: with what still holds of it. Leave out topics that stay as "
        "they are, small talk, and secrets."
    )
    add_format = (
        'Answer with JSON alone: an array of {"topic": string, "content": string} objects, or {"facts": array} where '
        "the answer has to be an object. Where nothing changes the array is empty."
    )
    task = "Bring the summary up to date with the transcript."
    extra_keys: ClassVar[Mapping[str, Any]] = {"topic": _TEXT}
    decides = False


class EpisodeExtractor(ModelExtractor):
    """Extracts tasks and their outcomes."""

    default_prompt = (
        "You note down episodes of a conversation, for later ones: a task that was taken on and came to an end, well "
        "or not.\n\n"
        "`content` says in one or two sentences what was done and what came of it; `situation` the state "
        "at the start, `intent` the goal, `actions` the steps in their order, and `outcome` the result and how it was "
        "recognised. Leave out what is still going on, small talk, and secrets."
    )
    add_format = (
        'Answer with JSON alone: an array of {"content": string, "situation": string, "intent": string, "actions": '
        'string, "outcome": string} objects, or {"facts": array} where the answer has to be an object. Without an '
        "episode the array is empty."
    )
    choose_format = (
        'Answer with JSON alone: an array of {"content": string, "situation": string, "intent": string, "actions": '
        'string, "outcome": string, "action": string, "target": number or null} objects, or {"facts": array} where '
        "the answer has to be an object. Without an episode the array is empty." + _CHOICES
    )
    task = "Extract the episodes from the transcript."
    extra_keys: ClassVar[Mapping[str, Any]] = dict.fromkeys(("situation", "intent", "actions", "outcome"), _TEXT)


class ReflectionExtractor(ModelExtractor):
    """Extracts lessons from episodes."""

    default_prompt = (
        "You learn from what an agent did: what works, what does not, and when. From the transcript, and from the "
        "earlier episodes in it, take the lessons that will help with another task of the kind.\n\n"
        "Each lesson is one thing, is understood on its own, and says in which situation it holds. Leave out what "
        "only one case shows and may be chance, what everybody knows, and secrets."
    )
    task = "Extract the lessons from the transcript."
