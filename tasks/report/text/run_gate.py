"""The comparison of two runs as text: the answer in one sentence, and one sentence for each cell."""

from tasks.regressions.run_gate import CellComparison, CellStatus, RunComparison
from tasks.results.format import format_count, format_seconds, listed
from tasks.results.values import Estimate


def change_text(change: Estimate) -> str:
    """Return a change with its bounds, such as `+10.2 % (+8.1 to +12.3)`; an enormous upper bound is `any`."""
    if change.low is None or change.high is None:
        return f"{100 * change.value:+.1f} %"
    high = f"{100 * change.high:+.1f}" if change.high < 100 else "any"
    return f"{100 * change.value:+.1f} % ({100 * change.low:+.1f} to {high})"


def share_text(share: float) -> str:
    """Return a share such as `4.1 %`, or `over 1000 %`."""
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %" if share < 10 else "over 1000 %"


def numbers_text(one: CellComparison) -> str:
    """Return the times of a cell in both runs and their change, or why the change is unknown."""
    if one.change is None:
        return one.why
    way = "its time relative to its control" if one.change.paired else "its time"
    now, before = (format_seconds(s.value if s else None) for s in (one.now_s, one.before_s))
    text = f"{way} changed by {change_text(one.change.share)}: {now} per step, {before} before"
    return f"{text}; {one.why}" if one.why else text


def smallest_text(one: CellComparison) -> str:
    """Return the smallest detectable change of a cell."""
    if one.change is None:
        return "no change could be detected"
    return f"a change of {share_text(one.change.smallest)} would be detected with a power of 50 %"


def answer(comparison: RunComparison) -> str:
    """Return one sentence with the slower and lost cells and the largest change that could be undetected."""
    slower, lost = comparison.having(CellStatus.SLOWER), comparison.having(CellStatus.LOST)
    bad = [f"{one.cell.id} by {change_text(one.change.share)}" for one in slower if one.change]
    sentences = []
    if slower:
        sentences.append(f"{format_count(len(slower), 'cell')} got slower: {listed(bad)}")
    if lost:
        reasons = [f"{one.cell.id} ({one.why})" for one in lost]
        sentences.append(f"{format_count(len(lost), 'cell')} lost: {listed(reasons)}")
    if comparison.exit_code == 0:
        sentences.append("no cell got slower or lost")
    if comparison.exit_code == 3:
        sentences.append("no cell could be decided")
    others = (CellStatus.FASTER, CellStatus.UNCHANGED, CellStatus.UNDECIDED, CellStatus.NOT_COMPARABLE)
    rest = [f"{len(cells)} {status}" for status in others if (cells := comparison.having(status))]
    text = f"{comparison.now.name} against {comparison.before.name}: {'; '.join(sentences)}"
    text += f" ({', '.join(rest)})" if rest else ""
    smallest = [cell.change.smallest for cell in comparison.having(CellStatus.UNCHANGED) if cell.change]
    text += f"; a change below {share_text(max(smallest))} can go undetected" if smallest else ""
    return f"{text}."
