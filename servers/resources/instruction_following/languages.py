"""Finds the language of a text: by script, then by the commonest words and letters of the languages that share it.

No model and no chance: the same text gets the same answer. Short texts of names or numbers give the script's default.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_CHARACTERS = 20_000  # more tells nothing new

_SCRIPTS: tuple[tuple[str, str], ...] = (
    ("\u3040-\u30ff", "ja"),
    ("\uac00-\ud7af\u1100-\u11ff", "ko"),
    ("\u0e00-\u0e7f", "th"),
    ("\u0980-\u09ff", "bn"),
    ("\u0a00-\u0a7f", "pa"),
    ("\u0a80-\u0aff", "gu"),
    ("\u0b80-\u0bff", "ta"),
    ("\u0c00-\u0c7f", "te"),
    ("\u0c80-\u0cff", "kn"),
    ("\u0d00-\u0d7f", "ml"),
    ("\u0590-\u05ff", "he"),
    ("\u0370-\u03ff", "el"),
    ("\u0900-\u097f", "devanagari"),
    ("\u0600-\u06ff", "arabic"),
    ("\u0400-\u04ff", "cyrillic"),
    ("\u4e00-\u9fff", "zh-cn"),
    ("A-Za-z\u00c0-\u024f\u1e00-\u1eff", "latin"),
)
_COUNTERS = tuple((re.compile(f"[{span}]"), name) for span, name in _SCRIPTS)

# Words that are common in one language and rare in the others of its script; the first is the script's default.
_WORDS: dict[str, dict[str, str]] = {
    "latin": {
        "en": "the of and to in is that it for was on are with as his they be at this have from or had by but not what"
        " all were we when your can said there an each which their if will how about many then them these so some her"
        " would make like him into has you my our could should do does very just a i he she who",
        "es": "el la los las de del que y en un una es por con para no se su al lo como más pero sus le ya o este sí"
        " porque esta entre cuando muy sin sobre también hasta hay donde quien desde todo nos durante uno son está",
        "pt": "o os as de da do das dos que e em um uma é por com para não se na no ao mais mas foi ele são como está"
        " você também muito nos já eu isso seu sua ou quando pela pelo até sem há",
        "fr": "le la les de des du un une et est en que qui pour dans ce il elle ne pas sur se au plus par avec son sa"
        " ses mais comme ou si leur nous vous ils être cette aux été je tout très c'est",
        "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine einen dem im es als auch an werden"
        " aus er hat dass sie nach wird bei einer um am sind noch wie über so zum war haben nur oder aber ich wir",
        "it": "il lo la i gli le di del della dei che e è in un una per con non si da al sono come più ma anche ha nel"
        " alla questo questa suo sua dal delle nella o se perché molto tra ci",
        "pl": "i w na z do nie się że jest to o jak ale po co tak za od już czy tylko być przez dla oraz są może który"
        " która które jego ich tym tego ma przy był była można",
        "nl": "de het een en van in is dat op te met voor niet zijn er aan om ook als maar dan door naar bij ze uit"
        " hij heeft wordt nog wel deze die ik je we kan",
        "sv": "och att det som en på är av för med den till inte har de ett om han men var jag sig från vi så kan när"
        " nu där eller hon skulle efter mycket också",
        "da": "og i at det som en på er af for med den til ikke har de et om han men var jeg sig fra vi så kan når nu"
        " der eller hun skulle efter meget også blev",
        "no": "og i at det som en på er av for med den til ikke har de et om han men var jeg seg fra vi så kan når nå"
        " der eller hun skulle etter mye også ble",
        "fi": "ja on ei se että hän oli mutta ovat kun niin kuin myös tai jos joka mukaan sen ole sitä olla voi mitä"
        " vain nyt kuitenkin tämä tämän hänen minä sinä me te ovatko jotka",
        "vi": "và của là có trong được cho một không các với những để người khi này đã về từ ra đến như cũng nhiều lại"
        " vào tôi bạn nó thì sẽ rất trên",
        "sw": "na ya wa kwa ni katika la za kuwa hii hiyo yake cha kama pia watu lakini sana huu hizo wake yao au"
        " alikuwa kwamba ambayo ambao mtu moja vya si",
        "tr": "ve bir bu da de için ile çok daha ne gibi kadar olarak olan sonra ama en var mı değil her o ben sen biz"
        " olduğu veya ki şey",
        "ro": "și de la în a cu pe un o este nu să care din mai că pentru sunt ca sau fi al ale lui dar prin după",
        "cs": "a v se na je že s z do to o k i jako by pro ale za jsou si jeho po který která které nebo jsem byl od",
        "hu": "a az és hogy nem is egy van meg ez de volt csak mint el már még minden vagy ha azt ki kell lesz amely",
        "id": "dan yang di dengan untuk dari ini itu pada tidak dalam akan ke adalah juga saya kami mereka ada bisa"
        " oleh atau sebagai karena lebih sudah telah",
    },
    "cyrillic": {
        "ru": "и в не на я что он с как это по но они к у мы из за то же от для так о вы его она бы был или только"
        " меня при когда этот чтобы очень все если есть",
        "uk": "і в не на що я з як це та але вони до у ми із за то ж від для так про ви його вона був або тільки мене"
        " при коли цей щоб дуже всі якщо є й їх",
        "bg": "и в не на че с как това по но те за от да се са е към го тя би бил или само ме при когато този защото"
        " много всички ако има ще беше като до",
        "mk": "и во не на што со како ова по но тие за од да се е кон го таа би бил или само ме при кога овој бидејќи"
        " многу сите ако има ќе беше",
    },
    "devanagari": {
        "hi": "है और के में की का को से यह हैं पर ने कि एक नहीं था इस लिए भी हो कर तो वह ये थे थी जो आप हम अपने",
        "mr": "आहे आणि च्या मध्ये या ते ही हे आहेत एक नाही होते त्या साठी पण तो ती जे आपण केले असे काही तर मी होता",
        "ne": "छ र को मा यो हो छन् एक छैन थियो यस लागि पनि गर्न तर त्यो हुन् जुन हामी आफ्नो गरेको भएको लाई बाट गर्छ",
    },
    "arabic": {
        "ar": "في من على أن إلى هذا هذه التي الذي عن مع كان لا ما هو هي أو كل بعد قد وقد ذلك بين ثم إن لم كما عند",
        "fa": "در از به که این را با است برای آن یک می تا بر هم شود بود شده خود ما کرد نیز اما هر است. دارد های",
        "ur": "کے میں کی ہے اور سے کا کو اس نے پر یہ ہیں ایک کہ بھی نہیں تھا لیے وہ جو کر ہو گیا اپنے تو ہم آپ",
    },
}
_LISTS = {script: {code: frozenset(words.split()) for code, words in lists.items()} for script, lists in _WORDS.items()}

# Letters that one language of a script has and its neighbours do not.
_LETTERS: dict[str, dict[str, str]] = {
    "latin": {
        "es": "ñ¿¡",
        "pt": "ãõ",
        "de": "ß",
        "pl": "łąęśźżćń",
        "fr": "œêû",
        "vi": "ơưăđạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
        "tr": "ğış",
        "ro": "șță",
        "cs": "řůě",
        "hu": "őű",
        "da": "æø",
        "no": "æø",
        "sv": "å",
    },
    "cyrillic": {"ru": "ыэё", "uk": "іїєґ", "bg": "ъщ", "mk": "ѓќѕљњџ"},
    "arabic": {"fa": "پچژگ", "ur": "ٹڈڑںےہھ"},
    "devanagari": {"mr": "ळ"},
}


def detect(text: str) -> str:
    """A two-letter code (`zh-cn` for Chinese); empty when there is no letter at all."""
    text = text[:MAX_CHARACTERS].lower()
    script = _script_of(text)
    if script not in _LISTS:
        return script
    found = Counter(word.strip(".,;:!?\"'()[]*_«»“”।،؟-") for word in text.split())
    scores = {code: sum(found[word] for word in words) for code, words in _LISTS[script].items()}
    for code, letters in _LETTERS.get(script, {}).items():
        scores[code] += sum(text.count(letter) for letter in letters)
    return max(scores, key=scores.__getitem__)  # of equals the first: the script's default


def _script_of(text: str) -> str:
    counts = {name: len(pattern.findall(text)) for pattern, name in _COUNTERS}
    if counts["ja"]:  # Japanese mixes in Chinese characters, Chinese never kana
        counts["ja"] += counts.pop("zh-cn")
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else ""
