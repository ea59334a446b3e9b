# SPDX-License-Identifier: BSD-3-Clause
"""The stock mlx5_core, mlx5_ib and mlx5e on the device: probe, netdev, traffic, removal."""

import re
import time

import pytest
from rig.guest import Guest, GuestPort
from rig.packets import port_mac, udp4
from rig.peer import GUEST_IP, PEER_IP, Peer
from rig.ports import PortSpec
from rig.wire import padded
from scapy.layers.inet import ICMP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

OTHER_MAC = "02:12:34:56:78:9a"


@pytest.fixture(autouse=True)
def _address(guest: Guest, port: GuestPort) -> None:
    guest.run(f"ip addr replace {GUEST_IP}/24 dev {port.netdev} && ip neigh flush all")


def ping(guest: Guest, count: int = 5, size: int = 56, interval: float = 0.05) -> None:
    answer = guest.run(f"ping -n -c {count} -i {interval} -W 10 -s {size} -M do {PEER_IP}")
    assert f"{count} packets transmitted, {count} received, 0% packet loss" in answer


def test_ibv_devinfo(guest: Guest, port: GuestPort) -> None:
    answer = guest.run(["ibv_devinfo", "-v", "-d", port.name])
    for text in ("state:\t\t\tPORT_ACTIVE (4)", "link_layer:\t\tEthernet",
                 "vendor_part_id:\t\t\t4119", "ff:fe00:0001", "phys_port_cnt:\t\t\t1",
                 "RAW_IP_CSUM"):
        assert text in answer, answer
    limits = dict(re.findall(r"^\s*(max_\w+):\s+(\w+)$", answer, re.MULTILINE))
    for name in ("max_qp", "max_cq", "max_cqe", "max_mr", "max_pd", "max_sge"):
        assert int(limits[name]) > 0, answer


def test_the_netdev_is_the_ports(guest: Guest, port: GuestPort) -> None:
    link = guest.run(["ip", "-d", "link", "show", port.netdev])
    assert f"link/ether {port_mac(0)}" in link and "LOWER_UP" in link
    driver = guest.run(["ethtool", "-i", port.netdev])
    assert "driver: mlx5_core" in driver and f"bus-info: {port.pci}" in driver
    assert "Speed: 100000Mb/s" in guest.run(["ethtool", port.netdev])


def test_devlink_shows_the_firmware(guest: Guest, port: GuestPort) -> None:
    """As ethtool does. Firmware that was not flashed cannot be activated, which the kernel finds out without a
    command that fails."""
    device = f"pci/{port.pci}"
    version, = re.findall(r"firmware-version: (\S+)", guest.run(["ethtool", "-i", port.netdev]))
    info = guest.run(["devlink", "dev", "info", device])
    assert info.count(f"fw.version {version}") == 2, info  # running and stored
    activation = guest.try_run(["devlink", "dev", "reload", device, "action", "fw_activate"])
    assert activation.returncode != 0 and "requires reboot" in activation.stderr, activation


def test_lro_is_not_the_netdevs(guest: Guest, port: GuestPort) -> None:
    """The device has LRO; mlx5e uses it only with striding queues set up by UMR, which here changes no
    more than PD and access of a key."""
    features = guest.run(["ethtool", "-k", port.netdev])
    assert "large-receive-offload: off [fixed]" in features, features


def test_the_other_hash_function(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """XOR: the driver arranges its indirection table by it, with commands that the kernel's log names if they fail."""
    def refused_commands() -> int:
        return guest.dmesg().count("mlx5_cmd_out_err")

    before = refused_commands()
    for function in "xor", "toeplitz":
        guest.run(["ethtool", "-X", port.netdev, "hfunc", function])
        assert f"{function}: on" in guest.run(["ethtool", "-x", port.netdev])
        ping(guest, 2)
    assert refused_commands() == before, guest.dmesg_tail()


def test_the_speed_can_be_chosen(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """Any that the port has, which are its own and all lower ones, as on the emulated netdev of the other front."""
    try:
        for speed, rate in ("25000", "25 Gb/sec (1X EDR)"), ("100000", "100 Gb/sec (4X EDR)"):
            guest.run(["ethtool", "-s", port.netdev, "speed", speed, "autoneg", "off"])
            guest.wait_until(f"[ $(cat /sys/class/net/{port.netdev}/carrier) = 1 ]", tries=100)
            settings = guest.run(["ethtool", port.netdev])
            assert f"Speed: {speed}Mb/s" in settings and "Auto-negotiation: off" in settings, settings
            assert guest.run(f"cat /sys/class/infiniband/{port.name}/ports/1/rate").strip() == rate
            ping(guest, 2)
    finally:
        guest.run(["ethtool", "-s", port.netdev, "autoneg", "on"])
    settings = guest.run(["ethtool", port.netdev])
    for mode in ("1000baseKX", "10000baseKR", "25000baseCR", "40000baseCR4", "50000baseCR2", "100000baseCR4"):
        assert settings.count(f"{mode}/Full") == 2, settings  # supported and advertised


def test_the_longest_frames(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """As on a ConnectX, and on the other front."""
    try:
        guest.run(["ip", "link", "set", port.netdev, "mtu", "9978"])
        assert guest.try_run(["ip", "link", "set", port.netdev, "mtu", "9979"]).returncode != 0
        ping(guest, 2, 9978 - 28)
    finally:
        guest.run(["ip", "link", "set", port.netdev, "mtu", "1500"])


def test_ping(guest: Guest, peer: Peer) -> None:
    ping(guest, 20)
    assert peer.echoes == 20


@pytest.mark.parametrize("size", [0, 1, 100, 511, 1472])
def test_ping_of_every_size(guest: Guest, peer: Peer, size: int) -> None:
    ping(guest, 2, size)


def test_jumbo_frames(guest: Guest, port: GuestPort, peer: Peer) -> None:
    guest.run(["ip", "link", "set", port.netdev, "mtu", "9000"])
    try:
        ping(guest, 3, 8900)
    finally:
        guest.run(["ip", "link", "set", port.netdev, "mtu", "1500"])
    ping(guest, 2)


def test_a_vlan_interface(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """The device inserts and strips tags where the driver requests it."""
    guest.run(f"ip addr flush dev {port.netdev} && "
              f"ip link add link {port.netdev} name tagged type vlan id 77 && "
              f"ip addr add {GUEST_IP}/24 dev tagged && ip link set tagged up")
    try:
        ping(guest, 3)
        assert peer.echoes == 3
    finally:
        guest.run("ip link del tagged")


def test_an_802_1ad_interface(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """The device inserts this kind of tag, too, where Linux requests it (tx-vlan-stag-hw-insert)."""
    guest.run(f"ip link add link {port.netdev} name service type vlan proto 802.1ad id 77 && "
              f"ip addr add 10.77.0.1/24 dev service && ip link set service up && "
              f"ip neigh add 10.77.0.2 lladdr {peer.mac} dev service")
    try:
        guest.try_run("ping -n -c 1 -W 1 10.77.0.2")  # nobody answers
        sent = peer.receive(lambda packet: ICMP in packet)
        assert sent.type == 0x88a8 and sent.payload.vlan == 77, sent.show(dump=True)
    finally:
        guest.run("ip link del service")


def test_vxlan_on_linuxs_port(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """The driver tells the device about the port (8472), and then leaves inner checksums to it."""
    def inner_checksums() -> int:
        statistics = guest.run(["ethtool", "-S", port.netdev])
        return sum(int(count) for count in re.findall(r"^ *tx_csum_partial_inner: (\d+)", statistics, re.M))

    guest.run(f"ip link add tunnel type vxlan id 5 remote {PEER_IP} dev {port.netdev} && "
              "ip addr add 10.78.0.1/24 dev tunnel && ip link set tunnel up && "
              f"ip neigh add 10.78.0.2 lladdr {peer.mac} dev tunnel")
    try:
        before = inner_checksums()
        guest.run(["bash", "-c", "echo inside > /dev/udp/10.78.0.2/9"])
        sent = peer.receive(lambda packet: UDP in packet and packet[UDP].dport == 8472
                            and packet[UDP].payload.haslayer(Raw))
        inner = VXLAN(bytes(sent[UDP].payload)).payload
        checked = Ether(bytes(inner))
        del checked[UDP].chksum
        assert bytes(Ether(bytes(checked))) == bytes(inner), inner.show(dump=True)
        assert inner[UDP].dport == 9 and inner_checksums() == before + 1
    finally:
        guest.run("ip link del tunnel")


def test_another_mac_address(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """The old address no longer receives, the new one does."""
    guest.run(f"ip link set {port.netdev} address {OTHER_MAC}")
    try:
        ping(guest, 2)
        for mac in (port_mac(0), OTHER_MAC):
            request = ARP(op=1, hwsrc=peer.mac, psrc=PEER_IP, pdst=GUEST_IP)
            peer.wire.send(Ether(src=peer.mac, dst=mac) / request)
        reply = peer.receive(lambda packet: ARP in packet and packet[ARP].op == 2)
        assert reply[ARP].hwsrc == OTHER_MAC
    finally:
        guest.run(f"ip link set {port.netdev} address {port_mac(0)}")
    ping(guest, 2)


def test_checksums_are_checked_by_the_device(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """The kernel drops packets with wrong ones; for right ones it does not read the data."""
    ping(guest, 1)

    def no_listener() -> bool:
        packet = peer.receive(lambda packet: ICMP in packet)
        return bool(packet[ICMP].type == 3)

    good = udp4(b"x" * 100, dport=999, source_ip=PEER_IP, destination_ip=GUEST_IP)
    peer.wire.send(good)
    assert no_listener()
    bad = good.copy()
    bad[UDP].chksum = 0x1234
    before = int(guest.run("nstat -az UdpInCsumErrors | awk '/Udp/ {print $2}'"))
    peer.wire.send(bad)
    ping(guest, 1)  # sent after it, so it has been processed
    assert int(guest.run("nstat -az UdpInCsumErrors | awk '/Udp/ {print $2}'")) == before + 1
    statistics = guest.run(["ethtool", "-S", port.netdev])
    seen = re.findall(r"rx_csum_(complete|unnecessary): (\d+)", statistics)
    assert sum(int(count) for _, count in seen) > 0, statistics


def port_statistics(guest: Guest, port: GuestPort) -> dict[str, int]:
    """The counters that mlx5e reads from all groups of the port counter register."""
    text = guest.run(["ethtool", "-S", port.netdev])
    return {name: int(value) for name, value in re.findall(r"(\w+(?:_phy|_prio\d_\w+)): (\d+)", text)}


def test_the_port_counts_what_it_was_sent(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """Nobody else sends to it, and the kernel ignores these frames."""
    before = port_statistics(guest, port)
    sent = {port_mac(0): 7, "01:00:5e:00:00:01": 3, "ff:ff:ff:ff:ff:ff": 2}
    frame_bytes = 0
    for mac, count in sent.items():
        frame = bytes(Ether(src=peer.mac, dst=mac, type=0x88b5) / (b"x" * 186))
        frame_bytes += count * len(frame)
        peer.wire.send_all([frame] * count)
    total = sum(sent.values())
    deadline = time.monotonic() + 20
    while (now := port_statistics(guest, port))["rx_packets_phy"] < before["rx_packets_phy"] + total:
        assert time.monotonic() < deadline, now
    more = {name: value - before[name] for name, value in now.items()}
    received = {name: value for name, value in more.items() if name.startswith("rx_") and value}
    assert received == {"rx_packets_phy": total, "rx_bytes_phy": frame_bytes,
                        "rx_128_to_255_bytes_phy": total,
                        "rx_multicast_phy": 3, "rx_broadcast_phy": 2,
                        "rx_prio0_packets": total, "rx_prio0_bytes": frame_bytes}
    assert more["tx_prio0_packets"] == more["tx_packets_phy"]
    assert more["tx_prio0_bytes"] == more["tx_bytes_phy"]


def test_the_port_counts_by_priority_and_size(guest: Guest, port: GuestPort, peer: Peer) -> None:
    before = port_statistics(guest, port)
    sent = {3: (60, 4), 5: (1514, 2), 7: (1515, 3)}  # priority: length, count
    for priority, (length, count) in sent.items():
        frame = bytes(Ether(src=peer.mac, dst=port_mac(0)) / Dot1Q(prio=priority, vlan=9, type=0x88b5))
        peer.wire.send_all([frame.ljust(length, b"x")] * count)
    deadline = time.monotonic() + 20
    while (now := port_statistics(guest, port))["rx_packets_phy"] < before["rx_packets_phy"] + 9:
        assert time.monotonic() < deadline, now
    more = {name: value - before[name] for name, value in now.items()}
    for priority, (length, count) in sent.items():
        assert more[f"rx_prio{priority}_packets"] == count, more
        assert more[f"rx_prio{priority}_bytes"] == count * length, more
    assert more["rx_prio0_packets"] == 0, more
    assert (more["rx_64_bytes_phy"], more["rx_1024_to_1518_bytes_phy"],
            more["rx_1519_to_2047_bytes_phy"]) == (4, 2, 3), more


def test_the_module_is_a_copper_cable(guest: Guest, port: GuestPort) -> None:
    module = guest.run(["ethtool", "-m", port.netdev])
    assert "QSFP28" in module and "softhca" in module and "100G-CR4" in module, module
    assert port_mac(0).replace(":", "") in module, module  # the serial number, as on the other front


@pytest.mark.parametrize(("speed", "rate", "form", "module"), [
    ("1G", "2.5 Gb/sec (1X SDR)", "SFP", "1G-CX"),
    ("400G", "400 Gb/sec (4X NDR)", "QSFP28", "400G-CR4")])
def test_the_module_is_that_of_the_speed(guest: Guest, port: GuestPort, speed: str, rate: str,
                                         form: str, module: str) -> None:
    other = guest.plug(1, PortSpec(options={"speed": speed}), "loop")
    try:
        other.wait_until_ready()
        link = guest.run(["ethtool", other.netdev])
        assert f"Speed: {speed.replace('G', '000')}Mb/s" in link, link
        assert guest.run(f"cat /sys/class/infiniband/{other.name}/ports/1/rate").strip() == rate
        memory = guest.run(["ethtool", "-m", other.netdev])
        for text in (form, module, port_mac(1).replace(":", "")):
            assert text in memory, memory
    finally:
        other.unplug()


def test_other_numbers_of_channels_and_descriptors(guest: Guest, port: GuestPort,
                                                   peer: Peer) -> None:
    """Queues are re-created while the interface is up."""
    for rx, tx in ((128, 128), (4096, 1024), (1024, 1024)):
        guest.run(["ethtool", "-G", port.netdev, "rx", str(rx), "tx", str(tx)])
        ping(guest, 2)


def test_a_burst_in_each_direction(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """More than a ring holds, without loss: the wire waits for the kernel."""
    answer = guest.run(f"ping -n -q -f -c 3000 -s 1000 -W 20 {PEER_IP}", timeout=120)
    assert "3000 packets transmitted, 3000 received, 0% packet loss" in answer


def test_link_down_and_up(guest: Guest, port: GuestPort, peer: Peer) -> None:
    carrier = f"/sys/class/net/{port.netdev}/carrier"
    downs = port_statistics(guest, port)["link_down_events_phy"]
    for up in (False, True):
        port.set_link(up)
        guest.wait_until(f"[ $(cat {carrier}) = {int(up)} ]", tries=100)
        assert ("No cable" in guest.run(["ethtool", port.netdev])) is not up
    ping(guest, 2)
    assert port_statistics(guest, port)["link_down_events_phy"] == downs + 1


def test_interfaces_go_down_and_up(guest: Guest, port: GuestPort, peer: Peer) -> None:
    for _ in range(3):
        guest.run(f"ip link set {port.netdev} down && ip link set {port.netdev} up")
        ping(guest, 2)


def test_the_drivers_go_and_come_back(guest: Guest, port: GuestPort, peer: Peer) -> None:
    for _ in range(2):
        guest.unload_drivers()
        assert guest.run("ls /sys/class/net").split() == ["lo"]
        assert guest.try_run("ls /sys/class/infiniband").stdout == ""
        guest.load_drivers()
        port.wait_until_ready()
        guest.run(f"ip addr replace {GUEST_IP}/24 dev {port.netdev}")
        ping(guest, 2)


def test_tc_sends_back_by_hairpin_queues(guest: Guest, port: GuestPort, peer: Peer) -> None:
    """A tc rule that redirects to the port itself: mlx5e creates hairpin queues for it, and the kernel does not see
    their packets."""
    guest.run(f"ethtool -K {port.netdev} hw-tc-offload on && tc qdisc add dev {port.netdev} ingress")
    try:
        guest.run(f"tc filter add dev {port.netdev} ingress protocol ip flower skip_sw ip_proto udp"
                  f" dst_port 7 action mirred egress redirect dev {port.netdev}")
        frame = udp4(dport=7)
        for _ in range(3):
            peer.wire.send(frame)
            returned = peer.receive(lambda packet: UDP in packet and packet[UDP].dport == 7)
            assert bytes(returned) == padded(frame)
        assert "in_hw" in guest.run(f"tc -s filter show dev {port.netdev} ingress")
    finally:
        guest.run(f"tc qdisc del dev {port.netdev} ingress")
    ping(guest, 2)


def test_tagged_frames_of_others_are_not_ours(guest: Guest, peer: Peer) -> None:
    ping(guest, 1)
    request = ARP(op=1, hwsrc=peer.mac, psrc=PEER_IP, pdst=GUEST_IP)
    peer.wire.send(Ether(src=peer.mac, dst="ff:ff:ff:ff:ff:ff") / Dot1Q(vlan=55) / request)
    peer.wire.send(Ether(src=peer.mac, dst="ff:ff:ff:ff:ff:ff") / request)
    reply = peer.receive(lambda packet: ARP in packet and packet[ARP].op == 2)
    assert Dot1Q not in reply
