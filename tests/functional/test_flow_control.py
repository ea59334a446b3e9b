# SPDX-License-Identifier: BSD-3-Clause
"""Flow control by testpmd's commands; tests/functional/ethdev/flow_control_test.cpp has the rest. Not in the guest,
whose kernel sets it only for functions that manage vports."""

import re

from rig.stack import PortSpec

from functional.conftest import StartStack


def test_what_testpmd_passes(start_stack: StartStack, datapath: str) -> None:
    """In the short form it passes what the port reports, and in the long one its operands."""
    testpmd = start_stack([PortSpec(options={"pause": "on"})] * 2, datapath=datapath).testpmd

    def directions() -> list[str]:
        return re.findall("[RT]x pause: (on|off)", testpmd.command("show port 0 flow_ctrl"))

    long_form = "set flow_ctrl rx {0} tx {0} {1} 0 0 {2} mac_ctrl_frame_fwd off autoneg off 0"
    assert directions() == ["on", "on"]
    testpmd.silent("set flow_ctrl rx on 0", long_form.format("off", 0, 0))
    assert directions() == ["off", "off"]
    for high_water, send_xon, reason in (64, 0, "its own water marks"), (0, 1, "when to send XON"):
        refusal = testpmd.command(long_form.format("on", high_water, send_xon))
        assert reason in refusal and "return code = -95" in refusal
        assert directions() == ["off", "off"]
    testpmd.silent(long_form.format("on", 0, 0))
    assert directions() == ["on", "on"]
