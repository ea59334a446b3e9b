# SPDX-License-Identifier: BSD-3-Clause
"""`uverbs-test`, a libibverbs program (tests/functional/uverbs) that runs on both fronts."""

from pathlib import Path

SUITES = [
    "ContextTest",
    "CountersTest",
    "DescriptorTest",
    "DestroyTest",
    "DevxFlowTest",
    "DevxMeterTest",
    "DevxPacingTest",
    "DevxQueueTest",
    "DevxRightsTest",
    "DevxTest",
    "EventsTest",
    "FlowDvTest",
    "FlowTest",
    "HostileTest",
    "ImportTest",
    "LimitsTest",
    "LoopbackTest",
    "NetdevTest",
    "ProcessTest",
    "QpTest",
    "RateLimitTest",
    "RefusedTest",
    "ReregTest",
    "ResizeTest",
    "RightsTest",
    "RingTest",
    "RssTest",
    "UnmappedTest",
    "VerbsTest",
    "WriteTest",
]


def verbs_program(build_folder: Path) -> Path:
    return build_folder / "tests/functional/uverbs/uverbs-test"


def names_of(listing: str) -> list[str]:
    """SUITE.TEST of each test, from the output of --gtest_list_tests."""
    names, suite = [], ""
    for line in listing.splitlines():
        if line.startswith("  "):
            names.append(suite + line.split()[0])
        elif line.split("#")[0].strip().endswith("."):
            suite = line.split()[0]
    return names
