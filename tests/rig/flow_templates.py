# SPDX-License-Identifier: BSD-3-Clause
"""Rules from templates: equivalent to those of `flow create`, so the same must hold for them."""

from dataclasses import dataclass, field

from .flow_model import Item, Rule
from .stack_base import StackBase

CONFIGURED = 64  # operations per queue
_LONGEST_RULE = 370  # in testpmd's syntax: it reads 512 characters, which include the table
# Fields that determine how a pattern is parsed, or that the item or the next one determines.
_DECIDING = {"type", "inner_type", "has_vlan", "has_more_vlan", "has_frag_ext", "fragment_offset", "proto",
             "protocol", "version_ihl", "k_bit"}


def configure(stack: StackBase) -> None:
    """Configures the port, before it forwards."""
    testpmd = stack.testpmd
    testpmd.stop_port(0)
    testpmd.expect(f"flow configure 0 queues_number 2 queues_size {CONFIGURED}",
                   f"number of queues 2 with {CONFIGURED}")
    testpmd.start_port(0)


def pull(stack: StackBase) -> int:
    """The number of operations that succeeded; requires that none failed."""
    stack.testpmd.expect("flow push 0 queue 0", "pushed")
    return int(stack.testpmd.expect("flow pull 0 queue 0",
                                    r"pulled \d+ operations \(0 failed, (\d+) succeeded\)")[1])


def create_table(stack: StackBase, table: str, pattern: str, actions: str, mask: str) -> None:
    """From one pattern template and one actions template, with the same number as the table; `table`: its
    number and further attributes for testpmd."""
    number, attributes = table.split(" ", 1)
    for command in (
        f"pattern_template 0 create ingress pattern_template_id {number} relaxed no template {pattern} / end",
        f"actions_template 0 create ingress actions_template_id {number} template {actions} / end mask {mask} / end",
        f"template_table 0 create table_id {number} {attributes} ingress"
        f" pattern_template {number} actions_template {number}"):
        stack.testpmd.expect(f"flow {command}", "created")


def destroy_table(stack: StackBase, number: int) -> None:
    """Destroys a table without rules, and its templates."""
    for kind, name in (("template_table", "table"), ("actions_template", "actions_template"),
                       ("pattern_template", "pattern_template")):
        stack.testpmd.expect(f"flow {kind} 0 destroy {name} {number}", "destroyed")


def fits(rule: Rule) -> bool:
    """Whether the rule can be made from a template."""
    def may_differ(item: Item) -> bool:
        of_tunnel = item.kind == "udp" and item is not rule.items[-1]
        return item.kind != "any" and not item.bare_spec and all(
            one.last is None and one.name not in _DECIDING and not (of_tunnel and one.name == "dst")
            for one in item.conditions)

    return len(rule.queues) < 2 and rule.copies is rule.metering is None and len(rule.text) < _LONGEST_RULE and all(
        map(may_differ, rule.items))


@dataclass
class TemplateRules:
    """Tables of one rule each."""

    stack: StackBase
    tables: list[list[str]] = field(default_factory=list)  # for each, the commands that destroy it

    def create(self, rule: Rule) -> str:
        """testpmd's answer, that to the first command refused if there is one."""
        number = len(self.tables)
        matches, actions = rule.text.split(" actions ")
        items = matches.split("pattern ")[1]
        # Queue and mark are each rule's own; modify_field is fixed by the template.
        masks = " / ".join(word if word.startswith("modify_field") else word.split()[0]
                           for word in actions.split(" / "))
        ends: list[str] = []
        self.tables.append(ends)
        for command, name, rest in (
            ("pattern_template", "pattern_template",
             f"ingress pattern_template_id {number} relaxed no template {items}"),
            ("actions_template", "actions_template",
             f"ingress actions_template_id {number} template {actions} mask {masks}"),
            ("template_table", "table",
             f"table_id {number} group {rule.group} priority {rule.priority} ingress rules_number 1"
             f" pattern_template {number} actions_template {number}")):
            answer = self.stack.testpmd.command(f"flow {command} 0 create {rest}")
            if " created" not in answer:
                return answer
            ends.insert(0, f"flow {command} 0 destroy {name} {number}")
        answer = self.stack.testpmd.command(
            f"flow queue 0 create 0 template_table {number} pattern_template 0 actions_template 0"
            f" postpone no pattern {items} actions {actions}")
        while pull(self.stack) > 0:  # testpmd keeps an operation's data until then
            pass
        return answer

    def clear(self) -> None:
        """Called when the rules are gone."""
        for ends in self.tables:
            for command in ends:
                self.stack.testpmd.expect(command, "destroyed")
        self.tables.clear()
