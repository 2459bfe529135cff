"""More kinds of stories."""

from __future__ import annotations

from grader.chapters.stories import cast
from grader.chapters.stories.telling import Telling


def hungry_animal(s: Telling) -> None:
    animal = s.pick(cast.ANIMALS)
    s.let(
        animal=animal,
        an_animal=cast.with_article(animal),
        food=s.pick(("bread", "nuts", "seeds", "cheese")),
        place=s.pick(cast.PLACES),
    )
    s.say(
        "{time}, {X} went {place} and saw {an_animal}.",
        "{X} saw {an_animal} near the house.",
        "in the winter {X} found {an_animal} in the snow.",
    )
    s.say("the {animal} was thin and hungry.", "it was hungry, because it had found no food.")
    s.maybe("{X} wanted to help it.", "{X} felt sorry for the {animal}.")
    s.say("{he} had some {food} in {his} bag.", "so {he} went home and got some {food}.")
    s.say("{he} put the {food} on the ground and waited.", "{he} gave the {food} to the {animal}.")
    s.say("at first the {animal} was afraid, but then it ate.", "the {animal} came and ate all of the {food}.")
    s.maybe("the next day it came again.", "every day {X} gave it some {food}.")
    s.say("now {X} and the {animal} were friends.", "soon the {animal} was strong, and they were friends.")


def quarrel(s: Telling) -> None:
    s.let_thing(cast.TOYS)
    s.say("{X} and {Y} were friends.", "{time}, {X} and {Y} played together.")
    s.say(
        "there was only one {thing}, and both of them wanted it.",
        "{X} wanted to play with the {thing}, but {Y} wanted it too.",
    )
    s.say('"It is mine!" said {X}.', '"No, it is mine!" said {Y}.', '"Give it to me!" said {Y}.')
    s.say("{X} took the {thing} and ran away.", "they were angry and did not talk.")
    s.maybe("but it was no fun to play alone.", "soon {X} was sad, because {he} was alone.")
    s.say('{X} said, "I am sorry."', 'then {X} said, "You can have it first."')
    s.say('"We can play with it together," said {Y}.', "so {Y} played with the {thing}, and then {X} played with it.")
    s.say("then they were friends again.", "they played until the evening, and both of them were happy.")


def snow(s: Telling) -> None:
    cold, warm = s.pick((("hands", "gloves"), ("ears", "a hat"), ("feet", "boots"), ("neck", "a scarf")))
    s.let(cold=cold, warm=warm, helper=s.pick(cast.HELPERS))
    s.say(
        "it was winter, and there was snow everywhere.",
        "in the night it had snowed.",
        "one cold morning the garden was white.",
    )
    s.say("{X} ran out to play with {Y}.", "{X} wanted to build a snowman.")
    s.say("soon {his} {cold} were cold." if cold != "neck" else "soon {his} neck was cold.")
    s.maybe("so {he} went back to the house.", '"I am cold," said {X}.')
    s.say("{his} {helper} gave {him} {warm}.", "{Y} saw it and gave {him} {warm}.")
    s.say("now {X} was warm, and {he} went on.", "then {X} was not cold any more.")
    s.say("{X} and {Y} built a big snowman.", "they made a big snowman with a carrot for a nose.")
    s.maybe("in the spring the sun came, and the snowman was gone.", "the snowman stood in the garden for a week.")


def noise_at_night(s: Telling) -> None:
    animal = s.pick(cast.ANIMALS)
    s.let(
        animal=animal,
        an_animal=cast.with_article(animal),
        where=s.pick(cast.INDOORS),
        helper=s.pick(cast.HELPERS),
    )
    s.say("it was night, and {X} was in bed.", "one night {X} could not sleep.")
    s.say("{he} heard a noise {where}.", "there was a noise {where}.")
    s.maybe("{X} was afraid.", '"Who is there?" said {X}.')
    s.say("{he} called {his} {helper}.", "{he} ran to {his} {helper}.")
    s.say("they took a lamp and looked {where}.", "{his} {helper} took a lamp and looked {where}.")
    s.say("there sat {an_animal}!", "it was only {an_animal}.")
    s.say("they opened the window, and the {animal} went out.", "{X} laughed, and the {animal} ran away.")
    s.say("then {X} was not afraid any more, and {he} fell asleep.", "soon {X} was asleep.")


def ill_friend(s: Telling) -> None:
    meal = s.pick(("soup", "tea", "cake", "honey"))
    s.let(meal=meal)
    s.let_thing(("book", *cast.TOYS))
    s.say("{Y} was ill and had to stay in bed.", "one day {Y} did not come to school, because {yhe} was ill.")
    s.say("{X} missed {yhim}.", "{X} wanted to play with {yhim}, but {yhe} was too weak.")
    s.say(
        "so {he} brought {yhim} some hot {meal}." if meal in ("soup", "tea") else "so {he} brought {yhim} some {meal}."
    )
    s.say("{he} also brought {a_thing}.", "{he} also gave {yhim} {a_thing}.")
    s.maybe("{Y} smiled, because {yhe} was not alone.", '"You are a good friend," said {Y}.')
    s.say(
        "{yhe} drank the {meal} and slept for a long time."
        if meal in ("soup", "tea")
        else "{yhe} ate the {meal} and slept for a long time."
    )
    s.say("the next day {Y} was better.", "after three days {yhe} was well again.")
    s.say("then they played with the {thing} together.", "then {X} and {Y} went to school together.")


def birthday(s: Telling) -> None:
    s.let_thing(cast.TOYS)
    s.let(stuff=s.pick(("wood", "paper", "wool")))
    s.say("it was the birthday of {Y}.", "on Sunday {Y} had a birthday.")
    s.say("{X} wanted to give {yhim} a present.", "{X} needed a present for {yhim}.")
    s.say("but {he} had no money.", "{he} went to the shop, but everything cost too much.")
    s.say("so {he} made {a_thing} from {stuff}.", "then {he} took some {stuff} and made {a_thing}.")
    s.maybe("{he} worked all day.", "it took a long time.")
    s.say("{Y} opened the box and saw the {thing}.", "{X} gave the {thing} to {Y}.")
    s.say('"It is the best present of all!" said {Y}.', "{Y} liked it more than all the other presents.")
    s.say("{X} was happy too.", "then they ate cake together.")


def cat_in_the_tree(s: Telling) -> None:
    s.let(
        helper=s.pick(cast.HELPERS),
        food=s.pick(("fish", "milk", "cheese")),
        colour=s.pick(("white", "black", "grey", "brown")),
    )
    s.say("{X} had a {colour} cat named Luna.", "Luna was the {colour} cat of {X}.")
    s.say("{time}, a big dog ran after Luna.", "{time}, Luna saw a big dog and was afraid.")
    s.say("the cat climbed up a tall tree.", "Luna ran up a tree as fast as she could.")
    s.say("then she could not come down.", "the dog went away, but Luna did not come down.")
    if s.chance():
        s.say("{X} put some {food} under the tree.", "{X} got some {food} and called {his} cat.")
        s.say("Luna could smell the {food}, because she was hungry.", "the cat looked at the {food} for a long time.")
        s.say("then she came down and ate it.", "slowly she climbed down and ate all of the {food}.")
    else:
        s.say("{X} called {his} {helper}.", "{his} {helper} came with a ladder.")
        s.say("{his} {helper} climbed up and took the cat.", "{X} stood on the ladder and took Luna in {his} arms.")
        s.say("soon Luna was safe on the ground.", "then they climbed down again.")
    s.maybe("{X} was happy that Luna was safe.", "at home Luna slept by the fire.")


def heavy_bag(s: Telling) -> None:
    things = s.pick(("apples", "potatoes", "books", "stones"))
    s.let(things=things, helper=s.pick(cast.HELPERS), way=s.pick(("cart", "pony", "wheelbarrow")))
    s.say(
        "{X} had a bag with many {things}.",
        "{time}, {X} had to bring a bag of {things} home.",
        "{his} {helper} asked {X} to bring home a bag of {things}.",
    )
    s.say("the bag was very heavy.", "{he} could not lift the bag, because it was too heavy.")
    s.maybe("{he} pulled it, but it did not move.", "{he} pulled and pulled, and then {he} was tired.")
    if s.chance():
        s.say("{Y} saw {him} and came to help.", '"We can do it together," said {Y}.')
        s.say("{X} and {Y} pulled together, and the bag moved.", "they took some {things} out and made two small bags.")
        s.say("soon they were at home with all the {things}.", "together it was easy.")
    else:
        s.say("then {he} had an idea.", "then {he} saw a {way}.")
        s.say("{he} put the {things} on a {way}.", "{he} got a {way} and put the bag on it.")
        s.say("now it was easy, and {he} was home before dark.", "so {X} brought all the {things} home.")
    s.maybe('"Well done!" said {his} {helper}.', "{his} {helper} thanked {him}.")


def boat_on_the_river(s: Telling) -> None:
    animal = s.pick(("duck", "frog", "dog"))
    s.let(animal=animal, stuff=s.pick(("paper", "wood")), colour=s.pick(("red", "blue", "white", "yellow")))
    s.say("{X} made a small {colour} boat from {stuff}.", "{time}, {X} made a {colour} boat from {stuff}.")
    s.say("{he} took it to the river and put it on the water.", "{he} went to the river with {Y} to try it.")
    s.say("the boat could float!", "the boat went down the river.")
    s.say("but then the wind took it away.", "then it was too far away, and {X} could not reach it.")
    s.maybe('"My boat!" said {X}.', "{X} was sad, because {he} could not swim.")
    s.say("a {animal} saw the boat.", "then a {animal} came.")
    s.say(
        "the {animal} swam to the boat and brought it back.",
        "it jumped into the water and pushed the boat back to {X}.",
    )
    s.say("{X} thanked the {animal}.", "{X} took the boat in {his} hands and was happy.")


SCENES = (
    hungry_animal,
    quarrel,
    snow,
    noise_at_night,
    ill_friend,
    birthday,
    cat_in_the_tree,
    heavy_bag,
    boat_on_the_river,
)
