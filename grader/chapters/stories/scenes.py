"""What happens in a story: one function for each kind. Somebody wants something, something prevents it, and something
helps."""

from __future__ import annotations

from grader.chapters.stories import cast
from grader.chapters.stories.telling import Telling


def lost_and_found(s: Telling) -> None:
    s.let_thing((*cast.TOYS, *cast.SMALL_THINGS))
    inside = s.chance()
    first, second = s.pick_two(cast.INDOORS if inside else cast.OUTDOORS)
    s.let(first=first, second=second)
    s.say("{X} had {a_thing}.", "{X} liked {his} {thing} very much.", "{X} had {a_thing} and took it everywhere.")
    s.say("{time}, {he} lost it.", "{time}, {he} could not find it.", "{time}, the {thing} was gone.")
    s.say("{he} looked {first}, but it was not there.", "{he} looked {first} and did not find it.")
    s.maybe("{he} was sad.", "{he} began to cry.", "{X} was very sad.")
    s.say('{Y} said, "I will help you."', "{Y} came to help {him}.", "{X} asked {Y} for help.")
    s.say(
        "they looked {second}, and there was the {thing}!",
        "{Y} looked {second} and found the {thing}.",
        "then {yhe} saw the {thing} {second}.",
    )
    s.say("{X} was happy again.", '"Thank you, {Y}!" said {X}.', "{X} was so happy that {he} gave {Y} a hug.")


def hungry_and_cooking(s: Telling) -> None:
    meal, one, two, taste = s.pick(cast.MEALS)
    s.let(meal=meal, one=one, two=two, taste=taste)
    s.say("{time}, {X} was hungry.", "{X} was very hungry {time}.", "{time}, {X} came home and was hungry.")
    s.maybe(
        "there was nothing to eat in the house.",
        "the plate on the table was empty.",
        "{he} looked for food, but there was none.",
    )
    s.say("so {X} wanted to make some {meal}.", '"I will make some {meal}," said {X}.')
    s.say("{he} took {one} and {two} from the kitchen.", "{he} went to the market and bought {one} and {two}.")
    s.say("{he} put the {one} and the {two} in a big pot.", "{he} mixed the {one} with the {two}.")
    s.maybe("soon the house smelled good.", "{he} waited until it was ready.")
    if s.chance():
        s.say("{Y} came to the door and was hungry too.", "then {Y} came, because {yhe} could smell the {meal}.")
        s.say(
            "they ate the {meal} together, and it was {taste}.", "{X} gave {Y} some of the {meal}, and it was {taste}."
        )
        s.maybe("then both of them were full.", "{X} and {Y} were full and happy.")
    else:
        s.say("the {meal} was {taste}, and {he} ate all of it.", "{he} ate the {meal}, and it was {taste}.")
        s.say("then {X} was not hungry any more.", "now {he} was full, and {he} fell asleep.")


def rain(s: Telling) -> None:
    s.let(place=s.pick(cast.PLACES), toy=s.pick(cast.TOYS))
    s.say(
        "{time}, {X} went {place}.",
        "{time}, {X} and {his} {pet} {Pet} went {place}.",
        "{X} wanted to play, so {he} went {place}.",
    )
    s.maybe("the sun was shining.", "it was warm and bright.", "{he} played with {his} {toy}.")
    s.say("then dark clouds came, and it began to rain.", "soon it began to rain.", "then it rained very hard.")
    if s.chance():
        s.say("{X} had no umbrella, so {he} got wet.", "{he} had no coat, and soon {he} was wet.")
        s.say("{he} ran home as fast as {he} could.", "{he} was cold, and {he} ran home.")
        s.say(
            "{his} mother gave {him} a dry shirt and some hot tea.", "at home {he} sat by the fire until {he} was dry."
        )
        s.say("soon {he} was warm and dry again.", "then {X} was not cold any more.")
    else:
        s.say("but {X} had an umbrella, so {he} stayed dry.", "{he} sat under a big tree and stayed dry.")
        s.say("{Y} had no umbrella and was wet.", "then {he} saw {Y}, who was wet and cold.")
        s.say('"Come here, {Y}!" said {X}.', "{X} called {Y}, and {yhe} came and sat with {him}.")
        s.say(
            "they waited until the rain stopped, and then they walked home.",
            "when the rain stopped, they saw a rainbow.",
        )


def too_high(s: Telling) -> None:
    fruit = s.pick(cast.FRUIT)
    helper = s.pick(("box", "ladder", "chair"))
    s.let(fruit=fruit, a_fruit=cast.with_article(fruit), helper=helper)
    s.say(
        "{X} saw {a_fruit} in a tall tree.",
        "{time}, {X} saw {a_fruit} high up in a tree.",
        "{X} stood under a tree and saw {a_fruit}.",
    )
    s.maybe("{he} wanted to eat it.", "{X} wanted the {fruit} very much.")
    s.say("{he} jumped, but the {fruit} was too high.", "{he} could not reach it, because {he} was too small.")
    way = s.pick((0, 1, 2))
    if way == 0:
        s.say("so {he} went home and got a {helper}.", "then {he} had an idea and got a {helper}.")
        s.say("{he} put the {helper} under the tree and climbed on it.", "{he} stood on the {helper} and reached up.")
        s.say("now {he} could reach the {fruit}.", "at last {he} had the {fruit} in {his} hand.")
    elif way == 1:
        s.say("then {Y} came, who was tall.", "then {he} met {Y}, who was tall.")
        s.say('"Can you help me?" said {X}.', "{X} asked {Y} for help.")
        s.say("{Y} took the {fruit} and gave it to {X}.", "{Y} lifted {X} up, and {he} took the {fruit}.")
    else:
        s.say(
            "then the wind blew, and the {fruit} fell down.",
            "{he} shook the tree, and the {fruit} fell into the grass.",
        )
        s.say("{X} picked it up.", "{he} ran and picked up the {fruit}.")
    if way == 1:
        s.say("{he} gave half of it to {Y}.", "they ate it together.")
    else:
        s.say("{he} ate the {fruit}, and it was sweet.", "the {fruit} was sweet.")


def broken(s: Telling) -> None:
    s.let_thing(cast.TOYS)
    s.let(helper=s.pick(cast.HELPERS), tool=s.pick(("glue", "tape", "string", "a nail")))
    s.say("{X} had {a_thing}.", "{X} got {a_thing} for {his} birthday.")
    s.maybe("{he} played with it every day.", "{he} liked to play with it.")
    s.say(
        "{time}, {he} dropped the {thing}, and it broke.",
        "{time}, it fell down and broke.",
        "{time}, {his} {pet} {Pet} jumped on the {thing}, and it broke.",
    )
    s.say("{X} was sad.", "{X} began to cry.", "{he} did not know what to do.")
    s.say("{he} took the {thing} to {his} {helper}.", "{his} {helper} saw {him} and came.")
    s.say('{his} {helper} said, "I can repair it."', "{his} {helper} had {tool} in the kitchen.")
    s.say("they repaired the {thing} with {tool}.", "{his} {helper} took {tool} and repaired the {thing}.")
    s.say(
        "now the {thing} was as good as new.",
        "{X} could play with the {thing} again.",
        "{X} was happy and played with it again.",
    )


def learning(s: Telling) -> None:
    skill, wrong, where = s.pick(cast.SKILLS)
    s.let(skill=skill, wrong=wrong, where=where, helper=s.pick(cast.HELPERS))
    s.say("{X} could not {skill}.", "{X} wanted to {skill}, but {he} did not know how.")
    s.maybe("{Y} could {skill} very well.", "all the other children could {skill}.")
    s.say("{time}, {X} tried it {where}.", "so {X} tried it {where}.")
    s.say("at first {he} {wrong}.", "{he} tried, but {he} {wrong}.")
    s.say('"Try again," said {his} {helper}.', '"Do not stop," said {Y}.', "{Y} showed {him} how to do it.")
    s.say("{he} tried every day.", "{X} tried again and again.", "{he} did not stop.")
    s.say("after a week {he} could {skill}!", "at last {X} could {skill}.")
    s.say("{X} was very proud.", "{his} {helper} was proud of {him}.")


def garden(s: Telling) -> None:
    seed, plant, looks = s.pick(cast.SEEDS)
    s.let(seed=seed, plant=plant, looks=looks, helper=s.pick(cast.HELPERS))
    s.say("{his} {helper} gave {X} a {seed}.", "{X} found a {seed} in the shed.", "{time}, {X} bought a {seed}.")
    s.say("{he} put the {seed} in the ground.", "{he} made a hole in the garden and put the {seed} in it.")
    s.say("{he} gave it water every day.", "every morning {he} gave it some water.")
    s.maybe("for a long time {he} saw nothing.", '"You must wait," said {his} {helper}.')
    s.maybe("the sun was warm, and the rain came.", "then the days were warm and sunny.")
    s.say("one morning there was a small green leaf.", "after two weeks {he} saw a small leaf.")
    s.say("soon it was a {looks} {plant}.", "it grew and grew, and then it was a {looks} {plant}.")
    s.say("{X} was very happy with {his} {plant}.", "{X} showed the {plant} to {Y}.")


def lost_in_the_forest(s: Telling) -> None:
    animal = s.pick(cast.ANIMALS)
    s.let(animal=animal, an_animal=cast.with_article(animal))
    s.say("{time}, {X} walked into the forest.", "{X} went to the forest to look for flowers.")
    s.say("{he} walked and walked, and then {he} was lost.", "soon {he} did not know the way home.")
    s.say("it was getting dark, and {X} was afraid.", "{he} was tired and afraid.")
    s.say("then {he} met {an_animal}.", "{an_animal} sat by the path and looked at {him}.")
    s.maybe('"Are you lost?" said the {animal}.', '"Can you help me?" said {X}.')
    s.say('"Come with me," said the {animal}.', "the {animal} knew the way.")
    s.say("{X} went after the {animal}.", "the {animal} showed {him} the path.")
    s.maybe("soon {he} could see {his} house.", "at last {he} was at home again.")
    s.say('"Thank you, {animal}!" said {X}.', "{X} gave the {animal} some bread.")


SCENES = (lost_and_found, hungry_and_cooking, rain, too_high, broken, learning, garden, lost_in_the_forest)
