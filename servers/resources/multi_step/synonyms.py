"""Words of nearly the same meaning, by the word they stand for. Plain English, put together for these rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TEXT = """
Angry: Furious Irate Cross Livid Enraged Mad Wrathful
Begin: Start Commence Open Launch Initiate Embark
Big: Large Huge Vast Giant Massive Enormous Immense
Brave: Bold Daring Fearless Gallant Heroic Valiant
Bright: Radiant Shining Vivid Brilliant Gleaming Luminous
Calm: Serene Peaceful Placid Tranquil Composed Relaxed
Careful: Cautious Wary Prudent Watchful Heedful Attentive
Clean: Spotless Pure Washed Immaculate Pristine Scrubbed
Clever: Smart Bright Ingenious Astute Shrewd Sharp
Cold: Chilly Icy Frosty Freezing Frigid Wintry
Cut: Slice Chop Carve Trim Snip Sever
Dark: Gloomy Murky Dim Shadowy Dusky Unlit
Difficult: Hard Tough Tricky Demanding Arduous Strenuous
Dirty: Filthy Grimy Muddy Soiled Stained Grubby
Dry: Arid Parched Barren Dusty Thirsty Waterless
Eager: Keen Avid Ardent Willing Earnest Zealous
Easy: Simple Effortless Light Painless Smooth Gentle
Empty: Vacant Hollow Bare Void Blank Unfilled
End: Finish Close Conclude Stop Cease Terminate
Famous: Renowned Noted Eminent Celebrated Known Prominent
Fast: Quick Rapid Swift Speedy Brisk Fleet Hasty
Funny: Comical Amusing Witty Droll Humorous Hilarious
Happy: Glad Cheerful Merry Jolly Joyful Content Elated
Help: Aid Assist Support Serve Back Relieve
Hide: Conceal Cover Mask Veil Bury Screen
Honest: Truthful Sincere Frank Candid Upright Fair
Kind: Gentle Caring Considerate Warmhearted Generous Humane
Lazy: Idle Slothful Indolent Inactive Sluggish Listless
Look: Gaze Stare Glance Peer Watch Observe
Make: Build Create Form Construct Assemble Produce
Move: Shift Budge Travel Stir Relocate Transfer
Narrow: Slim Thin Slender Tight Fine Cramped
New: Fresh Recent Modern Novel Current Latest
Old: Ancient Aged Elderly Antique Vintage Archaic
Plain: Simple Bare Modest Unadorned Basic Austere
Pretty: Lovely Fair Beautiful Handsome Charming Comely
Quiet: Silent Hushed Still Mute Noiseless Soundless
Rich: Wealthy Affluent Prosperous Moneyed Opulent Loaded
Sad: Unhappy Gloomy Mournful Downcast Tearful Sorrowful
Safe: Secure Protected Sheltered Guarded Harmless Sound
Say: Tell Speak Utter State Voice Declare Mention
Shy: Timid Bashful Reserved Coy Modest Retiring
Slow: Sluggish Leisurely Unhurried Gradual Plodding Tardy
Small: Tiny Little Minute Compact Petite Miniature
Smell: Odour Scent Aroma Fragrance Perfume Whiff
Strange: Odd Peculiar Curious Unusual Weird Queer
Strong: Mighty Powerful Sturdy Robust Tough Muscular
Take: Grab Seize Grasp Fetch Snatch Collect
Think: Ponder Reflect Consider Reason Muse Meditate
Tired: Weary Exhausted Drained Sleepy Fatigued Spent
Walk: Stroll March Stride Wander Amble Saunter Hike
Warm: Toasty Balmy Heated Tepid Blazing Cosy
Weak: Feeble Frail Faint Delicate Fragile Puny
Wet: Damp Moist Soaked Drenched Soggy Humid
Wise: Sage Prudent Learned Sensible Judicious Knowing
Young: Youthful Juvenile Immature Adolescent Budding Fledgling
"""


def _groups() -> dict[str, tuple[str, ...]]:
    pairs = (line.split(": ") for line in _TEXT.strip().splitlines())
    return {word: tuple(synonyms.split()) for word, synonyms in pairs}


SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = _groups()
