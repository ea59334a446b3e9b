# SPDX-License-Identifier: BSD-3-Clause
"""Device arguments of DPDK's own net_mlx5: with each, its ports start and forward, or it reports the reason."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rig.packets import numbered
from rig.ports import lossless

from functional.conftest import StartStack

# Compatible arguments are combined, as each stack takes its time.
ARGUMENTS = {
    "plain queues": "rxq_cqe_comp_en=0,rx_vec_en=0,txq_mpw_en=0,sq_db_nc=0",
    "inlined": "rxq_cqe_comp_en=1,txq_mpw_en=1,txq_inline_max=256,txq_inline_mpw=128,txqs_min_inline=1,sq_db_nc=1",
    "least inlined": "rxq_cqe_comp_en=3,txq_inline_min=18,rxq_pkt_pad_en=1,sq_db_nc=2",
    "striding": "mprq_en=1,rxqs_min_mprq=1,mprq_log_stride_num=6,mprq_log_stride_size=11,"
                "mprq_max_memcpy_len=0,rxq_cqe_comp_en=3",
    "rules": "l3_vxlan_en=1,decap_en=0,allow_duplicate_pattern=0,reclaim_mem_mode=1,lacp_by_user=1,vf_nl_en=0,"
             "dv_esw_en=0,repr_matching_en=0,fdb_def_rule_en=0,dv_xmeta_en=3",
    "memory": "mr_ext_memseg_en=0,mr_mempool_reg_en=0,sys_mem_en=1,reclaim_mem_mode=2,max_dump_files_num=1",
    "special queues": "hp_buf_log_sz=11,delay_drop=1,lro_timeout_usec=32,tx_skew=100",
    "hairpin queues wait": "delay_drop=2",
    "all queues wait": "delay_drop=3",
    "deprecated": "txq_inline=128,txqs_max_vec=2,txq_mpw_hdr_dseg_en=1,txq_max_inline_len=64,tx_vec_en=1,tx_db_nc=1",
    "counter service": "service_core=0,svc_cycle_time=100",  # for dv_flow_en=2
    "no switch": "representor=[0]",  # there are no representors
}
# The messages of net_mlx5, as on other NICs that lack the feature, without which it continues.
GOES_WITHOUT = {
    "rxq_cqe_comp_en=2": "Flow Tag CQE compression format isn't supported",
    "rxq_cqe_comp_en=4": "L3/L4 Header CQE compression format isn't supported",
    "dv_xmeta_en=1": r"Metadata mode 1 is not supported \(no E-Switch\)",
    "dv_xmeta_en=2": r"Metadata mode 2 is not supported \(no E-Switch\)",
    "dv_xmeta_en=4": r"Metadata mode 4 is not supported \(no E-Switch\)",
}
# net_mlx5 creates no port with these.
REFUSED = {
    "tx_pp=1000": "Packet pacing is not supported",
    # From a process that has the device open: here there is none.
    "cmd_fd=1000": "Remote CTX without PD is not supported",
    "cmd_fd=1000,pd_handle=0": "Failed to import device for fd=1000",
}
ELSEWHERE = {
    "driver": "EAL's own",
    "class": "test_vdpa.py",
    "dv_flow_en": "test_uverbs.py, flow/test_flow_stock.py",
}


def forwards(start_stack: StartStack, devargs: str) -> str:
    """Forwards packets; returns testpmd's output."""
    stack = start_stack(lossless(1), pmd="mlx5", pmd_devargs=devargs, memory_mb=512)
    stack.testpmd.start("io", lossless=True)
    stack.wires[0].transfer(numbered(500), to=stack.wires[0])
    return stack.program.output


# delay_drop=3 is 1 and 2, and 1 is among the special queues. Modes of metadata are refused alike.
ONLY_IN_FULL = {"hairpin queues wait", "dv_xmeta_en=2", "dv_xmeta_en=4"}


@pytest.mark.daily(when=lambda params: params["name"] not in ONLY_IN_FULL)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_forwards(start_stack: StartStack, name: str) -> None:
    forwards(start_stack, ARGUMENTS[name])


@pytest.mark.daily(when=lambda params: params["devargs"] not in ONLY_IN_FULL)
@pytest.mark.parametrize("devargs", GOES_WITHOUT)
def test_goes_without(start_stack: StartStack, devargs: str) -> None:
    said = forwards(start_stack, devargs)
    assert re.search(GOES_WITHOUT[devargs], said), said


@pytest.mark.parametrize("devargs", REFUSED)
def test_is_refused(start_stack: StartStack, devargs: str) -> None:
    testpmd = start_stack(lossless(1), pmd="mlx5", pmd_devargs=devargs).testpmd
    assert re.search(REFUSED[devargs], testpmd.startup), testpmd.startup
    testpmd.expect("show port summary all", "Number of available ports: 0")


def arguments_of(library: str, one: str) -> set[str]:
    """The names of the arguments in a library that testpmd loads: strings beside each other, this one among them."""
    testpmd = shutil.which("dpdk-testpmd") or "dpdk-testpmd"
    linked = subprocess.run(["ldd", testpmd], check=True, capture_output=True, text=True).stdout
    path = re.search(rf"=> (/\S+/{library}\.\S+)", linked)
    assert path, linked
    name = rb"[a-z][a-z0-9_]+\0"
    found = re.search(rb"(?<=\0)(?:%b)*%b\0(?:%b)*" % (name, one.encode(), name), Path(path[1]).read_bytes())
    assert found, path[1]
    return set(found[0].decode().rstrip("\0").split("\0"))


def test_none_is_left_out() -> None:
    tested = {name for texts in (ARGUMENTS.values(), GOES_WITHOUT, REFUSED)
              for text in texts for name in re.findall(r"(\w+)=", text)}
    known = arguments_of("librte_net_mlx5", "mprq_en") | arguments_of("librte_common_mlx5", "sys_mem_en")
    assert known == tested | ELSEWHERE.keys()
