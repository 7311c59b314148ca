from tests.docs.published import KINDS, PAGE, errors, page


def test_the_page_of_published_errors_is_the_checks_output():
    assert page() == PAGE.read_text(), "write it: python -m tests.docs.published --write"


def test_each_error_is_named_once_and_has_a_kind():
    found = [(entry["source"], entry["line"]) for entry in errors()]
    assert len(found) == len(set(found)) >= 20 and {entry["kind"] for entry in errors()} <= KINDS.keys()
