"""Two runs compared in sentences."""

from tasks.regressions.change import Change, native_change, share_in_words
from tasks.regressions.run_gate import CellComparison, CellStatus, RunComparison
from tasks.results.format import format_count, format_share, listed
from tasks.results.metrics import metric_in, number_text
from tasks.results.values import Estimate

_OF_METRICS = {
    CellStatus.SLOWER: "worse",
    CellStatus.FASTER: "better",
    CellStatus.NOT_SLOWER: "not worse",
}
_OTHERS = (
    CellStatus.FASTER,
    CellStatus.UNCHANGED,
    CellStatus.NOT_SLOWER,
    CellStatus.UNDECIDED,
    CellStatus.NOT_COMPARABLE,
)


def change_text(change: Estimate) -> str:
    """Return such as `+10.2 % (+8.1 to +12.3)`; a huge bound is `any`."""
    if change.low is None or change.high is None:
        return f"{100 * change.value:+.1f} %"
    high = f"{100 * change.high:+.1f}" if change.high < 100 else "any"
    return f"{100 * change.value:+.1f} % ({100 * change.low:+.1f} to {high})"


def change_of(one: CellComparison) -> str:
    case, share = one.cell.case.id, one.change.share if one.change else None
    metric = metric_in(case)
    if share is None or metric is None or metric.is_time:
        return change_text(share) if share else "–"
    bounds = [
        native_change(metric, bound) for bound in (share.value, share.low, share.high) if bound is not None
    ]
    unit = "points" if metric.unit == "%" else "%"
    value, *ends = (f"{100 * bound + 0.0:+.1f}" for bound in (bounds[0], *sorted(bounds[1:])))
    return f"{value} {unit}" + (f" ({' to '.join(ends)})" if ends else "")


def status_text(one: CellComparison) -> str:
    """Use words that suit its number."""
    metric = metric_in(one.cell.case.id)
    return (
        str(one.status) if metric is None or metric.is_time else _OF_METRICS.get(one.status, str(one.status))
    )


def most_of(one: CellComparison) -> str:
    """Return the largest slowdown, or worsening, that it does not exclude."""
    if one.change is None:
        return "–"
    metric = metric_in(one.cell.case.id)
    if metric is None or metric.is_time:
        return most_text(one.change)
    return share_in_words(max(one.change.most, 0.0), one.cell.case.id)


def numbers_text(one: CellComparison) -> str:
    """Return times and change, or why it is unknown."""
    if one.change is None:
        return one.why
    case = one.cell.case.id
    now, before = (number_text(case, s.value if s else None) for s in (one.now_s, one.before_s))
    if metric_in(case):
        text = f"it changed by {change_of(one)}: {now}, {before} before"
    else:
        way = "its time relative to its control" if one.change.paired else "its time"
        text = f"{way} changed by {change_text(one.change.share)}: {now} per step, {before} before"
    return f"{text}; {one.why}" if one.why else text


def smallest_text(one: CellComparison) -> str:
    """Return the smallest detectable change, and the excluded slowdown."""
    if one.change is None:
        return "no change could be detected"
    if metric_in(one.cell.case.id):
        return f"more than {most_of(one)} is excluded"
    most = f"a slowdown above {most_text(one.change)} is excluded"
    return f"{most}; a change of {format_share(one.change.smallest)} would be detected with a power of 50 %"


def most_text(change: Change) -> str:
    """Return the largest slowdown not excluded, at least 0."""
    return format_share(max(change.most, 0.0))


def answer(comparison: RunComparison, allow_undecided: bool = False) -> str:
    """Return slower and lost cells, and the others' largest slowdown."""
    slower, lost = comparison.having(CellStatus.SLOWER), comparison.having(CellStatus.LOST)
    bad = [f"{one.cell.id} by {change_of(one)}" for one in slower if one.change]
    sentences = []
    if slower:
        word = "worse" if any(metric_in(one.cell.case.id) for one in slower) else "slower"
        sentences.append(f"{format_count(len(slower), 'cell')} got {word}: {listed(bad)}")
    if lost:
        reasons = [f"{one.cell.id} ({one.why})" for one in lost]
        sentences.append(f"{format_count(len(lost), 'cell')} lost: {listed(reasons)}")
    is_decided = any(cell.status.decided for cell in comparison.cells)
    if not slower and not lost:
        sentences.append("no cell got slower or lost" if is_decided else "no cell could be decided")
    undecided = comparison.having(CellStatus.UNDECIDED)
    if is_decided and undecided and comparison.exit_code(allow_undecided) == 3:
        sentences.append(f"{format_count(len(undecided), 'cell')} could not be decided")
    rest = [f"{len(cells)} {status}" for status in _OTHERS if (cells := comparison.having(status))]
    text = f"{comparison.now.name} against {comparison.before.name}: {'; '.join(sentences)}"
    text += f" ({', '.join(rest)})" if rest else ""
    passed = [*comparison.having(CellStatus.UNCHANGED), *comparison.having(CellStatus.NOT_SLOWER)]
    for cells, which in ((passed, "unchanged"), (undecided, "undecided")):
        changes = [cell.change for cell in cells if cell.change and not metric_in(cell.cell.case.id)]
        if changes:
            most = most_text(max(changes, key=lambda change: change.most))
            text += f"; {which} cells can be slower by up to {most}"
    return f"{text}."
