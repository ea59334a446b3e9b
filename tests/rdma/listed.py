# SPDX-License-Identifier: BSD-3-Clause
"""Cases of rdma-core's own tests that do not pass, and why. All others must pass, on the uverbs front with each
wire, and in a guest.

The list is checked both ways: a listed case that ends differently is a failure, even if it passes, and so is an
entry that no case needs. The list is for rdma-core 44.
"""

import re
from dataclasses import dataclass

WIRES = ("loop", "link", "pair", "socket", "tap", "pcap", "gen", "sink")
GUEST, GUEST_WIRE = "guest", "sink"
WHOLE = (GUEST, *WIRES)  # these run all cases; those of software steering with entries of format 0
FORMAT_1, FORMAT_1_WIRE = "format1", "socket"
GUEST_FORMAT_1 = "guest-format1"
FRONTS = (*WIRES, FORMAT_1, GUEST, GUEST_FORMAT_1)

WHY = {
    "transports": "Verbs can create queue pairs of type RAW_PACKET only, and the port has no RoCE, hence no GID. "
                  "There is no RC, UC, UD, XRC or DC, nor anything that tests show with such traffic (memory "
                  "windows, ODP, tag matching, the connection manager …). Most tests look for a GID; those "
                  "that do not, and create such a QP, get an error.",
    "units": "For units that some NICs have and this one does not; its capabilities do not claim them.",
    "others": "For other kinds of hardware: EFA, a GPU, a function assigned to VFIO.",
    "switch": "For the manager of an embedded switch (switchdev), which this NIC does not have.",
    "steering": "Software steering (`mlx5dv_dr`) uses format 0 by default, that of ConnectX-5. Setting the size of "
                "a matcher needs definers, which only format 1 has.",
    "plug": "As with a real NIC, the result depends on the other end of the cable: a loopback plug sends every "
            "outgoing packet back into the port, where it is counted again; a generator's frames match a rule "
            "that takes everything.",
}

NO_GID = "^(No relevant GID found|Not supported without GID table)$"
NO_QP = r"Failed to create QP\. Errno: 22, Invalid argument$"


@dataclass(frozen=True)
class Listed:
    """Cases that do not pass."""

    cases: str  # a regular expression for the whole of MODULE.CLASS.CASE
    ended: str  # "skipped" or "failed"
    said: str  # a regular expression found in the reason
    why: str  # key of WHY
    fronts: tuple[str, ...] = (FORMAT_1, GUEST_FORMAT_1, *WHOLE)
    may_pass: str = ""  # where or when they pass nevertheless

    def is_for(self, front: str, case: str) -> bool:
        return front in self.fronts and re.fullmatch(self.cases, case) is not None


def skipped(why: str, said: str, *cases: str) -> Listed:
    return Listed("|".join(cases), "skipped", said, why)


LIST = (
    skipped("transports", NO_GID,
            r"test_addr\.AHTest\.test_(create|destroy)_ah",
            r"test_cq\.CQTest\..*", r"test_cq_events\..*", r"test_cqex\.CqExTestCase\..*",
            r"test_mlx5_(cq|dc|devx|dma_memcpy|mkey|raw_wqe|udp_sport)\..*",
            r"test_mlx5_lag_affinity\..*_(rc|ud)_.*",
            r"test_mlx5_sched\.Mlx5SchedTrafficTest\..*",
            r"test_mlx5_timestamp\..*_rc_traffic",
            r"test_mr\.(DmaBufTestCase|MWTest)\.(?!test_reg_mw_wrong_type).*",
            r"test_mr\.MRTest\.test_mr_rereg_.*",
            r"test_(odp|qpex|relaxed_ordering|shared_pd|tag_matching)\..*",
            r"test_parent_domain\.ParentDomainTrafficTest\..*"),
    skipped("transports", "^All gid indices populated, cannot check bad flow$",
            r"test_device\.DeviceTest\.test_query_gid_ex_bad_flow"),
    skipped("transports", "^Device mlx5_0 doesn't have net interface$",
            r"test_rdmacm\..*", r"test_mlx5_rdmacm\.Mlx5CMTestCase\..*"),
    Listed(r"test_qp\.QPTest\.test_(create|query|modify)_(rc|uc|ud)_qp.*"
           r"|test_qp\.QPTest\.test_query_data_in_order",
           "failed", NO_QP, "transports"),
    Listed(r"test_mlx5_huge_page\..*\.test_prefer_obj_on_huge", "failed", NO_QP, "transports"),
    Listed(r"test_mlx5_huge_page\..*\.test_obj_on_huge", "failed", NO_QP, "transports",
           may_pass="where the machine has no hugepages, which the test takes to be the cause"),
    skipped("units", "^Atomic operations are not supported$", r"test_atomic\..*"),
    skipped("units", "^Device memory is not supported$",
            r"test_device\.(Shared)?DMTest\..*", r"test_mr\.DeviceMemory.*"),
    skipped("units", "^MEMIC atomic operations are not supported$", r"test_mlx5_dm_ops\..*"),
    skipped("units", "^Create memory window of type 3 is not supported$",
            r"test_mr\.MWTest\.test_reg_mw_wrong_type"),
    skipped("units", "^Crypto login details must be supplied ", r"test_mlx5_crypto\..*"),
    skipped("units", "^Create schedule elements is not supported$",
            r"test_mlx5_sched\.Mlx5SchedTest\..*"),
    skipped("units", "^Set LAG affinity is not supported on this device$",
            r"test_mlx5_lag_affinity\..*\.test_raw_modify_lag_port"),
    skipped("units", "^Alloc reserved QP number is not supported$",
            r"test_mlx5_rdmacm\.ReservedQPTest\..*"),
    skipped("others", "^Can not run the test over non EFA device$", r"test_efa(dv|_srd)\..*"),
    skipped("others", "^cuda-python 12.0. must be installed to run CUDA tests$",
            r"test_(cuda_dmabuf|mlx5_cuda_umem)\..*"),
    skipped("others", "^Allocating dmabuf is not supported by ", r"test_mr\.DmaBufMRTest\..*"),
    skipped("others", "^PCI device must be passed by the user$", r"test_mlx5_vfio\..*"),
    skipped("switch", "^Device mlx5_0 must be in switchdev mode$",
            r"test_mlx5_dr\.Mlx5DrTest\.test_dest_(ib_port|vport)"),
    Listed(r"test_mlx5_dr\.Mlx5DrTest\.test_set_matcher_layout", "skipped",
           r"^Operation not supported \(Setting matcher layout failed.* Errno: 95,", "steering", fronts=WHOLE),
    Listed(r"test_mlx5_dr\.Mlx5DrTest\.test_root_tbl_drop_action", "failed",
           "^AssertionError: 10 != 5 : Drop action dropped TX packets", "plug", fronts=("loop",)),
    Listed(r"test_mlx5_dr\.Mlx5DrTest\.test_tbl_counter_action", "failed",
           "^AssertionError: 20 != 10 : Counter missed some recv packets", "plug", fronts=("loop",)),
    Listed(r"test_mlx5_dr\.Mlx5DrTest\.test_flow_sampler", "failed",
           "^AssertionError: False is not true : Expected sampled packets 250 is more than 20.0%", "plug",
           fronts=("loop",)),
    Listed(r"test_mlx5_flow\.Mlx5MatcherTest\.test_tx_packet_reformat", "failed",
           "Error: Data validation failure:$", "plug", fronts=("gen",),
           may_pass="if it ends before the generator starts"),
)


def listed(front: str, case: str) -> Listed | None:
    found = [entry for entry in LIST if entry.is_for(front, case)]
    assert len(found) <= 1, f"{case} is on the list more than once"
    return found[0] if found else None


def is_run(front: str, case: str) -> bool:
    return front in WHOLE or case.startswith("test_mlx5_dr.")
