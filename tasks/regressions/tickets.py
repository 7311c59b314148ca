"""What a night says of each series, and what it files."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tasks.regressions import explain
from tasks.regressions.baseline import LEAST_CHANGE
from tasks.regressions.causes import reasons
from tasks.regressions.changepoints import LEAK, WEEK, Drift, against_anchor, moved, past_steps
from tasks.regressions.gate_file import SeriesVerdict, StoredChange, Ticket, Verdicts
from tasks.regressions.missing import failures, missing, more_than_ever
from tasks.regressions.night import Tonight
from tasks.regressions.nightly_gate import MISSED, Outcome, State, settle
from tasks.regressions.series import SeriesKey


def verdicts_of(tonight: Tonight) -> Verdicts:
    """The night's verdicts, by what its suspects gave when they were measured again."""
    judged = tonight.judged
    outcomes = {outcome.key: outcome for outcome in settle(judged, tonight.fresh)}
    states = judged.states()
    watched = np.flatnonzero(judged.panel.asked | np.isfinite(judged.panel.log_s[:, judged.column]))
    series = [_verdict(tonight, int(row), states[row], outcomes) for row in watched]
    told = more_than_ever(failures(tonight.series))
    return Verdicts(
        run=tonight.night.plan.run,
        channel=tonight.night.channel,
        confirm_z=judged.confirm_z,
        confirmations=tonight.confirmed_by,
        series=tuple(series),
        changes=tuple(StoredChange.of(found.change) for found in outcomes.values() if found.change),
        tickets=(*_changed(tonight, series, outcomes), *_missing(tonight), *_leaks(tonight)),
        odd=(*tonight.odd, *([told] if told else [])),
    )


def _verdict(
    tonight: Tonight, row: int, state: State, outcomes: Mapping[SeriesKey, Outcome]
) -> SeriesVerdict:
    judged, key = tonight.judged, tonight.judged.panel.keys[row]
    outcome = outcomes.get(key)
    if outcome:
        state = State.CONFIRMED if outcome.change else State.CLEARED
    log_s = float(judged.panel.log_s[row, judged.column])
    return SeriesVerdict(
        hardware=key.hardware,
        case=key.case,
        state=state,
        seconds=math.exp(log_s) if math.isfinite(log_s) else None,
        z=_known(judged.z[row]),
        share=_known(outcome.share) if outcome else None,
        smallest_change=_known(judged.smallest[row]),
        nights=int(judged.before.nights[row]),
        beta=float(judged.before.beta[row]),
        because=tuple(reasons(tonight, row, outcome)),
    )


def _changed(
    tonight: Tonight, series: Sequence[SeriesVerdict], outcomes: Mapping[SeriesKey, Outcome]
) -> Iterator[Ticket]:
    """A ticket for each confirmed change, or one for a machine of which many changed alike."""
    whole = explain.whole_targets(tonight.judged, outcomes.values())
    for hardware, keys in whole.items():
        shares = [(key, outcomes[key].share) for key in keys]
        share = max((share for _, share in shares), key=abs)
        yield Ticket(
            kind="target" if share > 0 else "improvement",
            hardware=hardware,
            cases=tuple(key.case for key in keys),
            sentence=explain.target(hardware, shares, sum(s.hardware == hardware for s in series)).sentence,
            share=share,
        )
    for one in series:
        alone = one.case not in [key.case for key in whole.get(one.hardware, ())]
        if one.state is State.CONFIRMED and alone and one.share is not None:
            yield Ticket(
                kind="regression" if one.share > 0 else "improvement",
                hardware=one.hardware,
                cases=(one.case,),
                sentence=f"{one.hardware}/{one.case} is {moved(one.share)} than before.",
                share=one.share,
                because=one.because,
            )


def _missing(tonight: Tonight) -> Iterator[Ticket]:
    """A ticket for each series that has become missing, in the first night that is judged since."""
    panel, column = tonight.judged.panel, tonight.judged.column
    place = {run: at for at, run in enumerate(panel.runs)}
    rows = {key: row for row, key in enumerate(panel.keys)}
    for key, sentence in missing(tonight.judged, tonight.series).items():
        since = column - panel.missed[rows[key], column]
        told = [of for of, ticket in _told(tonight, key) if ticket.kind == "missing"]
        if panel.missed[rows[key], column] >= MISSED and not any(place.get(of, -1) > since for of in told):
            yield Ticket(kind="missing", hardware=key.hardware, cases=(key.case,), sentence=sentence)


def _leaks(tonight: Tonight) -> Iterator[Ticket]:
    """Once a week: what crept in too slowly for any night to show, or was missed; each is told once."""
    judged = tonight.judged
    if (judged.column + 1) % WEEK:
        return
    told = {key: [t for _, t in _told(tonight, key) if t.kind == "leak"] for key in judged.panel.keys}
    runs = {key: [run for ticket in of for run in ticket.since] for key, of in told.items()}
    steps = past_steps(judged.panel, runs, tonight.changes, judged.column)
    for key, found in steps.items():
        share = math.prod(1 + step.share for step in found) - 1  # what of them all still holds
        if abs(share) > LEAST_CHANGE:
            sentence = f"{moved(share)}, by {'; '.join(step.sentence for step in found)}"
            yield _leak(key, share, sentence, [step.run for step in found])
    for key, drift in against_anchor(judged.panel, {}, tonight.changes, judged.column).items():
        if drift.told and key not in steps and _is_news(drift, told[key]):
            yield _leak(key, drift.share, drift.sentence, [drift.last])


def _is_news(drift: Drift, told: Sequence[Ticket]) -> bool:
    """Whether nobody was told of this drift: it turned, or has gone on by as much as is worth telling."""
    shares = [ticket.share for ticket in told if ticket.share is not None]
    return all(drift.share * share < 0 or abs(drift.share) > abs(share) + LEAK for share in shares)


def _leak(key: SeriesKey, share: float, sentence: str, since: Sequence[str]) -> Ticket:
    told = f"{key.hardware}/{key.case} is {sentence}."
    fields = {"hardware": key.hardware, "cases": (key.case,), "share": share, "since": tuple(since)}
    return Ticket(kind="leak", sentence=told, **fields)


def _told(tonight: Tonight, key: SeriesKey) -> list[tuple[str, Ticket]]:
    return [(of, t) for of, t in tonight.told if t.hardware == key.hardware and key.case in t.cases]


def _known(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
