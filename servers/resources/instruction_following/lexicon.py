"""Word lists that checks look into: function words, names an instruction lists, common verbs, abbreviations."""

from __future__ import annotations


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ABBREVIATIONS = frozenset(
    listed("""
    mr mrs ms dr prof sr jr st rev gen col sgt capt lt maj gov sen rep hon vs v etc e.g i.e eg ie cf al ca approx
    vol fig figs eq ed eds pp p inc ltd co corp dept est u.s u.k u.n a.m p.m d.c ph.d m.d b.a m.a jan feb
    mar apr jun jul aug sep sept oct nov dec mt ft
    """)
)

# Function words of English, as tokens that hold no apostrophe ("don't" is "don" and "t").
STOP_WORDS = frozenset(
    listed("""
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those am is are was were be
    been being have has had having do does did doing a an the and but if or because as until while of at by for with
    about against between into through during before after above below to from up down in out on off over under
    again further then once here there when where why how all any both each few more most other some such no nor not
    only own same so than too very s t can will just don should now d ll m o re ve y ain aren couldn didn doesn hadn
    hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn
    """)
)

PRONOUNS = frozenset(
    listed("""
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves
    """)
)

CONJUNCTIONS = frozenset(listed("and but for nor or so yet"))

PERSON_NAMES = listed(
    """
    Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin Harper
    Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah
    Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan
    """
)

# From north to south, as the instruction about capitals above 45 degrees counts them.
NORTHERN_CAPITALS = listed(
    """
    Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw London
    Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb
    """
)

VERBS = frozenset(
    listed("""
    accept achieve acknowledge act adapt add address adjust admit adopt agree aim allow analyze announce answer apply
    appreciate approach arrange arrive ask assess assign assist assume attempt attend avoid bake balance be bear beat
    become beg begin behold believe bend blend boil book borrow bring build buy calculate call capture carry cast catch
    celebrate change charge chase check cherish choose chop claim clean clear climb close collect combine come compare
    complete compose compute conduct confirm connect consider construct consult consume contact contain continue
    contribute convert convince cook cover craft create cross cultivate cut dance deal decide declare defend define
    delete deliver demand depend describe deserve design destroy determine develop devote die dig discover discuss
    divide do draft draw dream dress drink drive drop earn eat educate embark embrace emphasize employ empower
    encourage end engage enhance enjoy ensure enter escape establish evaluate examine exercise exist expand expect
    explain explore express extend face fail fall feed feel fetch fight fill find finish fit fix fly focus follow
    forget forgive form foster freeze gather generate get give glance go grab grasp greet grind grow guard guess
    guide hang happen harness have hear heat help hide highlight hire hit hold hope identify ignore illustrate imagine
    implement improve include increase inform insert inspire install introduce invest investigate invite involve join
    judge jump keep kick kill know lay lead leap learn leave lend let leverage lie lift light limit listen live load
    locate look lose love maintain make manage mark master match measure meet melt mention mix modify monitor move
    multiply name navigate need negotiate note notice nurture observe obtain offer open operate optimize organize
    overcome pack paint pass pause pay perform pick picture place plan plant play ponder pour practice prepare present
    preserve press prevent prioritize produce promise promote propose protect prove provide publish pull purchase
    pursue push put raise reach read realize recall receive recognize recommend record reduce refer reflect refuse
    regard relax release rely remain remember remind remove rent repair repeat replace reply report represent request
    require research reserve resolve respect respond rest retain retrieve return reveal review ride ring rise roast
    roll run save say scan schedule search secure see seek seem select sell send separate serve set settle shake shape
    share shine shoot show shut simplify sing sit sleep slice smile solve sort speak specify spend spread stand start
    state stay step stick stir stop store strengthen strive study submit succeed suggest summarize supply support
    suppose surrender survive sustain swim switch take talk taste teach tell test thank think throw tie touch track
    train transform translate travel treat try turn understand unite unleash unlock update upgrade use utilize
    validate value verify view visit visualize wait wake walk want warn wash watch wear weigh welcome win wish wonder
    work worry wrap write yield
    """)
)

VERB_FORMS = frozenset(
    listed("""
    is are was were am been being has had does did done can could will would shall should may might must got went gone
    made took taken came saw seen said told thought found felt left kept began begun brought bought built caught chose
    chosen ate eaten fell fallen fought flew flown forgot forgotten gave given grew grown held hidden hit knew known led
    lost meant met paid put ran sat sold sent set shown shut sang sung slept spoke spoken spent stood stole stolen swam
    taught threw thrown understood woke wore worn won wrote written
    """)
)


def is_verb(word: str) -> bool:
    """A common verb, one of its forms, or a word with a verb's ending."""
    word = word.lower()
    if word in VERBS or word in VERB_FORMS:
        return True
    if len(word) > 4 and word.endswith(("ize", "ise", "ify", "ized", "ised", "ified", "izes", "ifies")):
        return True
    return any(stem in VERBS for stem in _stems(word))


def _stems(word: str) -> list[str]:
    found: list[str] = []
    for ending, put in (("ies", "y"), ("ied", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"), ("ing", "")):
        if word.endswith(ending):
            found.append(word.removesuffix(ending) + put)
    if word.endswith("ing"):
        found.append(word.removesuffix("ing") + "e")
    return found + [stem[:-1] for stem in found if len(stem) > 3 and stem[-1] == stem[-2]]
