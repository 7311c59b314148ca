"""Read the text of a PDF that Chromium printed."""

import re
import unicodedata
import zlib

OBJECT = re.compile(rb"(\d+) 0 obj\s*(.*?)\s*endobj", re.DOTALL)
STREAM = re.compile(rb"^(.*?)stream\r?\n(.*)\r?\nendstream$", re.DOTALL)
SHOWN = re.compile(rb"/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>\s*Tj|(ET)")


def pdf_text(content: bytes) -> str:
    """Return all text in drawing order, one line for each text object."""
    objects = {int(number): body for number, body in OBJECT.findall(content)}
    fonts = {}
    for body in objects.values():
        for fonts_of in re.findall(rb"/Font\s*<<(.*?)>>", body, re.DOTALL):
            for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", fonts_of):
                fonts[name] = _letters(objects, int(number))
    streams = [stream for stream in map(_stream, objects.values()) if b" Tf" in stream]
    return unicodedata.normalize("NFKC", "\n".join(_shown(stream, fonts) for stream in streams))


def _stream(body: bytes) -> bytes:
    match = STREAM.match(body)
    if match is None:
        return b""
    head, data = match.groups()
    try:
        return zlib.decompress(data) if b"FlateDecode" in head else data
    except zlib.error:
        return b""


def _letters(objects: dict[int, bytes], font: int) -> dict[int, str]:
    """Return the characters of a font by glyph, from its `ToUnicode` map."""
    link = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    text = _stream(objects[int(link[1])]) if link else b""
    letters = {}
    for block in re.findall(rb"beginbfchar(.*?)endbfchar", text, re.DOTALL):
        for glyph, code in re.findall(rb"<(\w+)> <(\w+)>", block):
            letters[int(glyph, 16)] = bytes.fromhex(code.decode()).decode("utf-16-be")
    for block in re.findall(rb"beginbfrange(.*?)endbfrange", text, re.DOTALL):
        for first, last, code in re.findall(rb"<(\w+)> <(\w+)> <(\w+)>", block):
            for place in range(int(last, 16) - int(first, 16) + 1):
                letters[int(first, 16) + place] = chr(int(code, 16) + place)
    return letters


def _shown(stream: bytes, fonts: dict[bytes, dict[int, str]]) -> str:
    text, letters = [], {}
    for name, glyphs, end in SHOWN.findall(stream):
        if name:
            letters = fonts[name]
        elif end:
            text.append("\n")
        else:
            codes = (int(glyphs[i : i + 4], 16) for i in range(0, len(glyphs), 4))
            text += [letters.get(code, "") for code in codes]
    return "".join(text)
