"""Words, names and sentences for made rows: plain English of our own, no word twice in a list.

A changed order changes every row that a seed makes: append, never sort.
"""

from __future__ import annotations

import re
from random import Random
from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES: Final = _words(
    """
    Ada Ahmed Aisha Alma Amara Anders Anita Anton Arjun Astrid Beatriz Bela Ben Bianca Boris Bruno Callum Carla
    Carmen Cedric Chen Chloe Clara Daniel Daria David Deniz Diana Diego Edith Elena Elias Elif Emil Emma Enzo Erik
    Esther Eva Farah Fatima Felix Finn Flora Frank Gabriel Gemma George Greta Hana Hanna Hassan Hector Helen Henry
    Hugo Ida Igor Ines Ingrid Irene Isaac Ivan Jack Jana Jasmin Joel Jonas Jorge Julia Kai Karim Kenji Kira Klara
    Lars Laura Lea Leila Leo Lena Liam Lina Linus Louis Lucia Luka Maja Malik Marco Maria Marta Mateo Maya Mei Mila
    Milan Mina Mohan Nadia Naomi Nico Nils Nina Noor Nora Olga Oliver Omar Oscar Otto Pablo Paula Pavel Petra Priya
    Rafael Rahel Ravi Rita Robin Rosa Ruben Ruth Samir Sara Selma Simon Sofia Stefan Sven Tara Theo Tomas Ulla Umar
    Vera Viktor Wanda Wei Willem Yara Yusuf Zoe
    """
)
LAST_NAMES: Final = _words(
    """
    Abbott Acosta Adler Aldana Almeida Andersen Arslan Baker Banerjee Barros Becker Bell Berg Bianchi Blake Bloom
    Borges Brandt Brook Burns Campos Carver Castro Chandra Clarke Cohen Cooper Costa Cruz Dahl Dalton Demir Dietrich
    Dixon Dubois Duarte Eklund Ellis Engel Farmer Ferrari Fischer Fleming Flores Fontaine Foster Fuchs Gallo Garcia
    Gibson Gomez Grant Gray Gupta Haas Hansen Harper Hayashi Hoffman Holt Hunter Ibrahim Ito Ivanov Jansen Jensen
    Johansen Kaya Keller Khan Kim Klein Koch Kovac Kowalski Kumar Lang Larsen Lehmann Lima Lindberg Lopez Lund Malik
    Marino Mason Meyer Miller Molina Moreau Moreno Mori Nakamura Navarro Neumann Nguyen Nowak Olsen Ortega Osman Page
    Park Patel Pereira Perry Petrov Porter Quinn Ramos Reed Reyes Ricci Rossi Roth Rowe Sato Schmidt Sharma Silva
    Singh Soto Stone Suzuki Tanaka Thorn Torres Turner Vargas Vogel Wagner Walker Weber Winter Wood Yang Yilmaz Young
    """
)
CITIES: Final = _words(
    """
    Accra Adelaide Algiers Ankara Antwerp Athens Auckland Baku Bangkok Barcelona Beirut Belgrade Bergen Berlin Bern
    Bilbao Bogota Bologna Boston Bremen Brisbane Brussels Bucharest Budapest Cairo Calgary Caracas Cardiff Casablanca
    Chicago Cologne Copenhagen Cordoba Dakar Dallas Delhi Denver Dresden Dublin Durban Edinburgh Florence Geneva
    Genoa Ghent Glasgow Granada Graz Hamburg Hanoi Havana Helsinki Houston Istanbul Izmir Jakarta Kingston Krakow
    Kyoto Lagos Leeds Leipzig Lima Lisbon Liverpool London Lyon Madrid Malaga Manchester Manila Marseille Melbourne
    Miami Milan Montreal Mumbai Munich Nairobi Nantes Naples Osaka Oslo Ottawa Palermo Paris Perth Porto Prague
    Quebec Quito Riga Rome Rotterdam Salzburg Santiago Seattle Seoul Seville Sofia Stockholm Sydney Tallinn Tampere
    Tokyo Toronto Toulouse Trieste Tunis Turin Utrecht Valencia Vancouver Venice Verona Vienna Vilnius Warsaw Zagreb
    Zurich
    """
)
COLOURS: Final = _words(
    "amber beige black blue bronze brown copper cream crimson cyan emerald gold green grey indigo ivory jade lilac "
    "magenta maroon ochre olive orange pink purple red rose ruby scarlet silver teal turquoise violet white "
    "yellow"
)
ANIMALS: Final = _words(
    "badger bat bear beaver bee bison camel cat cow crane crow deer dog dolphin donkey dove duck eagle eel elk falcon "
    "ferret fox frog gecko goat goose hamster hare hawk hedgehog heron horse jackal koala lark lemur lion lizard lynx "
    "magpie mole moose moth mouse mule newt otter owl ox panda parrot pelican penguin pig pony rabbit raven robin "
    "salmon seal shark sheep snail sparrow squirrel stork swan tiger toad trout turtle walrus wasp whale wolf wren "
    "zebra"
)
FOODS: Final = _words(
    "almond apple apricot bagel banana barley bean beet bread broth butter cabbage cake carrot celery cheese cherry "
    "chestnut coconut coffee cookie corn cucumber date fennel fig garlic ginger grape hazelnut honey jam kale leek "
    "lemon lentil lettuce lime mango melon milk mint mushroom mustard noodle oat olive onion pancake papaya parsley "
    "pasta peach pear pepper pickle pie plum potato pumpkin radish raisin rice salad soup spinach syrup tea toast "
    "tomato turnip vinegar waffle walnut yogurt"
)
THINGS: Final = _words(
    """
    anchor apron arrow axe bag ball banner barrel basin basket beam bell belt bench bicycle blanket boat book boot
    bottle bowl box bracelet branch brick bridge broom brush bucket button cable camera candle canoe canvas card
    carpet cart chain chair chalk chest clock cloak cloth coat coin comb compass cord cork crate crown cup curtain
    cushion desk dial dice dish door drawer dress drum easel engine envelope fan feather fence ferry flag flask flute
    folder fork frame funnel gate gear glass globe glove guitar hammer hammock handle harp hat helmet hinge hook horn
    hose jar jacket jug kettle key kite knife knot ladder lamp lantern latch leaf ledger lens letter lever lid
    lock locket log loom magnet map marble mask mast mat mattress medal mirror mitten mop mug nail napkin necklace
    needle net notebook oar oven paddle pail paint pan paper parcel pearl pebble pedal pen pencil piano picture pillow
    pin pipe plank plate pliers plough pocket pole pot pouch pump puppet purse puzzle quilt rack radio raft rail rake
    razor ribbon ring robe rocket rod roof rope rudder ruler sack saddle sail sandal saucer saw scale scarf scissors
    screw shawl shelf shell shield shirt shoe shovel sieve skate sled sleeve slipper spade spoon spring stamp statue
    stool stove strap string sword table tablet tank tent thimble thread ticket tile token torch towel tower toy train
    tray trowel trumpet trunk tube umbrella vase veil violin wagon wallet watch wheel whistle window wire wrench yarn
    """
)
PLACES: Final = _words(
    """
    airport alley arena attic bakery bank barn bay beach brewery cabin canal castle cave cellar chapel church cinema
    clinic coast college corner court dairy desert dock factory farm field forest fort fountain garage garden hall
    harbour hill hospital hotel inn island kitchen laboratory lake library lighthouse market meadow mill mine monastery
    mountain museum office orchard palace park pasture pier plaza port prison quarry river school shop square stable
    stadium station street studio swamp temple terrace theatre tunnel valley village vineyard warehouse waterfall
    wharf workshop zoo
    """
)
JOBS: Final = _words(
    "actor artist baker barber beekeeper blacksmith builder butcher captain carpenter chemist clerk cobbler cook "
    "courier dentist doctor driver editor engineer farmer fisher florist gardener goldsmith guard guide hunter "
    "innkeeper janitor jeweller judge lawyer librarian mason mechanic merchant miller miner musician nurse painter "
    "pharmacist pilot plumber poet porter postman potter printer sailor scholar sculptor shepherd surgeon surveyor "
    "tailor teacher translator weaver welder"
)
ADJECTIVES: Final = _words(
    """
    ancient big bitter bold brave bright brisk broad broken busy calm careful cheap clean clear clever cold cosy
    crooked curious damp dark deep dense dry dull dusty early eager easy empty faint famous fast fierce firm flat
    foreign fragile fresh friendly full funny gentle giant grand happy hard heavy hidden high hollow huge hungry
    icy idle kind large late lazy light little lively lonely long loose loud lucky mild modern muddy narrow neat new
    noisy odd old open pale patient plain polite poor pretty proud quick quiet rapid rare rich ripe rough round royal
    rusty salty sharp shiny short shy silent simple sleepy slow small smooth soft solid sour spare steady steep sticky
    stiff strange strong sturdy sudden sweet swift tall tame tender thick thin tidy tiny tired tough vast warm
    wet wide wild wise wooden young
    """
)
VERBS: Final = _words(
    """
    admire answer ask avoid bake begin bend borrow break bring build buy call carry catch change choose clean climb
    close collect cook copy count cover cross cut dance deliver describe dig divide draw drink drive drop earn eat
    enter explain explore fetch find finish fix fold follow forget gather give grow guess hang hear help hide hold
    invite join jump keep kick kneel knock learn leave lend lift listen lose love mark measure meet melt mix move
    notice offer order pack pay pick plan plant play polish pour press print promise protect pull push raise reach
    read receive remember repair repeat rest return ride roll run save search sell send serve sew shake share shine
    show sing sit sleep smile solve speak spend spill stand start stay steer stretch study swim swing teach tell test
    thank think throw touch trade travel trust turn visit wait wake walk wash watch wear weigh whisper win wonder work
    wrap write
    """
)
# Words of every kind, each once: for lists, codes and names of things.
WORDS: Final = tuple(dict.fromkeys((*THINGS, *ANIMALS, *FOODS, *PLACES, *JOBS, *COLOURS, *ADJECTIVES, *VERBS)))

_OPENINGS: Final = (
    "",
    "",
    "",
    "In spring ",
    "Early in the morning ",
    "After the rain ",
    "Every other week ",
    "Before the market opens ",
    "On most days ",
    "Late in the year ",
    "When the wind turns ",
    "At the end of the month ",
    "As in the years before, ",
    "Without much noise ",
    "For as long as anyone remembers, ",
    "Once the lamps are lit, ",
)
_ARTICLE: Final = re.compile(r"\ba(?= [aeiou])")
_DEEDS: Final = (
    "keeps a {adjective} {thing} behind the {place}",
    "carries the {thing} from the {place} to the {other_place}",
    "sells {adjective} {food} beside the {place}",
    "waits near the {place} with a {colour} {thing}",
    "paints the {thing} {colour} and hangs it in the {place}",
    "talks with the {other_job} about the price of {food}",
    "counts every {thing} that was left at the {place}",
    "feeds a {colour} {animal} by the {place}",
    "repairs the {adjective} {thing} of the {other_job}",
    "writes a {adjective} letter to the {other_job} at the {place}",
    "looks for the {animal} that lives under the {place}",
    "reads about a {colour} {thing} in the {place}",
    "shares the {food} with the {other_job}",
    "walks past the {place} and greets the {other_job}",
    "trades a {thing} for a basket of {food}",
    "closes the gate of the {place} and feeds the {animal}",
    "draws a {adjective} {animal} on the wall of the {place}",
    "learns how a {thing} is made from the {other_job}",
    "sweeps the floor of the {place} and sings about a {animal}",
    "leaves a {colour} {thing} at the door of the {place}",
)


def sentence(random: Random) -> str:
    """A sentence about nothing that matters, of 8 to 25 words; millions of them. It holds no digit and no name."""
    job, other_job = random.sample(JOBS, 2)
    place, other_place = random.sample(PLACES, 2)
    deed = random.choice(_DEEDS).format(
        other_job=other_job,
        place=place,
        other_place=other_place,
        thing=random.choice(THINGS),
        food=random.choice(FOODS),
        animal=random.choice(ANIMALS),
        colour=random.choice(COLOURS),
        adjective=random.choice(ADJECTIVES),
    )
    said = f"{random.choice(_OPENINGS)}the {random.choice(ADJECTIVES)} {job} {deed}."
    said = _ARTICLE.sub("an", said)
    return said[0].upper() + said[1:]


def paragraph(random: Random, sentences: int) -> str:
    return " ".join(sentence(random) for _ in range(sentences))


def person(random: Random) -> str:
    """First and last name: some twenty thousand."""
    return f"{random.choice(FIRST_NAMES)} {random.choice(LAST_NAMES)}"


def phrase(random: Random) -> str:
    """A name for a thing, such as `rusty-lantern`: some thirty thousand."""
    return f"{random.choice(ADJECTIVES)}-{random.choice(THINGS)}"


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
