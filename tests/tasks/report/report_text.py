import re


def without_scripts(page):
    return re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.S)


def words(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", without_scripts(page)))
