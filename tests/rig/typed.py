# SPDX-License-Identifier: BSD-3-Clause
"""Finds commands typed to testpmd, and its prompt, on its screen."""

import re
from functools import lru_cache
from typing import NamedTuple

# testpmd writes these character by character; between any two, another thread can log a line. An event of a port
# begins with an end of line that is written apart: what is typed can also be between that and the event.
_EVENT = r"Port \d+: .* event\n"
_LOGGED = rf"(?:(?:net_rawqp|mlx5_net|EAL): .*\n|{_EVENT}|\n(?=.*{_EVENT}))"
_LOG = re.compile(_LOGGED)
_LOOKED_FOR = len("testpmd> ")  # by a regular expression; commands begin with a few different words


class Span(NamedTuple):
    start: int
    end: int


def find_typed(text: str, screen: str, since: int = 0) -> Span | None:
    """The first place of `text` after `since`, with or without log lines in it. (A regular expression for the
    whole text takes longer to compile than most commands to run.)"""
    begins = _pattern(text[:_LOOKED_FOR])
    while begin := begins.search(screen, since):
        if end := _end_of(text[_LOOKED_FOR:], screen, begin.end()):
            return Span(begin.start(), end)
        since = begin.start() + 1
    return None


@lru_cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(f"(?:{_LOGGED})*".join(map(re.escape, text)))


def _end_of(text: str, screen: str, position: int) -> int:
    """The end of `text` if it continues at `position`; 0 if it does not, or not completely."""
    for character in text:
        places = [position]
        while logged := _LOG.match(screen, places[-1]):
            places.append(logged.end())
        # An answer can also begin like a log line, so take the last possible place.
        at = next((at for at in reversed(places) if screen.startswith(character, at)), -1)
        if at < 0:
            return 0
        position = at + 1
    return position
