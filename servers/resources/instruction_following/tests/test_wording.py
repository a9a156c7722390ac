"""How sentences, tokens, syllables and languages are read."""

from __future__ import annotations

import languages
import pytest
from lexicon import is_verb
from wording import is_emoji, sentences, syllables, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ("Mr. Fox met Dr. Owl. They spoke.", ["Mr. Fox met Dr. Owl.", "They spoke."]),
        ("Ask J. R. Smith, e.g. today. Yes.", ["Ask J. R. Smith, e.g. today.", "Yes."]),
        ("So did I. Then we left.", ["So did I.", "Then we left."]),
        ("It costs 3.50 euros. Fine.", ["It costs 3.50 euros.", "Fine."]),
        ('He said "No." She left (at last.) Then?', ['He said "No."', "She left (at last.)", "Then?"]),
        ("Well... maybe. Or... Not.", ["Well... maybe.", "Or...", "Not."]),
        ("See no. 5. I said no. Fine.", ["See no. 5.", "I said no.", "Fine."]),
        ("no stop\nat all", ["no stop\nat all"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_text_is_cut_into_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't.", ["I", "do", "n't", "."]),
        ("It's (well-known), no?", ["It", "'s", "(", "well-known", ")", ",", "no", "?"]),
        ("The U.S. won. Yes.", ["The", "U.S.", "won", ".", "Yes", "."]),
        ('"Hi!"', ["``", "Hi", "!", "''"]),
        ("3.5 and 1,000", ["3.5", "and", "1,000"]),
    ],
)
def test_text_is_cut_into_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "cat tree walked make eyes jumped through the"),
        (2, "table water going wanted houses lion"),
        (3, "banana important wonderful"),
        (4, "information"),
    ],
)
def test_syllables_are_counted(count: int, words: str) -> None:
    assert {word: syllables(word) for word in words.split()} == dict.fromkeys(words.split(), count)


@pytest.mark.parametrize("word", ["Write", "running", "Stopped", "tries", "Analyzes", "is", "Made", "baking"])
def test_verbs_are_known_in_all_their_forms(word: str) -> None:
    assert is_verb(word)


@pytest.mark.parametrize("word", ["The", "dog", "blue", "this", "morning", "bus", "king"])
def test_other_words_are_not_verbs(word: str) -> None:
    assert not is_verb(word)


def test_emoji_are_distinguished_from_letters_and_digits() -> None:
    assert all(map(is_emoji, "🙂👋❤✨🚀🇫"))
    assert not any(map(is_emoji, "a1.#é二"))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "The quick brown fox jumps over the lazy dog and runs into the forest."),
        ("es", "El perro duerme en la casa y no quiere salir porque está muy cansado."),
        ("pt", "O cachorro não quer sair de casa porque ele está muito cansado hoje."),
        ("fr", "Le chien dort dans la maison et ne veut pas sortir parce qu'il est fatigué."),
        ("de", "Der Hund schläft im Haus und will nicht nach draußen gehen."),
        ("it", "Il cane dorme nella casa e non vuole uscire perché è molto stanco."),
        ("pl", "Pies śpi w domu i nie chce wyjść, ponieważ jest bardzo zmęczony."),
        ("vi", "Con chó ngủ trong nhà và không muốn ra ngoài vì nó rất mệt."),
        ("sw", "Mbwa analala katika nyumba na hataki kutoka kwa sababu ni mchovu."),
        ("fi", "Koira nukkuu talossa ja se ei halua ulos, koska se on väsynyt."),
        ("nl", "De hond slaapt in het huis en wil niet naar buiten omdat hij moe is."),
        ("ru", "Собака спит в доме и не хочет выходить, потому что она очень устала."),
        ("uk", "Собака спить у будинку і не хоче виходити, тому що він дуже втомився."),
        ("bg", "Кучето спи в къщата и не иска да излезе, защото е много уморено."),
        ("ar", "الكلب ينام في البيت ولا يريد الخروج لأنه متعب من هذا اليوم."),
        ("fa", "سگ در خانه می خوابد و نمی خواهد بیرون برود چون خسته است."),
        ("ur", "کتا گھر میں سوتا ہے اور باہر نہیں جانا چاہتا کیونکہ وہ تھکا ہوا ہے۔"),
        ("hi", "कुत्ता घर में सोता है और बाहर नहीं जाना चाहता क्योंकि वह थका हुआ है।"),
        ("mr", "कुत्रा घरात झोपतो आणि बाहेर जाऊ इच्छित नाही कारण तो थकलेला आहे."),
        ("ne", "कुकुर घरमा सुत्छ र बाहिर जान चाहँदैन किनभने त्यो थाकेको छ।"),
        ("bn", "কুকুরটি ঘরে ঘুমায় এবং বাইরে যেতে চায় না।"),
        ("ta", "நாய் வீட்டில் தூங்குகிறது."),
        ("te", "కుక్క ఇంట్లో నిద్రపోతుంది."),
        ("kn", "ನಾಯಿ ಮನೆಯಲ್ಲಿ ಮಲಗುತ್ತದೆ."),
        ("ml", "നായ വീട്ടിൽ ഉറങ്ങുന്നു."),
        ("gu", "કૂતરો ઘરમાં સૂવે છે."),
        ("pa", "ਕੁੱਤਾ ਘਰ ਵਿੱਚ ਸੌਂਦਾ ਹੈ।"),
        ("th", "สุนัขนอนในบ้าน"),
        ("ko", "개는 집에서 자고 있습니다."),
        ("ja", "犬は家で寝ています。東京都。"),
        ("zh-cn", "狗在房子里睡觉。"),
        ("he", "הכלב ישן בבית."),
        ("el", "Ο σκύλος κοιμάται στο σπίτι."),
        ("", "12345 !?"),
    ],
)
def test_a_language_is_distinguished_from_its_neighbours(code: str, text: str) -> None:
    assert languages.detect(text) == code
    assert languages.detect(text.upper()) == code
