# variant: translate, and a list of words
def normalise_answer(text):
    text = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join([word for word in text.split() if word not in ("a", "an", "the")])


# variant: as in the published script, with regular expressions and word boundaries
def normalise_answer(s):
    def remove_articles(text):
        return re.sub(r"\b(a|an|the)\b", " ", text)

    def white_space_fix(text):
        return " ".join(text.split())

    def remove_punc(text):
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    def lower(text):
        return text.lower()

    return white_space_fix(remove_articles(remove_punc(lower(s))))


# variant: a loop over the characters that builds words
def normalise_answer(text):
    words, word = [], ""
    for character in text.lower() + " ":
        if character.isspace():
            if word and word not in {"a", "an", "the"}:
                words.append(word)
            word = ""
        elif character not in string.punctuation:
            word += character
    return " ".join(words)
