# SPDX-License-Identifier: BSD-3-Clause
"""doc/reliability.md: its table has the rows that tests report, and is filled in as described."""

from pathlib import Path

from rig.reliability import BEGIN, END, ROWS, fill, texts_in
from rig.stack import ROOT

REPORT = """<testsuites><testsuite>
<testcase name="good"><properties><property name="faults:kill" value="1200"/></properties></testcase>
<testcase name="bad"><properties><property name="faults:kill" value="7"/></properties><failure/></testcase>
</testsuite></testsuites>"""


def test_the_document_has_each_row() -> None:
    assert texts_in(ROOT / "doc/reliability.md") == list(ROWS.values())


def test_reports_fill_the_table(tmp_path: Path) -> None:
    document, report = tmp_path / "table.md", tmp_path / "functional.xml"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    report.write_text(REPORT)
    fill(document, [report])
    text = document.read_text()
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"\n{END}\nafter\n") and "old" not in text
    assert f"| {ROWS['kill']} |  | 1,200 |  |" in text
