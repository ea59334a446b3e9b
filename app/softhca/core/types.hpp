// SPDX-License-Identifier: BSD-3-Clause
// The vocabulary between the device core and its fronts: object attributes, statuses, events.
// A front (uverbs, PCI) translates its ABI into these and calls Device; the core knows no ABI.
#pragma once

#include "app/softhca/core/completion_error.hpp"
#include "app/softhca/core/dma.hpp"
#include "app/softhca/core/doorbell.hpp"
#include "app/softhca/core/edits.hpp"
#include "app/softhca/core/flow_key.hpp"
#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/send_registers.hpp"
#include "app/softhca/core/virtio/types.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

namespace softhca::core {

/// Why the device refused a command. Fronts translate it to an errno or a firmware status.
enum class Status : uint8_t {
    bad_parameter, ///< a value out of range or contradictory          (EINVAL)
    bad_resource,  ///< no object of that number and kind              (EINVAL, ENOENT)
    busy,          ///< the object is still in use by another          (EBUSY)
    limit,         ///< a device limit would be exceeded               (ENOMEM)
    exists,        ///< contradicts what is there already              (EEXIST)
    bad_state,     ///< not allowed in the object's state              (EINVAL)
    unsupported,   ///< a valid request that this device cannot serve  (EOPNOTSUPP)
};
template <class T> using Outcome = tl::expected<T, Status>;
[[nodiscard]] inline tl::unexpected<Status> refuse(Status status) { return tl::unexpected(status); }

/// Object numbers are 24 bits wide, as on the wire of the device; 0 is never a valid number.
using Number = uint32_t;

/// What the device reports to a front asynchronously. Called on a device thread with the device
/// locked: keep it short, never call back into Device.
enum class AsyncEvent : uint8_t {
    port_active,
    port_error,
    cq_error,
    sq_fatal,
    rq_fatal,
    virtq_error, ///< its status says why
    device_fatal,
    delay_drop_timeout ///< of the device, see Device::set_delay_drop
};
class Listener {
  public:
    virtual ~Listener() = default;
    /// An armed CQ received a completion. `cookie` is CqAttr::cookie.
    virtual void on_completion(Number cqn, uint64_t cookie) = 0;
    /// `number` is the object concerned (0 for port and device events), `cookie` the one in its
    /// attributes.
    virtual void on_async(AsyncEvent event, Number number, uint64_t cookie) = 0;
};

/// Bytes of another key of the same PD, from an address within that key on.
struct KeyPart {
    uint32_t lkey = 0;
    uint64_t address = 0, bytes = 0;
};

struct MkeyAttr {
    Number pd = 0;
    uint64_t iova = 0; ///< address of the first byte as WQEs name it
    uint64_t length = 0;
    DmaArea memory;
    /// Instead of memory: an indirect key. Its parts are looked up when they are used.
    std::vector<KeyPart> parts{};
    bool local_write = false;                       ///< needed to receive into it
    bool remote_read = false, remote_write = false; ///< for the peer of a connection
    bool free = false;                ///< nothing can be done through it, see KeyChange
    bool any_pd = false;              ///< queues of every PD may use it (a device's reserved lkey)
    std::optional<uint8_t> variant{}; ///< low byte of the key, when the owner chooses it
};

/// What a key is now, in so far as requests may have changed it.
struct KeyState {
    uint32_t lkey = 0;
    Number pd = 0;
    bool free = false, local_write = false, remote_read = false, remote_write = false;
};

/// What a mini CQE holds besides the byte count.
enum class MiniFormat : uint8_t { hash, checksum, checksum_stride };

struct CqAttr {
    DmaArea ring;
    CqDoorbell doorbell;
    uint8_t log_entries = 0;
    uint8_t cqe_size = 64;
    Listener* listener = nullptr;
    uint64_t cookie = 0;
    bool events = false;                ///< has a completion channel or EQ: watch the arm doorbell
    std::optional<MiniFormat> compress; ///< write receive completions in blocks where possible
    bool ignore_overrun = false;        ///< a full ring is written over
    bool collapsed = false;             ///< every completion overwrites the first entry
};

enum class QueueState : uint8_t { reset, ready, error };

/// Which frames to its own port a device loops back internally, or which frames of its own domain a
/// TIR receives.
struct Loopback {
    bool unicast = false, multicast = false; ///< to the port's addresses; to group addresses
    [[nodiscard]] bool any() const { return unicast || multicast; }
};
/// Transport domain of the kernel netdev alongside a port.
inline constexpr Number kKernelDomain = 0;

struct SqAttr {
    Number pd = 0;
    Number cqn = 0;
    Number transport_domain = kKernelDomain; ///< see TirAttr::self_loopback
    DmaArea ring;
    Doorbell doorbell;
    /// The registers that the owner rings after it has written the doorbell record. Null: it need
    /// not ring.
    std::shared_ptr<SendRegisters> registers{};
    uint8_t log_wqebbs = 0;
    uint32_t user_index = 0; ///< reported in CQE srqn_uidx
    bool rc = false;         ///< of an RC QP that is connected to itself: sends no packets
    /// Executes up to the position that other queues' requests enable (SendRequest::Kind::enable);
    /// what its owner posts does not matter.
    bool managed = false;
    bool repeats = false;   ///< its ring is not posted again: it goes round with the same requests
    bool any_index = false; ///< requests need not give their place in the ring
    bool off_wire = false;  ///< may not send packets
    bool changes_keys = false; ///< may change the device's memory keys, of any PD
    Listener* listener = nullptr;
    uint64_t cookie = 0;
};

/// Multi-packet (striding) receive WQEs: one next segment and one data segment each.
struct StridingAttr {
    uint8_t log_strides = 0;      ///< strides per WQE
    uint8_t log_stride_bytes = 0; ///< bytes per stride
    bool two_byte_shift = false;  ///< packets start two bytes into their first stride
};

/// Maximum contents of a hairpin queue.
struct HairpinSize {
    uint8_t log_packets = 0, log_bytes = 0;
};
/// One queue of a hairpin pair; the two may belong to two devices.
struct HairpinEnd {
    std::shared_ptr<const std::string> device; ///< its name; every device has its own
    Number number = 0;

    [[nodiscard]] explicit operator bool() const { return device != nullptr; }
    bool operator==(const HairpinEnd&) const = default;
};
struct HairpinAttr {
    HairpinSize size;
    Number transport_domain = kKernelDomain; ///< of an SQ
    bool delay_drop = false;                 ///< of an RQ
    uint32_t user_index = 0;
    Listener* listener = nullptr;
    uint64_t cookie = 0;
};

struct RqAttr {
    Number pd = 0;
    Number cqn = 0;
    DmaArea ring;
    Doorbell doorbell;
    uint8_t log_wqes = 0;
    uint8_t log_wqe_bytes = 0;
    uint32_t user_index = 0;
    bool vlan_strip = false;
    bool scatter_fcs = false;
    bool delay_drop = false; ///< when empty, hold the wire rather than drop, if the device may
    std::optional<StridingAttr> striding;
    Listener* listener = nullptr;
    uint64_t cookie = 0;
};

/// Which header fields enter the hash; a TIR hashes one L3 and at most one L4 type.
struct HashFields {
    bool src_ip = false, dst_ip = false, src_port = false, dst_port = false;
    bool spi = false;       ///< of IPsec
    uint8_t ip_version = 0; ///< only packets of this version are hashed: 4 or 6; 0: either
    uint8_t l4 = 0;         ///< ports of this protocol only: 6 TCP, 17 UDP; 0: either
    [[nodiscard]] bool any() const { return src_ip || dst_ip || src_port || dst_port || spi; }
};

/// Which TCP traffic is coalesced (lro.hpp).
struct LroAttr {
    bool ipv4 = false, ipv6 = false;
    uint64_t timeout_ns = 0; ///< no session lasts longer
    uint32_t max_bytes = 0;  ///< TCP header and payload of a coalesced packet
    [[nodiscard]] bool any() const { return ipv4 || ipv6; }
};

struct TirAttr {
    Number rqn = 0; ///< direct: this RQ …
    Number rqt = 0; ///< … or spread over this indirection table (exactly one is non-zero)
    HashFields fields;
    std::array<uint8_t, 40> toeplitz_key{};
    bool tunnels = false;    ///< looks into tunnels: completions describe what they carry …
    bool hash_inner = false; ///< … and that is what is hashed; needs `tunnels`
    bool symmetric = false;  ///< both directions of a flow hash alike, by OR and XOR
    bool xor8 = false;       ///< the hash is not Toeplitz's but inverted_xor8() of rss.cpp
    Number transport_domain = kKernelDomain;
    Loopback self_loopback; ///< also hears SQs of its own domain (see Device::set_loopback)
    LroAttr lro;
};

/// The stage of the port's receive pipeline that a rule belongs to; earlier domains see packets
/// first. sniffer: gets a copy of every packet. bypass: user rules, by priority (0 first). Packets
/// that no bypass rule takes go to the kernel netdev if the port has one that accepts them; the
/// remaining ones go to the leftovers rules (ALL_DEFAULT, MC_DEFAULT), else they are dropped and
/// counted. egress: rules for sent packets, by priority; packets that none takes leave.
enum class FlowDomain : uint8_t { sniffer, bypass, leftovers, egress };

/// How a rule changes its packets, in this order: remove an L2 tunnel, or an L3 one by `reformat`;
/// remove tags; `edits`; push tags; add a tunnel by `reformat`.
struct RewriteAttr {
    bool decap = false; ///< the frame inside an L2 tunnel comes out
    uint8_t pop_vlans = 0;
    Number edits = 0;
    std::vector<VlanTag> push_vlans{};
    Number reformat = 0;
};

struct FlowAttr {
    FlowDomain domain = FlowDomain::bypass;
    uint16_t priority = 0;
    FlowKey value{}; ///< bits outside mask are ignored
    FlowKey mask{};
    bool drop = false;
    /// The packet goes on to the rules of later priorities, and to what comes after them; with this
    /// rule's tag, unless those have one. Bypass domain only.
    bool pass_on = false;
    /// The packet skips the rules of later priorities and goes on to what comes after them, with
    /// this rule's tag. Bypass domain only; there is no destination, nor any change.
    bool default_miss = false;
    std::optional<uint32_t> tag; ///< 24 bits, reported in the CQE
    std::vector<Number> tirs;    ///< each gets a copy …
    /// … and each of these flow tables handles one. Rules come before tables: a rule of a priority
    /// leads to tables of a higher level only.
    std::vector<Number> tables;
    std::vector<Number> counters; ///< count what the rule gets, once each
    RewriteAttr rewrite;
};

/// A flow table: entries in groups of one mask each. Packets that no entry takes go to `miss`, or
/// are dropped. Tables lead to tables of a higher level only.
struct FlowTableAttr {
    uint8_t level = 0;
    uint8_t log_size = 0; ///< entries
    Number miss = 0;
    bool sends = false; ///< decides about what is sent; what no entry takes leaves
    /// The entries are in ICM, where the program writes them, and begin at this address. They
    /// contain their own destinations.
    std::optional<uint64_t> icm_root{};
};

/// Sends packets of entries on, all of them to one table and copies of some to another one.
struct SamplerAttr {
    uint8_t level = 0; ///< entries of tables of lower levels lead to it
    uint32_t ratio = 1;
    Number copies = 0, all = 0; ///< tables of higher levels …
    bool any_level = false;     ///< … or of any level; a packet that loops is lost in the end
    bool sends = false;
};

/// Pairs of meters, all initially alike.
struct MetersAttr {
    Number pd = 0; ///< SQs of this PD may read and write them
    uint32_t pairs = 1;
    std::array<MeterAttr, 2> meters{};
};

/// Makes one of a pair's meters determine the packet's color, which goes into the low 8 bits of
/// reg_c.
struct MeteringAttr {
    Number pair = 0;
    uint8_t meter = 0;
    uint8_t reg_c = 0;
    Color before = Color::undefined; ///< unless the meter says otherwise
};

/// The entries first..last of a table.
struct FlowGroupAttr {
    uint32_t first = 0, last = 0;
    FlowKey mask{};
};

struct FlowEntryAttr {
    Number group = 0;
    FlowKey value{}; ///< bits outside the group's mask are ignored
    bool drop = false;
    std::optional<uint32_t> tag{};  ///< 24 bits, reported in the CQE
    std::vector<Number> tirs{};     ///< each gets a copy …
    std::vector<Number> tables{};   ///< … and each of these handles one
    bool any_level = false;         ///< also tables and samplers of no higher level
    std::vector<Number> samplers{}; ///< … and each of these does
    std::vector<Number> counters{};
    std::vector<MeteringAttr> metering{}; ///< in this order, before the packet is changed
    RewriteAttr rewrite{};
    bool send = false; ///< in tables that send: leaves
};

/// Where packets enter flow tables: received, sent, and copies of both.
enum class FlowRoot : uint8_t { receive, transmit, sniff_received, sniff_sent };

struct FlowCounts {
    uint64_t packets = 0, bytes = 0;
};

struct QueueCounters {
    uint64_t packets = 0, bytes = 0, wqes = 0, cqes = 0, doorbells = 0, error_cqes = 0,
             out_of_buffer = 0;
};

/// Every packet is delivered or counted here by cause; receive side unless named tx.
struct PortCounters {
    uint64_t wire_rx_packets = 0, wire_rx_bytes = 0, wire_tx_packets = 0, wire_tx_bytes = 0;
    uint64_t wire_rx_split = 0;  ///< of wire_rx_packets, came as a part of the one before them …
    uint64_t wire_tx_merged = 0; ///< … or went on as one: see WireReport
    uint64_t loopback_packets = 0, loopback_bytes = 0; ///< from the port to itself, by no wire
    uint64_t delivered = 0;                            ///< copies placed in an RQ
    uint64_t kernel_rx_packets = 0;                    ///< to the kernel netdev
    uint64_t kernel_tx_packets = 0;                    ///< from the kernel netdev
    uint64_t drop_out_of_buffer = 0;                   ///< RQ empty (or its CQ full)
    uint64_t drop_no_match = 0;                        ///< no rule and no kernel netdev took it
    uint64_t drop_rule = 0;                            ///< a rule said drop
    uint64_t drop_oversize = 0;                        ///< longer than the port MTU allows
    uint64_t drop_undersize = 0;                       ///< shorter than an Ethernet header
    uint64_t drop_queue_not_ready = 0;                 ///< RQ in reset or error
    uint64_t drop_rx_error = 0;                        ///< receive WQE faulty: error CQE written
    uint64_t drop_self_loopback = 0;                   ///< of a TIR's own transport domain
    uint64_t drop_link_down = 0;                       ///< either direction
    uint64_t drop_kernel = 0;                          ///< the kernel netdev refused it
    uint64_t drop_rewrite = 0;     ///< a rule would change it, and it lacks the tunnel or tag
    uint64_t drop_rule_loop = 0;   ///< rules lead it through too many tables or entries
    uint64_t drop_tx_rule = 0;     ///< a rule for what is sent said drop
    uint64_t drop_tx_hairpin = 0;  ///< the hairpin RQ that held it was reset, or is gone
    uint64_t drop_tx_wire = 0;     ///< the wire refused it (link and socket: see modify_virtq)
    uint64_t drop_tx_oversize = 0; ///< longer than the port MTU allows
    uint64_t tx_error_wqes = 0;    ///< send WQEs that ended in an error CQE
    uint64_t link_downs = 0;       ///< times that the link went down
};

/// Packets to group addresses, on the wire and in the loopback; broadcast does not count as
/// multicast here.
struct GroupCounters {
    FlowCounts rx_multicast, rx_broadcast, tx_multicast, tx_broadcast;
    FlowCounts loopback_multicast, loopback_broadcast;
};

/// Size classes of received frames, in ascending order: the longest frame of each, in octets with
/// FCS. The classes of RFC 2819, and above those mlx5's own.
inline constexpr std::array<uint32_t, 10> kFrameSizeEnds{64,   127,  255,  511,  1023,
                                                         1518, 2047, 4095, 8191, 10239};
inline constexpr size_t kPriorities = 8;

/// Frames on the wire by size, and by the priority of their 802.1Q tag, as a port counts that
/// trusts this priority. Untagged frames have priority 0.
struct FrameCounters {
    std::array<uint64_t, kFrameSizeEnds.size()> rx_sizes{};
    std::array<FlowCounts, kPriorities> rx_priorities{}, tx_priorities{};
};

} // namespace softhca::core
