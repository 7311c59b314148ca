from tests.docs.commands import PAGE, page


def test_the_commands_page_is_generated_from_the_code(monkeypatch):
    for name, value in {"COLUMNS": "40", "TERMINAL_WIDTH": "40", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)  # whatever the terminal
    written = page()
    assert written == PAGE.read_text(), "write it: python -m tests.docs.commands --write"
    assert "\033" not in written and max(map(len, written.splitlines())) <= 110
