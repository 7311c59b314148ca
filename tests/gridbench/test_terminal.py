import pytest

from gridbench import terminal
from gridbench.terminal import log_or_screen, say, table_of, warn

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil.example/\x07A\u202e100\u2028\x9b2Jend"
MOVING = set("\x1b\x07\x9b\u202e\u2028")  # without them, a sequence is only odd text


def printed(capsys):
    out, errors = capsys.readouterr()
    return out + errors


@pytest.mark.parametrize("show", [say, warn, lambda text: terminal.console.print(text, markup=False)])
def test_a_sentence_has_no_control_sequence_of_a_box(capsys, show):
    show(f"GPU 0: {HOSTILE}")
    text = printed(capsys)
    assert text.startswith("GPU 0: ") and text.endswith("A100 end\n") and not set(text) & MOVING


def test_cells_and_titles_of_tables_lose_their_control_characters(capsys):
    table = table_of(f"title {HOSTILE}", "machine")
    table.add_row(HOSTILE)
    for console in (terminal.console, log_or_screen()):
        console.print(table)
    shown = printed(capsys)
    assert shown.count("A100") == 4 and not set(shown) & MOVING


def test_colours_of_our_own_and_lines_stay():
    console = terminal.PlainConsole(force_terminal=True, color_system="standard", width=80)
    with console.capture() as captured:
        console.print("[red]slower[/red]\nfaster \x1b[2J", highlight=False)
    assert captured.get() == "\x1b[31mslower\x1b[0m\nfaster \n"
