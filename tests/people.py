"""A vault about people, of any size and always the same: what others are found among."""

import random
from collections.abc import Iterator
from pathlib import Path

FIRST = (
    "Maria João Anna Piotr Emma Lukas Yuki Chen Priya Omar Fatima Igor Olga Sven Ingrid Marco Giulia Pablo Lucía Noah "
    "Ava Liam Mia Ethan Zoe Hugo Léa Nina Felix Clara Amir Sara Kofi Ama Tariq Leila Viktor Irina Jonas Elif"
).split()
LAST = (
    "Silva Kowalski Novak Tanaka Wang Patel Hassan Petrov Larsen Rossi García Smith Johnson Brown Miller Dubois Weber "
    "Schmidt Fischer Costa Moreau Lindqvist Berg Okafor Mensah Khan Rahimi Ivanova Horvat Yilmaz"
).split()
CITIES = "Porto Kraków Vienna Lisbon Osaka Chengdu Pune Cairo Rabat Sofia Malmö Oslo Milan Seville Leeds Boston".split()
JOBS = "nurse teacher baker carpenter lawyer violinist gardener pilot plumber architect chemist librarian".split()
FOODS = "risotto pierogi ramen dumplings couscous goulash paella falafel lasagne moussaka borscht tacos".split()
HOBBIES = "chess sailing pottery fencing judo karaoke gliding archery knitting origami birdwatching cycling".split()
PETS = "a tabby cat|two canaries|an old greyhound|a tortoise called Momo|no pets|a rabbit|three goldfish".split("|")
MONTHS = "January February March April May June July August September October November December".split()


def facts(number: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """Actors, and what is known of them."""
    pick = random.Random(seed)
    for count in range(number):
        first, last = pick.choice(FIRST), pick.choice(LAST)
        city, month = pick.choice(CITIES), pick.choice(MONTHS)
        sentence = pick.choice(
            (
                f"{first} {last} lives in {city} and works as a {pick.choice(JOBS)}.",
                f"{first} {last} likes {pick.choice(FOODS)} best, with a glass of red wine.",
                f"{first} {last} was born in {month} {pick.randint(1950, 2005)} and grew up near {city}.",
                f"{first} {last} has {pick.choice(PETS)} at home.",
                f"{first} {last} plays {pick.choice(HOBBIES)} every {pick.choice(('Tuesday', 'Friday', 'Sunday'))}.",
                f"{first} {last} is married to {pick.choice(FIRST)} {last}; the wedding was in {city}.",
                f"{first} {last} speaks four languages and learns a fifth since {month}.",
                f"{first} {last} dislikes {pick.choice(FOODS)}, and cannot stand long meetings.",
            )
        )
        extra = pick.choice(
            (
                f"Met at a dinner in {city}.",
                f"Told us so in {month}, over coffee.",
                f"Knows {pick.choice(FIRST)} {pick.choice(LAST)} from school.",
                "Prefers to be called in the evening.",
            )
        )
        yield f"{first}-{last}".lower(), f"{sentence}\n\n{extra} Card {count}.\n"


def fill(root: Path, number: int, seed: int = 1) -> None:
    """Write a vault of so many facts, without durability."""
    for count, (actor, text) in enumerate(facts(number, seed)):
        place = root / "people" / actor
        place.mkdir(parents=True, exist_ok=True)
        (place / f"fact-{count}.md").write_text(text, encoding="utf-8")


CODING = """How do I reverse a linked list in Python?
What is the difference between a mutex and a semaphore?
Why does my React component re-render twice?
How to fix a merge conflict in git rebase?
Explain the borrow checker error in this Rust function
How do I write a unit test for an async generator?
What does the segmentation fault in my C program mean?
How can I speed up a slow SQL join with an index?
Refactor this class to use dependency injection
Why is my Docker container running out of memory?
How to parse JSON with nested arrays in Go?
What is the time complexity of quicksort?
How do I set up a GitHub Actions workflow for pytest?
Why does TypeScript complain about an undefined property?
How to implement binary search over a rotated array?
What is a race condition and how do I debug it?
How do I centre a div with flexbox in CSS?
Convert this callback code to async await
How to handle exceptions in a Java stream?
Which regular expression matches an IPv4 address?""".splitlines()
