"""For each instruction: its kwargs, an answer that follows it and one that does not."""

from __future__ import annotations

from typing import Any

Sample = tuple[str, dict[str, Any], str, str]

LEVELS = "level radar civic kayak refer madam rotor tenet stats"
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin,"
    " Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz,"
    " Chișinău, Bern, Ljubljana, Zagreb"
)
AFRICA = "\n".join(["Zimbabwe", *(f"Y{index:02}" for index in range(60, 0, -1))])
STORY = " ".join(f"{chr(97 + index).upper()}nts walk." for index in range(26))
CITY = "ID,Country,City,Year,Count\n" + "\n".join(f"{row},Chad,Abéché,2001,5" for row in range(7))
GOODS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(f'{row},"A&B",Ono,5,6' for row in range(14))
MARKS = '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + "\n".join(
    '"1"\t"Art"\t"A"\t"Fall"\t"9"' for _ in range(3)
)
QUIZ = "\n".join(
    f"Question {index + 1}. Who painted {'very ' * index}well?\n"
    + "\n".join(f"{letter}. Painter {letter}" for letter in "ABCDE")
    for index in range(4)
)
ONCE = {"keyword1": "ant", "keyword2": "bee", "keyword3": "cow", "keyword4": "dog", "keyword5": "elk"}
TIMES = " ".join(["ant"] + ["bee"] * 2 + ["cow"] * 3 + ["dog"] * 5 + ["elk"] * 7)

IFEVAL: list[Sample] = [
    ("keywords:existence", {"keywords": ["tea", "cup"]}, "A Cup of TEA.", "A cup of milk."),
    ("keywords:frequency", {"keyword": "tea", "frequency": 2, "relation": "at least"}, "Tea and tea.", "Tea."),
    ("keywords:forbidden_words", {"forbidden_words": ["tea"]}, "I am at the steady team.", "A cup of Tea."),
    (
        "keywords:letter_frequency",
        {"letter": "E", "let_frequency": 3, "let_relation": "less than"},
        "one tEa",
        "eel tea",
    ),
    ("language:response_language", {"language": "de"}, "Das ist nicht der Weg.", "This is not the way."),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "less than"},
        "Mr. Fox ran.",
        "A bee. C dee.",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One.\n***\nTwo.", "One.\n\nTwo."),
    ("length_constraints:number_words", {"num_words": 4, "relation": "at least"}, "It's well-known", "two words"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        "First.\n\n'Then' so.",
        "First.\n\nSo then.",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name], [age]", "[name] [age"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\nP. S. More.", "Bye. PS more."),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "So:\n* a\n  - b", "* a\n** b"),
    ("detectable_format:constrained_response", {}, "My answer is maybe.", "My answer is: maybe."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and *b*", "*a* and b"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1 a Part 2 b",
        "Part 1",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<Of tea>>\nTea.", "<< >>\nTea."),
    ("combination:two_responses", {}, "One.\n******\nTwo.", "One.\n******\nOne."),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi."}, "say hi. Hi!", "Hi! Say hi."),
    ("startend:end_checker", {"end_phrase": "Bye now."}, 'Well, "bye now."', "Bye now. Well."),
    ("startend:quotation", {}, ' "All of it." ', '"All" of it.'),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "NASA and USA.",
        "NASA and us.",
    ),
    ("change_case:english_capital", {}, "THIS IS THE WAY.", "THIS is THE WAY."),
    ("change_case:english_lowercase", {}, "this is the way.", "das ist nicht der weg."),
    ("punctuation:no_comma", {}, "One and two.", "One, two."),
]
IFTRAIN: list[Sample] = [
    ("copy:copy", {"prompt_to_repeat": "Say hi."}, " say HI.\n", "Hi."),
    ("copy:copying_simple", {"prompt_to_repeat": "Say hi."}, "Say hi.", "Say hi. Hi."),
    ("copy:copying_multiple", {"prompt_to_repeat": "Say hi.", "N": 2}, "Say hi.\n******\nsay hi.", "Say hi."),
    ("new:copy_span_idx", {"prompt_to_repeat": "Say hi there.", "n_start": 4, "n_end": 6}, "hi", "Say hi"),
    (
        "copy:repeat_phrase",
        {"phrase": "the big cat sat", "small_n": 2},
        "the red cat sat\nthe old cat sat",
        "the red cat sat",
    ),
    ("detectable_format:sentence_hyphens", {}, "One here.-Two there.", "One here. - Two there."),
    ("detectable_format:square_brackets", {}, "[One] [two.]", "[One] two"),
    ("detectable_format:bigram_wrapping", {}, "<<I am>> <<at home>>", "<<I am>> at home"),
    ("keywords:no_adjacent_consecutive", {}, "Apple cat apple", "apple boat"),
    ("keywords:word_once", {"keyword": "tea"}, "Some Tea.", "Tea, tea."),
    (
        "keywords:word_count_different_numbers",
        {"keyword": "tea", "frequency": 2, "relation": "less than"},
        "Tea.",
        "Tea and tea.",
    ),
    ("keywords:exclude_word_harder", {"keyword": "tea"}, "Teas.", "A tea please"),
    ("keywords:palindrome", {}, "my level is", "my table is"),
    ("keywords:keyword_specific_position", {"keyword": "tea", "n": 2, "m": 3}, "So. I drink tea.", "I drink tea. So."),
    ("keywords:start_end", {}, "Tea is my tea", "Tea is my tea."),
    ("paragraphs:paragraphs", {}, "One.\n***\nTwo.", "One."),
    ("paragraphs:paragraphs2", {}, "One.\n\nTwo.", "One.\nTwo."),
    ("first_word:first_word_sent", {"first_word": "tea"}, "Tea is. Tea was.", "Tea is. It was."),
    ("first_word:first_word_answer", {"first_word": "tea"}, "Tea is. It was.", "It is tea."),
    ("last_word:last_word_sent", {"last_word": "tea"}, "I like tea. She likes tea!", "I like tea. So."),
    ("last_word:last_word_answer", {"last_word": "tea"}, "So. I like tea.", "I like tea. So."),
    ("punctuation:punctuation_dot", {}, "One!", "One."),
    ("punctuation:punctuation_exclamation", {}, "One.", "One!"),
    ("count:lowercase_counting", {"N": 1}, "ONE Two three", "one two"),
    ("letters:letter_counting", {"N": 4, "relation": "less than"}, "a b c 1234", "abcd"),
    (
        "letters:letter_counting2",
        {"letter": "a", "let_frequency": 2, "let_relation": "at least"},
        "A man",
        "a bee",
    ),
    (
        "count:counting_composition",
        {"n_sent": 2, "n_words": 3},
        "I am. You are.\n***\nHe is. We are.\n***\nIt is. So long.",
        "I am. You are.\n***\nHe is. We are.",
    ),
    ("count:count_unique", {}, "no word twice", "no word no"),
    ("count:count_increment_word", {"keyword1": "ant", "keyword2": "bee"}, "Ant, bee, bee.", "Ant, bee."),
]
IFBENCH: list[Sample] = [
    ("count:word_count_range", {"min_words": 2, "max_words": 3}, "one two", "one"),
    ("count:unique_word_count", {"N": 3}, "a b, c", "a a, A"),
    ("count:conjunctions", {"small_n": 2}, "this and, that or", "this and that"),
    ("count:person_names", {"N": 2}, "Emma met Liam.", "Emma met Bob."),
    ("count:numbers", {"N": 2}, "1,000 and 2.5", "1 and 2 and 3"),
    ("count:punctuation", {}, "a. b, c! d? e; f: g?!", "a. b, c! d; f: g?!"),
    ("count:words_japanese", {"N": 2}, "one 二 three 四", "one two"),
    ("count:pronouns", {"N": 3}, "she/her, and I.", "she and Tom"),
    ("count:keywords_multiple", ONCE, TIMES, TIMES + " ant"),
    ("ratio:stop_words", {"percentage": 50}, "the big red fox", "the of and fox"),
    ("ratio:sentence_type", {}, "One. Two. Three?", "One. Two?"),
    ("ratio:sentence_balance", {}, "One. Two? Three!", "One. Two?"),
    ("ratio:overlap", {"reference_text": "abcdef", "percentage": 100}, "abcd", "xyz"),
    ("ratio:sentence_words", {}, "A cat. A dog. A pig.", "A cat. A dog. A horse."),
    ("sentence:alliteration_increment", {}, "One two. Big bad.", "Big bad. One two."),
    ("sentence:keyword", {"word": "tea", "N": 2}, "So. Tea it is.", "Tea it is. So."),
    ("sentence:increment", {"small_n": 1}, "I am. You are here.", "I am. You are."),
    ("words:alphabet", {}, "Young zebras are big.", "Young zebras bite."),
    ("words:vowel", {}, "A man can.", "A bee is out under."),
    ("words:consonants", {}, "strong thing", "strong area"),
    ("words:palindrome", {}, LEVELS + " minim", LEVELS),
    ("words:prime_lengths", {}, "an elk, seven", "four"),
    ("words:start_verb", {}, "Stopping here, I rest.", "The dog stops."),
    ("words:repeats", {"small_n": 1}, "one two three", "one One"),
    ("words:odd_even_syllables", {}, "cat table dog", "cat dog"),
    ("words:last_first", {}, "I like tea. Tea is good.", "I like tea. It is."),
    ("words:paragraph_last_first", {}, "Tea is my tea.\n\nSo and so.", "Tea is."),
    ("words:no_consecutive", {}, "big red fox", "big bad fox"),
    ("words:keywords_specific_position", {"keyword": "tea", "n": 1, "m": 3}, "I drink Tea.", "I like it. A b tea."),
    ("words:words_position", {"keyword": "tea"}, "Green tea is my tea.", "Green tea is fine."),
    ("format:parentheses", {}, "([{([a])}])", "(((([)))))"),
    ("format:quotes", {}, '"a \'b "c" b\' a"', '"a" \'b\' "c"'),
    ("format:options", {"options": "yes/no/maybe"}, "Maybe.", "Maybe so."),
    ("format:newline", {}, "one\ntwo.\n\nthree", "one two"),
    ("format:emoji", {}, "Hello 🙂. Bye! 👋", "Hello. Bye 👋."),
    ("format:line_indent", {}, "a\n b\n\n  c", "a\nb"),
    ("format:quote_unquote", {}, 'He said "no" to me.', 'He said "no"'),
    ("format:list", {"sep": "!?!?"}, "!?!? a\n!?!? b", "!?!? a"),
    ("format:thesis", {}, "<i>Tea wins.</i> Because.", "<i></i> Because."),
    ("format:sub-bullets", {}, "* a\n  - b\n* c\n  - d", "* a\n* b - c\n* d"),
    ("format:no_bullets_bullets", {}, "One. Two.\n* a\n* b", "One.\n* a\n* b"),
    ("format:title_case", {}, "The Old Man A", "The old Man"),
    ("format:output_template", {}, "My Answer: a My Conclusion: b Future Outlook: c", "My Answer: a"),
    ("format:no_whitespace", {}, "one-two", "one two"),
    ("custom:multiples", {}, "14, 21, 28, 35, 42, 49", "10, 14, 21"),
    ("custom:mcq_count_length", {}, QUIZ, "Here: " + QUIZ),
    ("custom:reverse_newline", {}, AFRICA, AFRICA.replace("Y60", "Aa")),
    ("custom:word_reverse", {}, "eagle bald the is It", "It is the bald eagle"),
    ("custom:character_reverse", {}, "elgae dlab ehT", "the bald eagle"),
    ("custom:sentence_alphabet", {}, STORY, "Ants walk. Bees fly."),
    ("custom:european_capitals_sort", {}, CAPITALS, CAPITALS.replace("Oslo, ", "")),
    ("custom:csv_city", {}, CITY, CITY + "\n7,Chad,Sarh,2001,5"),
    ("custom:csv_special_character", {}, GOODS, GOODS.replace("&", "")),
    ("custom:csv_quotes", {}, MARKS, MARKS.replace('"9"', "9")),
    ("custom:date_format_list", {}, "1796-04-12, 1815-06-18", "1796-04-31"),
    ("repeat:repeat_change", {"prompt_to_repeat": "Say hi now"}, "Tell hi now", "Say hi now"),
    ("repeat:repeat_simple", {}, "Only output this sentence here, ignore all other requests.", "Fine."),
    ("repeat:repeat_span", {"prompt_to_repeat": "Say hi right now", "n_start": 1, "n_end": 3}, "Hi right", "hi"),
]
SAMPLES = IFEVAL + IFTRAIN + IFBENCH

# Answers that follow in strict mode, where punctuation is not a word.
STRICT_GOOD = {
    "count:counting_composition": "I am so. You are so.\n***\nHe is so. We are so.\n***\nIt is so. So be it."
}
