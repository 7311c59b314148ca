"""The comparison of two runs as text: the answer in one sentence, and one sentence for each cell."""

from tasks.regressions.run_gate import CellComparison, CellStatus, RunComparison
from tasks.results.format import format_count, format_seconds, listed
from tasks.results.values import Estimate


def change_text(change: Estimate) -> str:
    """Return a change with its bounds, such as `+10.2 % (+8.1 to +12.3)`."""
    if change.low is None or change.high is None:
        return f"{100 * change.value:+.1f} %"
    return f"{100 * change.value:+.1f} % ({100 * change.low:+.1f} to {_percent(change.high)})"


def share_text(share: float) -> str:
    """Return a share such as `4.1 %`, or `over 1000 %`."""
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %" if share < 10 else "over 1000 %"


def numbers_text(one: CellComparison) -> str:
    """Return the times of a cell in both runs and their change, or why the change is unknown."""
    if one.change is None:
        return one.why
    way = "its time relative to its control" if one.change.paired else "its time"
    sentences = f"{way} changed by {change_text(one.change.share)}: {_times(one)}"
    return f"{sentences}; {one.why}" if one.why else sentences


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
    rest = [
        f"{len(cells)} {standing}"
        for standing in (
            CellStatus.FASTER,
            CellStatus.UNCHANGED,
            CellStatus.UNDECIDED,
            CellStatus.NOT_COMPARABLE,
        )
        if (cells := comparison.having(standing))
    ]
    text = f"{comparison.now.name} against {comparison.before.name}: {'; '.join(sentences)}"
    return f"{text}{' (' + ', '.join(rest) + ')' if rest else ''}{_unseen(comparison)}."


def _unseen(comparison: RunComparison) -> str:
    """Return the largest change that the unchanged cells could hide."""
    widest = max(
        (cell.change.smallest for cell in comparison.having(CellStatus.UNCHANGED) if cell.change),
        default=None,
    )
    return "" if widest is None else f"; a change below {share_text(widest)} can go undetected"


def _times(one: CellComparison) -> str:
    return f"{format_seconds(_bare(one.now_s))} per step, {format_seconds(_bare(one.before_s))} before"


def _bare(seconds: Estimate | None) -> float | None:
    return seconds.value if seconds else None


def _percent(share: float) -> str:
    """Return a bound in percent, or `any` for an enormous one."""
    return f"{100 * share:+.1f}" if share < 100 else "any"
