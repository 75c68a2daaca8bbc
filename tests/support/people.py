"""Synthetic vaults about people, of any size and reproducible: the other memories of a search."""

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
    """Yield actors and facts about them."""
    rng = random.Random(seed)
    for count in range(number):
        first, last = rng.choice(FIRST), rng.choice(LAST)
        city, month = rng.choice(CITIES), rng.choice(MONTHS)
        sentence = rng.choice(
            (
                f"{first} {last} lives in {city} and works as a {rng.choice(JOBS)}.",
                f"{first} {last} likes {rng.choice(FOODS)} best, with a glass of red wine.",
                f"{first} {last} was born in {month} {rng.randint(1950, 2005)} and grew up near {city}.",
                f"{first} {last} has {rng.choice(PETS)} at home.",
                f"{first} {last} plays {rng.choice(HOBBIES)} every {rng.choice(('Tuesday', 'Friday', 'Sunday'))}.",
                f"{first} {last} is married to {rng.choice(FIRST)} {last}; the wedding was in {city}.",
                f"{first} {last} speaks four languages and learns a fifth since {month}.",
                f"{first} {last} dislikes {rng.choice(FOODS)}, and cannot stand long meetings.",
            )
        )
        extra = rng.choice(
            (
                f"Met at a dinner in {city}.",
                f"Told us so in {month}, over coffee.",
                f"Knows {rng.choice(FIRST)} {rng.choice(LAST)} from school.",
                "Prefers to be called in the evening.",
            )
        )
        yield f"{first}-{last}".lower(), f"{sentence}\n\n{extra} Card {count}.\n"


def fill(root: Path, number: int, seed: int = 1) -> None:
    """Write a vault of that many facts, without fsync."""
    for count, (actor, text) in enumerate(facts(number, seed)):
        place = root / "people" / actor
        place.mkdir(parents=True, exist_ok=True)
        (place / f"fact-{count}.md").write_text(text, encoding="utf-8")


# These texts share hardly any words.
SENTENCES_ABOUT_PEOPLE = """Margarethe teaches chemistry at the evening school and hates grading on weekends.
Her husband Josef repairs clocks in a workshop behind the house.
Their son Anton wants to become a firefighter.
Lidia is allergic to shellfish and carries an epipen.
Lidia's favourite restaurant is the Lebanese place on Canal Street.
Ruben moved from Rotterdam to Valencia in spring 2024.
Ruben rents a garage for his motorcycle, an old Moto Guzzi.
Thandiwe sings alto in the cathedral choir.
Thandiwe has a standing appointment with her physiotherapist on Tuesdays.
Grandmother Elsa turned ninety in August; the party was at the lake.
Elsa cannot hear well on the left side, so sit on her right.
Uncle Bertil keeps bees and gives everyone honey at Christmas.
Mireille is pregnant; the baby is due in early February.
Mireille does not want to know the sex of the baby.
Karim supports Olympique Marseille and never misses a match.
Karim quit smoking two years ago and does not like to be reminded of it.
Sofia has dyslexia and prefers voice messages to long texts.
Sofia's birthday is on 3 May; she likes peonies.
Per and Solveig are divorced but spend holidays together with the children.
Solveig works night shifts at the airport, so never ring before noon.
Hiroshi drinks his coffee black and only before ten.
Hiroshi lost his father last year and visits the grave in October.
Aunt Rosa lives alone in Naples with a parrot called Garibaldi.
Rosa cooks lasagna for the whole street on Easter Monday.
Nadia studies law in Leiden and graduates next summer.
Nadia's roommate Femke plays field hockey for the national junior team.
Emeka is vegan, apart from his mother's chicken stew.
Emeka proposed to Joy on a boat in Lagos.
Joy wants a small wedding, no more than forty guests.
Walter is a retired judge who paints watercolours of birds.
Walter's knee was operated on in March and stairs are hard for him.
Ingeborg writes crime novels under the name I. B. Holm.
Ingeborg gets migraines from bright light, so keep the curtains closed.
Tomasz drives a tram on line 12.
Tomasz and his brother have not spoken since the inheritance.
Priya is training for the Berlin marathon and runs before work.
Priya's dog Biscuit is a rescued greyhound.
Dr. Okafor has been the family's doctor for twenty years.
Leila fasts during Ramadan; invite her after sunset.
Leila's sister Yasmin is a pilot with Emirates.
Oskar is seven and collects football stickers.
Oskar is scared of dogs since one bit him in the park.
Camille prefers window seats and takes pills against travel sickness.
Camille speaks French, Occitan and a little Catalan.
Viktor plays chess by mail with a man in Reykjavik.
Viktor never eats dessert, because of his diabetes.
Amelie's wedding dress was sewn by her grandmother.
Gustavo coaches the girls' volleyball team on Friday evenings.
Gustavo owes Per three hundred euros for the concert tickets.
Zeynep is an architect and is renovating a farmhouse in Izmir.
Zeynep dislikes surprises, most of all surprise parties.
Malik's favourite author is Chinua Achebe.
Malik wears size 44 shoes and likes green.
Birgit has been sober since 2019; do not offer her wine.
Birgit volunteers in the hospice every other Saturday.
Fionn busks with a fiddle outside the station in Galway.
Fionn's twin Aoife is a marine biologist in Hobart.
Chen Wei makes dumplings for the lunar new year with all neighbours.
Chen Wei's mother is staying with him until April.
Paolo is the godfather of Oskar and takes him fishing.
Paolo snores, so book separate rooms.
Henrike commutes by bicycle in any weather.
Henrike and Tomasz met in a dance class, tango.
Samuel is left-handed and plays bass in a blues band.
Samuel's old band reunites every July in Memphis.""".splitlines()

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

MORE_CODING = """How do I check if a key exists in a Python dictionary?
What does the static keyword mean in Java?
How do I join two tables in SQL and keep the rows without a match?
Flatten a nested list in Haskell
How can I run a shell command from a Rust program and capture its output?
How do I set environment variables in docker-compose?
Why do I get 'undefined is not a function' in my callback?
Implement an LRU cache with O(1) get and put
What is the difference between a mutex and a semaphore?
How do I squash my last three commits?
How do I write a migration that renames a column in Django?
Explain how a hash map handles collisions
How do I stop a running thread in Java?
What is tail recursion?
How do I round a number to two decimals in JavaScript?
How do I debug a memory leak in a Node server?
Convert this for loop to a list comprehension
Which design pattern should I use to notify many objects about a change?
How do I create a virtual environment with uv?
How do I write a query that returns the second highest salary?
cannot import name 'Mapping' from 'collections' after upgrading Python
terraform plan wants to destroy my database, how do I prevent it?
What is the fastest way to read a large file in Go?
Vue component does not update when the prop changes
How do I keep secrets out of a Git repository?
error: failed to push some refs to origin
How do I split a string on commas but not inside quotes?
Show me an example of a REST endpoint in Spring Boot
What port does Postgres listen on by default?
How do I find the process that uses port 8080?
Why is my CSS grid overflowing on small screens?
How should I name boolean variables?
How do I sort a list of objects by two fields in Kotlin?
Give me a bash script that deletes log files older than a week
How does the event loop work in Node?
How can I speed up my Jest tests?
How do I call a C function from Python?
Can you fix the failing test in test_parser.py?
How do I read a YAML file in Ruby?
What is the point of a virtual destructor in C++?""".splitlines()
