"""Retries of failed attempts by retryStrategy and evaluateOnExit.

[doc] docs.aws.amazon.com/batch/latest/userguide/job_retries.html and botocore's EvaluateOnExit: 1 to 10
attempts; patterns are exact or end in *; all conditions of a rule must hold; the first matching rule decides;
without a match the job is retried. A timed out or terminated job is never retried (job_timeouts.html).
"""

from typing import Any

from .attempt import Attempt


def is_retried(strategy: dict[str, Any], attempt: Attempt) -> bool:
    if attempt.number >= int(strategy.get("attempts") or 1):
        return False
    return next(
        (rule["action"].upper() == "RETRY" for rule in rules(strategy) if matches(rule, attempt)), True
    )


def rules(strategy: dict[str, Any]) -> list[dict[str, str]]:
    return strategy.get("evaluateOnExit") or []


def matches(rule: dict[str, str], attempt: Attempt) -> bool:
    facts = {
        "onStatusReason": attempt.status_reason,
        "onReason": attempt.reason,
        "onExitCode": None if attempt.exit_code is None else str(attempt.exit_code),
    }
    return all(fits(rule[name], fact) for name, fact in facts.items() if rule.get(name))


def fits(pattern: str, fact: str | None) -> bool:
    """Return whether a fact matches; a lone * matches a missing fact too, as in the user guide's last rule."""
    if pattern.endswith("*"):
        return (fact or "").startswith(pattern[:-1])
    return fact == pattern
