"""People, animals, things and places, and what is true of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    name: str
    kind: str  # "girl" or "boy"
    he: str
    him: str
    his: str


def with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _girl(name: str) -> Person:
    return Person(name, "girl", "she", "her", "her")


def _boy(name: str) -> Person:
    return Person(name, "boy", "he", "him", "his")


PEOPLE = (
    *map(_girl, ("Mia", "Anna", "Lily", "Nora", "Zoe", "Ella", "Rosa", "Tara")),
    *map(_boy, ("Ben", "Tom", "Max", "Leo", "Sam", "Omar", "Finn", "Ravi")),
)
PETS = (("dog", "Rex"), ("cat", "Luna"), ("rabbit", "Poppy"), ("pony", "Star"))
ANIMALS = ("bird", "duck", "mouse", "frog", "squirrel", "owl", "fox", "hedgehog")
HELPERS = ("mother", "father", "brother", "sister", "grandmother", "grandfather")  # of somebody

TIMES = _phrases("one day, one morning, one afternoon, one sunny day, last week, on Sunday, yesterday, in the summer")
HOMES = ("in a small house", "near the river", "on a farm", "in a big town", "by the sea", "at the foot of a hill")
TOYS = ("ball", "kite", "doll", "boat", "drum", "train", "bear", "car")
SMALL_THINGS = ("key", "ring", "hat", "shoe", "book", "coin", "umbrella", "scarf")
COLOURS = ("red", "blue", "green", "yellow", "old", "new", "little", "white")
PLACES = tuple(f"to the {place}" for place in ("park", "river", "forest", "beach", "garden", "market", "hill", "lake"))
INDOORS = _phrases(
    "under the bed, behind the door, in the kitchen, on the table, in the box, under the chair, behind the sofa, "
    "in the cupboard"
)
OUTDOORS = _phrases(
    "in the grass, under a tree, behind the shed, near the well, in the sand, behind a big stone, by the gate, "
    "under a bush"
)
FRUIT = ("apple", "pear", "plum", "peach", "cherry", "orange")
MEALS = (  # what one cooks, what goes into it, how it tastes
    ("soup", "carrots", "beans", "hot"), ("soup", "potatoes", "onions", "good"), ("cake", "eggs", "honey", "sweet"),
    ("bread", "flour", "nuts", "fresh"),
    ("pie", "apples", "sugar", "sweet"), ("salad", "tomatoes", "herbs", "fresh"), ("rice", "peas", "butter", "good"),
    ("jam", "plums", "honey", "sweet"),
)  # fmt: skip
SEEDS = (("seed", "flower", "tall"), ("seed", "tree", "green"), ("bean", "plant", "green"), ("bulb", "tulip", "red"))
SKILLS = (  # what one learns, what goes wrong at first, where
    ("swim", "swallowed some water", "in the lake"), ("ride a bike", "fell off", "on the road"), ("skate",
    "fell down", "on the ice"),
    ("climb", "slipped", "on the wall"), ("juggle", "dropped all the balls", "in the yard"), ("whistle",
    "made no sound", "in the yard"),
)  # fmt: skip
