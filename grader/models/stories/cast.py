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


@dataclass(frozen=True)
class Thing:
    name: str
    article: str = "a"


def _girl(name: str) -> Person:
    return Person(name, "girl", "she", "her", "her")


def _boy(name: str) -> Person:
    return Person(name, "boy", "he", "him", "his")


PEOPLE = (
    *map(_girl, ("Mia", "Anna", "Lily", "Nora", "Zoe", "Ella", "Rosa", "Tara")),
    *map(_boy, ("Ben", "Tom", "Max", "Leo", "Sam", "Omar", "Finn", "Ravi")),
)
PETS = (("dog", "Rex"), ("cat", "Luna"), ("rabbit", "Poppy"), ("pony", "Star"))
ANIMALS = (
    Thing("bird"),
    Thing("duck"),
    Thing("mouse"),
    Thing("frog"),
    Thing("squirrel"),
    Thing("owl", "an"),
    Thing("fox"),
    Thing("hedgehog"),
)
HELPERS = ("mother", "father", "brother", "sister", "grandmother", "grandfather")  # of somebody

TIMES = (
    "one day",
    "one morning",
    "one afternoon",
    "one sunny day",
    "last week",
    "on Sunday",
    "yesterday",
    "in the summer",
)
HOMES = ("in a small house", "near the river", "on a farm", "in a big town", "by the sea", "at the foot of a hill")
TOYS = (
    Thing("ball"),
    Thing("kite"),
    Thing("doll"),
    Thing("boat"),
    Thing("drum"),
    Thing("train"),
    Thing("bear"),
    Thing("car"),
)
SMALL_THINGS = (
    Thing("key"),
    Thing("ring"),
    Thing("hat"),
    Thing("shoe"),
    Thing("book"),
    Thing("coin"),
    Thing("umbrella", "an"),
    Thing("scarf"),
)
COLOURS = (
    ("red", "a"),
    ("blue", "a"),
    ("green", "a"),
    ("yellow", "a"),
    ("old", "an"),
    ("new", "a"),
    ("little", "a"),
    ("white", "a"),
)
PLACES = (
    "to the park",
    "to the river",
    "to the forest",
    "to the beach",
    "to the garden",
    "to the market",
    "to the hill",
    "to the lake",
)
INDOORS = (
    "under the bed",
    "behind the door",
    "in the kitchen",
    "on the table",
    "in the box",
    "under the chair",
    "behind the sofa",
    "in the cupboard",
)
OUTDOORS = (
    "in the grass",
    "under a tree",
    "behind the shed",
    "near the well",
    "in the sand",
    "behind a big stone",
    "by the gate",
    "under a bush",
)
FRUIT = (Thing("apple", "an"), Thing("pear"), Thing("plum"), Thing("peach"), Thing("cherry"), Thing("orange", "an"))
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
