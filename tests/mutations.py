"""Hypothesis strategies of damaged and hostile input: valid JSON values with changed parts."""

import copy
import json
import unicodedata

from hypothesis import strategies as st

NASTY = st.sampled_from(
    [
        "\x1b[2J\x1b]0;owned\x07",
        "\u202e\u2028\x00",
        "\ud800",
        "../../../etc/passwd",
        "__proto__",
        "=HYPERLINK(1)",
        "x" * 5000,
        2**63,
        2**70,
        -1,
        10**400,
        1e308,
        5e-324,
        float("nan"),
        float("inf"),
    ]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | NASTY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw, value, most=3, of_the_same_type=False):
    """Draw a value with up to `most` parts replaced, scaled, removed, doubled or renamed.

    `of_the_same_type` keeps numbers numbers and all parts present, so that type checks pass.
    """
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, most))):
        places = list(_places(value))
        if not places:
            return draw(ANY)
        parent, key = draw(st.sampled_from(places))
        if of_the_same_type:
            parent[key] = draw(_like(parent[key]))
        else:
            _change(draw, parent, key)
    return value


def _like(old):
    kinds = {
        bool: st.booleans(),
        int: st.sampled_from([0, -1, 1, 10**6, 2**62]) | st.integers(-(2**63), 2**63 - 1),
        float: st.sampled_from([0.0, -1.0, 5e-324, 1e308]) | st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(max_size=20) | NASTY.filter(lambda each: isinstance(each, str)),
        list: st.sampled_from([[], old[:1], old * 2, old[::-1]] if isinstance(old, list) else [[]]),
    }
    return kinds.get(type(old), st.just(old))


def _change(draw, parent, key):
    change = draw(st.sampled_from(["replace", "replace", "scale", "remove", "double", "rename"]))
    old = parent[key]
    if change == "remove":
        del parent[key]
    elif change == "double" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
    elif change == "rename" and isinstance(parent, dict):
        parent[draw(st.text(max_size=8))] = parent.pop(key)
    elif change == "scale" and isinstance(old, int | float) and abs(old) < 1e300:
        parent[key] = old * draw(st.sampled_from([0, -1, 1e-9, 1e9, 1000]))
    else:
        parent[key] = draw(ANY)


def _places(value):
    """Yield each part's list or dict, and its place there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


@st.composite
def damaged_text(draw, value):
    """Draw a value's JSON in bytes: intact, changed, cut, doubled, or with other bytes."""
    changed = draw(st.just(value) | mutated(value))
    text = json.dumps(changed, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    at = draw(st.integers(0, len(text)))
    damage = draw(st.sampled_from(["none", "none", "cut", "insert", "double", "deep"]))
    if damage == "cut":
        return text[:at]
    if damage == "insert":
        return text[:at] + draw(st.binary(max_size=8)) + text[at:]
    if damage == "double":
        return text + text[at:]
    if damage == "deep":
        return b'{"a":' + b"[" * draw(st.integers(1, 100_000)) + text
    return text


def misleads(text):
    """Return whether a text moves a cursor, ends a line, or changes the reading order.

    `str.isprintable` misses characters of later Unicode versions.
    """
    return any(
        unicodedata.category(sign) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(sign) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
        or sign in "\u061c\u200e\u200f"
        for sign in text
    )
