# SPDX-License-Identifier: BSD-3-Clause
"""A program that creates one verbs object of each kind and inspects them with iproute2's rdma.

Runs alone, on either front: rdma_objects.py DEVICE. Prints {"res show pd": [...], ...} as JSON.
"""
from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr, QPInitAttrEx
from pyverbs.wq import WQ, RwqIndTable, RwqIndTableInitAttr, RxHashConf, WQInitAttr


def rdma(*arguments: str) -> list[Any]:
    done = subprocess.run(["rdma", "-j", "-d", *arguments], capture_output=True, text=True,
                          check=True)
    try:
        listed: list[Any] = json.loads(done.stdout or "[]")
    except json.JSONDecodeError:  # `rdma system` does not support -j
        return done.stdout.split()
    return listed


def main(device: str) -> None:
    context = Context(name=device)
    pd, spare_pd = PD(context), PD(context)
    cq, spare_cq = CQ(context, 100), CQ(context, 10)
    mr = MR(pd, 8192, e.IBV_ACCESS_LOCAL_WRITE)
    init = QPInitAttr(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq,
                      cap=QPCap(max_send_wr=8, max_recv_wr=8))
    qp, idle_qp = QP(pd, init), QP(pd, init)
    qp.to_rts(QPAttr(port_num=1))
    wqs = [WQ(context, WQInitAttr(wq_context=None, wq_pd=pd, wq_cq=cq, max_wr=8, max_sge=1))
           for _ in range(2)]
    table = RwqIndTable(context, RwqIndTableInitAttr(log_ind_tbl_size=1, wqs_list=wqs))
    hashing = RxHashConf(rx_hash_function=1, rx_hash_key_len=40, rx_hash_key=[0] * 40,
                         rx_hash_fields_mask=1)  # Toeplitz over the IPv4 source
    rss_qp = QP(context, QPInitAttrEx(
        qp_type=e.IBV_QPT_RAW_PACKET, pd=pd, ind_table=table, hash_conf=hashing,
        comp_mask=e.IBV_QP_INIT_ATTR_IND_TABLE | e.IBV_QP_INIT_ATTR_RX_HASH
        | e.IBV_QP_INIT_ATTR_PD))
    shown = {" ".join(question): rdma(*question) for question in (
        ["res"],
        *(["res", "show", kind] for kind in ("ctx", "pd", "cq", "mr", "qp", "srq", "cm_id")),
        ["res", "show", "qp", "link", f"{device}/1"],
        ["stat"], ["stat", "qp"], ["dev"], ["link"], ["system"],
    )}
    shown["one QP"] = rdma("res", "show", "qp", "link", f"{device}/1", "lqpn", str(qp.qp_num))
    shown["numbers"] = [qp.qp_num, idle_qp.qp_num, rss_qp.qp_num, mr.lkey]
    print(json.dumps(shown))
    for unused in (rss_qp, table, *wqs, qp, idle_qp, mr, spare_cq, cq, spare_pd, pd, context):
        unused.close()


if __name__ == "__main__":
    main(sys.argv[1])
