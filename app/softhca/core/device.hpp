// SPDX-License-Identifier: BSD-3-Clause
// One RDMA device with one Ethernet port: objects, rings, steering. ABI-free; fronts call it.
#pragma once

#include "app/softhca/core/types.hpp"
#include "app/softhca/wire/wire.hpp"
#include "common/net/endian.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace net {
struct VxlanPorts;
}

namespace softhca::core {

class Observer;
enum class IcmKind : uint8_t; ///< icm.hpp
namespace ste {
struct Definer;
}

/// The families of NICs whose rings a device may have: one folder of core/rings each.
enum class Family : uint8_t { mlx5 };

struct DeviceConfig {
    std::string name = "mlx5_0";
    Family family = Family::mlx5;
    std::array<uint8_t, 6> mac{};
    uint16_t mtu = 1500;         ///< of the port; frames up to mtu + 18 bytes pass
    bool pause = false;          ///< an empty RQ holds the wire (802.3x) instead of dropping
    bool carrier_always = false; ///< up even with nothing at the wire's other end
    uint8_t steering_format = 0; ///< of the entries of software steering, as the family numbers it
    /// The kernel netdev takes every frame (a real TAP); else its own MAC, broadcast, multicast.
    bool kernel_promiscuous = false;
};

/// Limits that fronts report and the core enforces.
struct Limits {
    static constexpr Number kMaxNumber = 0x7fffff; ///< of an object; firmware adds some above
    static constexpr uint8_t kLogMaxCqEntries = 22;
    static constexpr uint8_t kLogMaxWqebbs = 15;
    static constexpr uint8_t kLogMaxRqWqes = 15;
    static constexpr uint32_t kMaxRqtSize = 2048;
    static constexpr uint8_t kLogMaxMkeys = 16;
    static constexpr uint32_t kMaxMkeys = 1u << kLogMaxMkeys;
    static constexpr uint8_t kMaxIndirection = 4; ///< keys of keys of keys …
    static constexpr uint8_t kLogMaxKeyParts = 16;
    static constexpr uint8_t kLogMaxPds = 16, kLogMaxCqs = 16, kLogMaxSqs = 12, kLogMaxRqs = 16,
                             kLogMaxTirs = 16, kLogMaxRqts = 12;
    static constexpr uint16_t kBypassPriorities = 16; ///< available to programs …
    /// … each of which takes two priorities of FlowAttr; fronts have one more after them.
    static constexpr uint16_t kMulticastPriority = 2 * kBypassPriorities;
    static constexpr uint8_t kMaxFlowTableLevels = 128; ///< Linux 6.12 needs more than 64
    static constexpr uint8_t kLogMaxFlowTableSize = 20;
    static constexpr uint32_t kMaxFlowTables = 1u << 16;
    static constexpr uint32_t kMaxFlowEntries = 1u << 21; ///< of all flow tables together
    static constexpr uint32_t kMaxFlowCounters = 1u << 16;
    static constexpr uint32_t kMaxFlowTag = 0xffffff;
    static constexpr Number kMaxQCounters = 255; ///< their numbers have eight bits, and 0 is none
    static constexpr uint8_t kLogMaxHeaderEdits = 16, kLogMaxReformats = 16;
    static constexpr uint32_t kMaxHeaderEdits = 1u << kLogMaxHeaderEdits;
    static constexpr uint32_t kMaxReformats = 1u << kLogMaxReformats;
    static constexpr uint32_t kMaxSamplers = 1u << 16;
    static constexpr uint8_t kLogMaxMeterPairs = 16, kLogMaxMeterPairsAtOnce = 8;
    static constexpr uint32_t kMaxMeterPairs = 1u << kLogMaxMeterPairs;
    static constexpr uint32_t kMaxMeterPairsAtOnce = 1u << kLogMaxMeterPairsAtOnce;
    static constexpr uint8_t kLogMaxEditArguments = 20, kLogMaxEditArgumentsAtOnce = 12;
    static constexpr uint32_t kMaxEditArguments = 1u << kLogMaxEditArguments;
    static constexpr uint32_t kMaxEditArgumentsAtOnce = 1u << kLogMaxEditArgumentsAtOnce;
    static constexpr uint8_t kMaxEditsOfRule = 32;
    static constexpr uint32_t kMaxReformatBytes = 128;
    static constexpr uint32_t kMaxTsoBytes = 256 * 1024;
    static constexpr uint32_t kMaxSendWqeBytes = 1024;
    static constexpr uint8_t kLogMaxStrides = 15; ///< per striding receive WQE
    static constexpr uint8_t kLogMinStrideBytes = 6;
    static constexpr uint8_t kLogMaxStrideBytes = 13;
    static constexpr uint32_t kLroMinSegmentBytes = 1348;           ///< of payload
    static constexpr uint32_t kLroMaxBytes = 255 * 256;             ///< TCP header and payload
    static constexpr uint16_t kLroPeriodsUs[4] = {8, 16, 32, 1024}; ///< of sessions
    static constexpr uint8_t kLogMaxHairpins = 10;                  ///< RQs, and as many SQs
    static constexpr uint8_t kLogMinHairpinBytes = 11, kLogMaxHairpinBytes = 16;
    static constexpr uint8_t kLogMaxHairpinPackets = 10;
    static constexpr uint8_t kLogMaxVirtqs = 8, kLogMaxVirtqEntries = 15;
    static constexpr uint8_t kLogMaxVirtqCounters = kLogMaxVirtqs;
    static constexpr uint32_t kClockKhz = 1000000; ///< CQE timestamps: CLOCK_MONOTONIC, ns
    static constexpr uint32_t kMinRateKbps = 1;    ///< packet pacing
    static constexpr uint32_t kMaxRateKbps = 100'000'000;
    static constexpr uint32_t kMaxRequestRate = 100'000'000; ///< a second
};

class Device;
class HairpinBuffer;

/// The peer named by a hairpin queue.
struct HairpinPeer {
    HairpinPeer(Number queue = 0, const Device* of = nullptr) : number(queue), device(of) {}

    Number number;
    const Device* device; ///< null: the same; else it outlives the call
};

/// Thread-safe: every method takes the device lock, which device threads release between batches.
/// Destroying an object that another one uses returns Status::busy. Numbers of one kind are unique
/// within the device; RQ numbers and SQ numbers share one space.
class Device {
  public:
    /// `wire` is where the cable goes, `kernel` the netdev side (may be null).
    Device(DeviceConfig config, std::unique_ptr<wire::Wire> wire,
           std::unique_ptr<wire::Wire> kernel);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    [[nodiscard]] Outcome<Number> alloc_pd();
    [[nodiscard]] Outcome<void> dealloc_pd(Number pd);

    /// Returns the lkey: mkey index << 8 | variant.
    [[nodiscard]] Outcome<uint32_t> create_mkey(MkeyAttr attr);
    [[nodiscard]] Outcome<void> destroy_mkey(uint32_t lkey);
    [[nodiscard]] Outcome<KeyState> query_mkey(Number index) const;
    /// Writes to memory, as far as the key allows.
    [[nodiscard]] Outcome<void> write_memory(uint32_t lkey, uint64_t address,
                                             std::span<const std::byte> bytes);

    /// Device memory, for keys (MkeyAttr::memory) and for steering. Returns its device address. A
    /// key must be destroyed before its memory is freed.
    [[nodiscard]] Outcome<uint64_t> alloc_icm(IcmKind kind, uint64_t bytes,
                                              uint32_t log_alignment = 0);
    [[nodiscard]] Outcome<void> take_icm(uint64_t address, uint64_t bytes);
    [[nodiscard]] Outcome<void> free_icm(uint64_t address);
    [[nodiscard]] Outcome<DmaArea> icm_area(uint64_t address, uint64_t bytes) const;

    [[nodiscard]] Outcome<Number> create_cq(const CqAttr& attr);
    [[nodiscard]] Outcome<void> destroy_cq(Number cqn);
    /// Switches to a new ring: the old one ends with a CQE of opcode resize, which consumes an
    /// index as every CQE does. Busy: the old ring is full; bad_parameter: the new one is too small
    /// for what the owner has not consumed; bad_state: the CQ has failed, or does now as its memory
    /// is missing.
    [[nodiscard]] Outcome<void> resize_cq(Number cqn, DmaArea ring, uint8_t log_entries,
                                          uint8_t cqe_size);
    /// See CqAttr::ignore_overrun.
    [[nodiscard]] Outcome<void> ignore_cq_overrun(Number cqn, bool ignore);

    /// Queues are created in state reset; reset -> ready -> error -> reset. Entering reset zeroes
    /// the device's indices and the doorbell record. An RQ that shares the doorbell record of an SQ
    /// forms a QP with it: when the RQ fails, both go to error.
    [[nodiscard]] Outcome<Number> create_sq(const SqAttr& attr);
    /// `peer` is for hairpin queues, see below.
    [[nodiscard]] Outcome<void> modify_sq(Number sqn, QueueState state,
                                          const HairpinPeer& peer = {});
    /// Packet pacing: limits the rate at which the bytes of frames leave; 0: unlimited. Kept across
    /// resets.
    [[nodiscard]] Outcome<void> pace_sq(Number sqn, uint32_t kbps);
    /// Likewise by requests per second; 0: unlimited. The two replace each other.
    [[nodiscard]] Outcome<void> pace_sq_requests(Number sqn, uint32_t per_second);
    [[nodiscard]] Outcome<QueueState> query_sq(Number sqn) const;
    [[nodiscard]] Outcome<void> destroy_sq(Number sqn);

    [[nodiscard]] Outcome<Number> create_rq(const RqAttr& attr);
    [[nodiscard]] Outcome<void> modify_rq(Number rqn, QueueState state,
                                          const HairpinPeer& peer = {});
    [[nodiscard]] Outcome<void> modify_rq_vlan_strip(Number rqn, bool strip);
    [[nodiscard]] Outcome<void> modify_rq_scatter_fcs(Number rqn, bool scatter);
    [[nodiscard]] Outcome<QueueState> query_rq(Number rqn) const;
    [[nodiscard]] Outcome<void> destroy_rq(Number rqn);

    /// Hairpin queues have neither rings nor CQs: the SQ sends what its peer RQ takes, through the
    /// rules for sent packets. Going from reset to ready, each names the other; packets pass when
    /// both have done so. Either may go first: until then the RQ holds what it can and drops the
    /// rest as out of buffer. When the RQ goes to reset or is destroyed, the packets it holds are
    /// lost and counted. The two may belong to two devices, which keep running: neither waits for
    /// the other.
    [[nodiscard]] Outcome<Number> create_hairpin_sq(const HairpinAttr& attr);
    [[nodiscard]] Outcome<Number> create_hairpin_rq(const HairpinAttr& attr);

    /// Virtio queues, whose buffer chains hold frames and their virtio-net headers. A receiving one
    /// may take the place of an RQ in an RQT; a frame that does not fit into the next chain is lost
    /// and counted. init -> ready -> suspended; the device itself moves one to error, and listeners
    /// are notified. A chain that has begun to leave ends with its queue: what the wire has no room
    /// for then is lost.
    [[nodiscard]] Outcome<Number> create_virtq(const VirtqAttr& attr);
    [[nodiscard]] Outcome<void> modify_virtq(Number virtq, VirtqState state);
    [[nodiscard]] Outcome<VirtqStatus> query_virtq(Number virtq) const;
    [[nodiscard]] Outcome<void> destroy_virtq(Number virtq);
    [[nodiscard]] Outcome<Number> create_virtq_counters();
    [[nodiscard]] Outcome<VirtqCounts> query_virtq_counters(Number counters) const;
    [[nodiscard]] Outcome<void> destroy_virtq_counters(Number counters);

    /// Packets that an RQ drops for want of requests are counted in the Q counter that it is bound
    /// to: initially, and after that one is destroyed, the device's own, number 0.
    [[nodiscard]] Outcome<Number> create_q_counter();
    [[nodiscard]] Outcome<void> destroy_q_counter(Number counter);
    [[nodiscard]] Outcome<void> bind_q_counter(Number rqn, Number counter);
    [[nodiscard]] Outcome<uint64_t> query_q_counter(Number counter, bool clear = false);

    /// How long RQs with delay_drop may hold the wire; 0 (the default): not at all. When the time
    /// runs out, listeners are notified and packets are dropped again, for `rearm_ns` or, if that
    /// is 0, until this is called anew.
    void set_delay_drop(uint64_t timeout_ns, uint64_t rearm_ns = 0);

    [[nodiscard]] Outcome<Number> create_rqt(std::span<const Number> rqns);
    [[nodiscard]] Outcome<void> modify_rqt(Number rqt, std::span<const Number> rqns);
    [[nodiscard]] Outcome<void> destroy_rqt(Number rqt);

    [[nodiscard]] Outcome<Number> create_tir(const TirAttr& attr);
    /// Changes what is hashed and the destination; the TIR's flows stay.
    [[nodiscard]] Outcome<void> modify_tir(Number tirn, const TirAttr& attr);
    [[nodiscard]] Outcome<void> destroy_tir(Number tirn);

    /// A rule equal in domain, priority, value and mask to one that exists shares its packets:
    /// every destination gets a copy. Lookup cost grows with the number of different masks, not
    /// with the number of rules.
    [[nodiscard]] Outcome<Number> create_flow(const FlowAttr& attr);
    [[nodiscard]] Outcome<void> destroy_flow(Number flow);

    /// Flow tables are the other way to steer: while a root is set, they alone decide about each
    /// packet, and neither flows nor the kernel netdev see it. Setting 0, or destroying the root
    /// table, removes the root. The other roots get copies: of what arrives and the receive root
    /// decides about, and of what is sent. Among matching entries, the one in the group with the
    /// lowest indices wins; among entries of a group that match alike, the one with the lowest
    /// index: drivers have two of those while they replace one with the other. A packet counts once
    /// in each counter named by an entry on its way.
    [[nodiscard]] Outcome<Number> create_flow_table(const FlowTableAttr& attr);
    [[nodiscard]] Outcome<void> set_flow_table_miss(Number table, Number miss);
    [[nodiscard]] Outcome<void> destroy_flow_table(Number table);
    [[nodiscard]] Outcome<void> set_flow_table_root(Number table,
                                                    FlowRoot root = FlowRoot::receive);
    [[nodiscard]] Outcome<Number> create_flow_group(Number table, const FlowGroupAttr& attr);
    [[nodiscard]] Outcome<void> destroy_flow_group(Number table, Number group);
    /// Sets or replaces the entry at `index`.
    [[nodiscard]] Outcome<void> set_flow_entry(Number table, uint32_t index,
                                               const FlowEntryAttr& attr);
    [[nodiscard]] Outcome<void> delete_flow_entry(Number table, uint32_t index);
    /// Header changes by rules (see RewriteAttr). A packet that lacks the tunnel or tag that a rule
    /// removes is lost and counted.
    [[nodiscard]] Outcome<Number> create_header_edits(std::vector<HeaderEdit> edits);
    [[nodiscard]] Outcome<void> destroy_header_edits(Number number);
    [[nodiscard]] Outcome<Number> create_reformat(ReformatKind kind,
                                                  std::span<const std::byte> headers);
    [[nodiscard]] Outcome<void> destroy_reformat(Number number);
    [[nodiscard]] Outcome<Number> create_sampler(const SamplerAttr& attr);
    [[nodiscard]] Outcome<void> destroy_sampler(Number number);
    /// What software steering entries match on (core/ste/entry.hpp). The layout must be one that
    /// the device's entry format has.
    [[nodiscard]] Outcome<Number> create_definer(const ste::Definer& definer);
    [[nodiscard]] Outcome<void> destroy_definer(Number number);
    /// Arguments of header edits, with consecutive numbers; destroyed together, by the number of
    /// the first. RC QPs of the PD write them.
    [[nodiscard]] Outcome<Number> create_edit_arguments(Number pd, uint32_t count);
    [[nodiscard]] Outcome<void> destroy_edit_arguments(Number first);
    /// Pairs of meters with consecutive numbers; destroyed together, by the number of the first.
    /// SQs write them.
    [[nodiscard]] Outcome<Number> create_meters(const MetersAttr& attr);
    [[nodiscard]] Outcome<void> destroy_meters(Number first);
    [[nodiscard]] Outcome<std::array<Meter, 2>> query_meters(Number pair);
    /// Counters with consecutive numbers; destroyed together, by the number of the first.
    [[nodiscard]] Outcome<Number> create_flow_counters(uint32_t count = 1);
    [[nodiscard]] Outcome<void> destroy_flow_counters(Number first);
    [[nodiscard]] Outcome<FlowCounts> query_flow_counter(Number counter, bool clear);
    /// Queries as many as `counts` has room for; the entries of counters that do not exist stay
    /// unchanged.
    void query_flow_counters(Number first, std::span<FlowCounts> counts, bool clear);
    /// Takes off what an earlier query has returned. What was counted since then stays.
    void deduct_flow_counts(Number first, std::span<const FlowCounts> counts);
    void destroy_all_flow_tables(); ///< and everything that entries name, except TIRs

    [[nodiscard]] Outcome<QueueCounters> sq_counters(Number sqn) const;
    [[nodiscard]] Outcome<QueueCounters> rq_counters(Number rqn) const;
    [[nodiscard]] PortCounters counters() const;
    [[nodiscard]] GroupCounters group_counters() const;
    /// Both, of the same moment.
    [[nodiscard]] std::pair<PortCounters, GroupCounters> traffic_counters() const;
    [[nodiscard]] FrameCounters frame_counters() const;

    void set_mtu(uint16_t mtu);
    [[nodiscard]] uint16_t mtu() const;
    /// Flow control of the port, in both directions: see DeviceConfig.
    void set_pause(bool on);
    [[nodiscard]] bool pause() const;
    /// The netdev's address and promiscuity: which frames the kernel side accepts.
    void set_mac(const std::array<uint8_t, 6>& mac);
    void set_kernel_promiscuous(bool on);
    /// Local loopback, initially off: frames sent to the port's own addresses are received instead
    /// of leaving; those to group addresses are received and leave. TIRs do not receive from SQs of
    /// their own transport domain unless they ask to (TirAttr::self_loopback).
    void set_loopback(Loopback loopback);
    /// The port's unicast addresses other than its MAC, for the loopback.
    void set_other_addresses(std::vector<std::array<uint8_t, 6>> addresses);
    /// By which VXLAN is recognised from now on, in offloads and rules.
    void set_vxlan_ports(const net::VxlanPorts& ports);
    [[nodiscard]] net::VxlanPorts vxlan_ports() const;
    /// Makes the device keep its clock (that of CQE timestamps) at `where`, which outlives it.
    void show_clock(net::be64* where);
    /// Administrative link state; the port is up when this and the wire are, and nobody has pulled
    /// the cable.
    void set_link(bool up);
    void set_cable(bool plugged_in);
    [[nodiscard]] bool link_up() const;
    /// Port and device events go to every registered listener.
    void add_listener(Listener* listener);
    void remove_listener(Listener* listener);

    /// Faults on request. The next WQE of an SQ, or the next packet for an RQ, ends with an error
    /// CQE for that cause, and the queue goes to error.
    [[nodiscard]] Outcome<void> inject_error(Number queue, CompletionError error);
    /// An SQ, RQ (not in reset) or CQ breaks now: it goes to error and its owner gets the event.
    [[nodiscard]] Outcome<void> inject_fatal(Number number);
    /// The next completion in this CQ overruns it.
    [[nodiscard]] Outcome<void> inject_overrun(Number cqn);
    /// For this long, nothing happens: no packet passes and no command is answered. Then returns.
    void stall(std::chrono::milliseconds duration);
    /// Listeners are notified that the device is dead, and it is: no packet passes any more.
    /// Objects can still be destroyed.
    void inject_device_fatal();

    /// As given to the constructor.
    [[nodiscard]] const DeviceConfig& config() const;
    /// Everything `softhca stat` shows: port and per-queue counters, objects in use.
    [[nodiscard]] nlohmann::json stats() const;
    /// Everything `softhca dump` shows: each object with what it refers to, what is posted in the
    /// rings, rules and flow tables. One list for each kind, of objects without nested lists.
    [[nodiscard]] nlohmann::json dump() const;
    /// From now on the observer is notified of every packet (see observer.hpp), until it is
    /// removed. Without observers, this costs the data path nothing.
    void add_observer(Observer& observer);
    void remove_observer(Observer& observer);
    /// A descriptor that becomes readable when poll() may find a frame, or -1 (wait_fd() of the
    /// wires).
    [[nodiscard]] std::array<int, 2> wait_fds() const;

    /// Does the pending work of one round: SQs, wire, kernel netdev, CQ arms. Called by the one
    /// device thread that owns this device (see Engine). Returns the number of units of work done;
    /// 0 means idle. `rested`: the thread has slept since the last round, so this one checks more
    /// of what has been idle for long (see turns.hpp).
    size_t poll(bool rested = true);
    /// Whether that was work that its owner waits for, a few requests at a time, as software
    /// steering waits for its RC queues. For the thread that polls.
    [[nodiscard]] bool was_awaited() const;

    struct State; ///< for the core's own files only

  private:
    // What another device's hairpin queue needs to know about its peer here.
    [[nodiscard]] Outcome<std::shared_ptr<HairpinBuffer>> buffer_of(Number rqn) const;
    /// For an SQ that may send for this RQ.
    [[nodiscard]] Outcome<HairpinSize> size_for(const HairpinEnd& rq, Number sqn) const;

    std::unique_ptr<State> state_;
};

} // namespace softhca::core
