# SPDX-License-Identifier: BSD-3-Clause
"""perftest's raw Ethernet programs, with each option that affects them; the others are in NOT_FOR_RAW.

Failing runs are included, with their message and whose fault it is; if one passes, that is noticed. All runs are
made on each front whose wire connects two programs (not `pair`, both ends of which are in one process), except
those that fail because of perftest itself: for these, one front is enough.
"""

from dataclasses import dataclass

GUEST = "guest"  # two PCI functions, cabled by `link`
FRONTS = ("link", "socket", "tap", GUEST)

WHY = {
    "perftest": "Fails on any NIC because of perftest itself (4.5).",
    "kernel": "The kernel's mlx5 driver refuses it on any NIC.",
    "units": "Needs a unit that some NICs have and this one does not; its capabilities do not claim it.",
}

IPV4 = "-J 10.0.0.2 -j 10.0.0.1 -K 2000 -k 1000"
IPV6 = "-s 128 --raw_ipv6 -J fd00::2 -j fd00::1 -K 2000 -k 1000"
PACED = "--rate_limit=10 --rate_units=M --rate_limit_type=PP"


@dataclass(frozen=True)
class Run:
    program: str  # without raw_ethernet_
    options: str
    server: str | None = None  # the server's options, if they differ
    client_first: bool = False  # the client receives
    said: str = ""  # a regular expression for the output, if it fails
    why: str = ""  # if it fails: key of WHY
    note: str = ""  # if it fails: the details
    daily: bool = False

    @property
    def name(self) -> str:
        return f"{self.program} {self.options}".strip()

    def is_run(self, front: str) -> bool:
        return self.why != "perftest" or front == FRONTS[0]

    def is_daily(self, front: str) -> bool:
        return self.daily and front == FRONTS[0]


def runs(program: str, *options: str, daily: bool = False) -> list[Run]:
    return [Run(program, each, daily=daily) for each in options]


def fails(program: str, options: str, why: str, said: str, note: str) -> Run:
    return Run(program, options, said=said, why=why, note=note)


HANGS = "did not end within"
GIVES_UP = "Did not get Message for 120 Seconds"  # where our timeout is longer than perftest's

RUNS = [
    *runs("bw", "", "-s 1500", IPV4, IPV6, "--vlan_en", "-l 16 -n 1600", PACED, daily=True),
    *runs("bw", "-b", "-D 1 -f 0", "-I 64", "--recv_post_list=16 -n 1600", "-N", "-q 2", "-Q 50", "-Q 1",
          "-r 1024", "-t 256", "-w 0.001", "-y 0.001", "--force-link=Ethernet", "--inline_recv=32",
          "--mr_per_qp", "--use_old_post_send", "-b --report-both", "--report_gbits", "--use_hugepages",
          "--wait_destroy=1", "--disable_pcie_relaxed", "--rate_limit=1 --rate_limit_type=SW",
          f"{PACED} --burst_size=4 --typical_pkt_size=64", f"{IPV4} --tcp", f"{IPV6} --tcp",
          "--vlan_en --vlan_pcp=3", "--vlan_en --vlan_pcp=8", f"{IPV4} --flows=4 -n 1600",
          f"{IPV4} --flows=4 --flows_burst=2 -n 1600", "--promiscuous", "--sniffer", "-m 1500",
          f"{IPV4} -L 10", f"{IPV4} -T 4", "-u 14", "-F", "-p 18600", "-i 1", "-D 1 -f 0 --cpu_util",
          "--perform_warm_up", "--tclass=3"),
    *runs("bw", "--out_json --out_json_file=/dev/null"),
    # Forwards what it receives. It refills its receive queue too late for more packets than the queue holds.
    Run("bw", "-v -n 500", server="--reversed -n 500", client_first=True),
    Run("bw", "--output=bandwidth", server=""),
    Run("bw", "--output=message_rate", server=""),
    Run("bw", "--reversed", client_first=True),
    fails("bw", "-W counters/port_xmit_data", "perftest", HANGS,
          "opens the counters only in tests with a handshake, and reads standard input instead"),
    fails("bw", "-e", "perftest", HANGS, "never asks the CQ for an event"),
    fails("bw", "-Y 0x88b5", "perftest", "Parser function exited with Error", "does not recognize its own option"),
    fails("bw", "-G -q 2", "perftest", "Parser function exited with Error", "built without RSS"),
    fails("bw", f"{IPV6} --flow_label=5", "perftest", HANGS,
          "its rule matches the flow label, which its packets do not have"),
    fails("bw", "--rate_limit=10 --rate_limit_type=HW", "perftest",
          "The QP failed to accept HW rate limit", "accepts it on InfiniBand only"),
    fails("bw", "--raw_mcast", "kernel", f"{HANGS}|{GIVES_UP}", "multicast groups (`ibv_attach_mcast`) are for UD QPs"),
    fails("bw", "-S 1", "kernel", "Failed to modify QP .* to RTR", "a RAW_PACKET QP has no address vector"),
    fails("bw", "--use-srq", "units", "Couldn't create SRQ", "no shared receive queues"),
    fails("bw", "--odp", "units", "failed to create mr", "no on-demand paging"),

    *runs("lat", "", IPV4, daily=True),
    *runs("lat", "-H", "-U", "-C", "-I 64", "-D 1 -f 0", "--latency_gap=10", "--reply_every=2", IPV6,
          f"{IPV4} --tcp", "--vlan_en", "--promiscuous", "-r 64", "--use_old_post_send",
          "--inline_recv=32", "--use_hugepages", "-m 1500", "--perform_warm_up", "--sniffer"),
    Run("lat", "--output=latency", server=""),
    fails("lat", "-e", "perftest", HANGS, "never asks the CQ for an event"),

    Run("burst_lat", "", said="SW Rate limiter cann't be executed on non-BW", why="perftest",
        note="turns on the rate limiter, then refuses it in this program", daily=True),

    *runs("fs_rate", "", IPV4, daily=True),
    *runs("fs_rate", "-H", "-U", f"{IPV4} --tcp", IPV6, "--vlan_en", "-n 100", "-D 1"),
]

IN_EACH_RUN = ("--ib-dev", "--source_mac", "--dest_mac", "--server", "--client")
# Options of the other programs that share perftest's parser, and those that show no result.
NOT_FOR_RAW = {
    "--help": "prints the options",
    "--version": "prints the version",
    "--run_infinitely": "never ends; what it runs is that of -D",
    "--mcg": "for a UD QP",
    "--MGID": "the group of --mcg",
    "--dlid": "an InfiniBand address, which raw Ethernet ignores",
    "--pkey_index": "an InfiniBand partition, which raw Ethernet ignores",
    # Accepted, but not in the help of these programs.
    "--all": "\"Raw Ethernet tests do not support -a / --all flag\"",
    "--mmap": "\"mmaped files aren't supported for Raw Ethernet tests\"",
    "--dualport": "runs on ports 1 and 2 of a device, and a device of mlx5 has one",
    "--report-per-port": "for --dualport only",
}
