# SPDX-License-Identifier: BSD-3-Clause
"""Properties of a rule: the reasons why drivers refuse it."""

from typing import Callable, Sequence

from .flow_edits import ChangeField, CopyField
from .flow_model import TUNNELS, Rule

# Takes a rule and the rules already installed.
Applies = Callable[[Rule, Sequence[Rule]], bool]


def asks(*names: str) -> Applies:
    return lambda rule, _: any(one.name in names for item in rule.items for one in item.asked)


def asks_for(name: str, number: int) -> Applies:
    return lambda rule, _: any(one.name == name and one.holds(number) for item in rule.items for one in item.asked)


def has(*kinds: str) -> Applies:
    return lambda rule, _: any(item.kind in kinds for item in rule.items)


def carries(*kinds: str) -> Applies:
    """Carries these headers in a tunnel."""

    def applies(rule: Rule, _: Sequence[Rule]) -> bool:
        items = [item.kind for item in rule.items]
        first = next((at for at, kind in enumerate(items) if kind in TUNNELS), len(items))
        return any(kind in kinds for kind in items[first:])

    return applies


def has_range(rule: Rule, _: Sequence[Rule]) -> bool:
    return any(one.last is not None for item in rule.items for one in item.conditions)


def twice(rule: Rule, others: Sequence[Rule]) -> bool:
    return any(rule.priority == other.priority for other in others)


def any_of(*reasons: Applies) -> Applies:
    return lambda rule, others: any(applies(rule, others) for applies in reasons)


def counts(rule: Rule, _: Sequence[Rule]) -> bool:
    return rule.count


def edits(*actions: str) -> Applies:
    return lambda rule, _: any(edit.text().split()[0] in actions for edit in rule.edits)


def changes(kind: str, *names: str) -> Applies:
    """Changes these fields, by any action."""
    return lambda rule, _: any(isinstance(edit, ChangeField) and edit.kind == kind and edit.name in names
                               for edit in rule.edits)


def copies_fields(rule: Rule, _: Sequence[Rule]) -> bool:
    return any(isinstance(edit, CopyField) for edit in rule.edits)


def sent(rule: Rule, _: Sequence[Rule]) -> bool:
    return rule.egress


def received(rule: Rule, _: Sequence[Rule]) -> bool:
    return not rule.egress


def of_first_group(rule: Rule, _: Sequence[Rule]) -> bool:
    return rule.group == 0


def of_later_group(rule: Rule, _: Sequence[Rule]) -> bool:
    return rule.group > 0


def all_of(*reasons: Applies) -> Applies:
    return lambda rule, others: all(applies(rule, others) for applies in reasons)


def meters(rule: Rule, _: Sequence[Rule]) -> bool:
    return rule.metering is not None


def drops(rule: Rule, _: Sequence[Rule]) -> bool:
    return not rule.queues


def samples(rule: Rule, _: Sequence[Rule]) -> bool:
    return rule.copies is not None
