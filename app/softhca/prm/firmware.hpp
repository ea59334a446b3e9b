// SPDX-License-Identifier: BSD-3-Clause
// The state behind the firmware commands, and how commands are looked up and run.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/prm/events.hpp"
#include "app/softhca/prm/fields.hpp"
#include "app/softhca/prm/match.hpp"
#include "app/softhca/prm/memory.hpp"
#include "app/softhca/prm/objects.hpp"
#include "app/softhca/prm/vhca.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace softhca::prm {

/// One command while it runs. The buffers have the length that the driver gave, and are not shared
/// with it.
struct Command {
    uint16_t opcode = 0;
    uint16_t op_mod = 0;
    uint16_t uid = 0; ///< of the user that sent it; 0: the driver
    std::vector<uint8_t> in;
    std::vector<uint8_t> out; ///< zeros; status and syndrome are filled in by the caller

    [[nodiscard]] Fields input() { return {in.data(), in.size()}; }
    [[nodiscard]] Fields output() { return {out.data(), out.size()}; }
    /// The 64-bit big-endian page addresses from byte `at` of the input on, at most `count`.
    [[nodiscard]] std::vector<uint64_t> pages(size_t at, uint64_t count) const;
};

class Firmware;
using Handler = std::function<FwStatus(Firmware&, Command&)>;
struct CommandInfo {
    const char* name;
    size_t input_bytes; ///< shorter ones are refused
    Handler handler;
};
using CommandTable = std::map<uint16_t, CommandInfo>;

/// The supported kinds of capabilities: the `type` of QUERY_HCA_CAP.
enum class CapType : uint8_t {
    general = 0,
    ethernet = 1,
    roce = 4,
    flow_table = 7,
    qos = 12,
    device_memory = 15,
    virtio_emulation = 19,
    device_event = 20
};

struct Capabilities {
    static constexpr size_t kBytes = 4096;
    using Page = std::array<uint8_t, kBytes>;
    std::map<CapType, Page> maximum;
    std::map<CapType, Page> current;
};
/// Who uses the firmware besides its driver (DevX), and how.
enum class Users : uint8_t {
    none,
    objects,  ///< by commands that create objects
    steering, ///< and by rules that they write into ICM
};
/// `steering_format`: format of the entries that they write there.
[[nodiscard]] Capabilities make_capabilities(Users users, uint16_t vhca_id,
                                             uint8_t steering_format);

/// An injected fault: commands of an opcode, or of any, fail with `status` without being run.
struct Injection {
    FwStatus status = FwStatus::internal_error;
    uint32_t skip = 0;              ///< this many are run first
    uint32_t count = 0;             ///< this many fail; 0: all
    std::vector<uint16_t> spared{}; ///< opcodes; of an injection for any command
};

struct CommandCounts {
    uint64_t done = 0, refused = 0;
};

/// Rows of the packet pacing table, of which the first means no limit.
inline constexpr size_t kPacingRates = 128;

/// Per flow table entry; the same limit applies to counters.
inline constexpr uint8_t kLogMaxDestinations = 6;

/// Counters in a bulk, times what these bits allow (Linux: enum mlx5_fc_bulk_alloc_bitmask).
inline constexpr uint32_t kCounterBulk = 128;
inline constexpr uint8_t kCounterBulks = 0x1f;
inline constexpr uint8_t kLogMaxQueriedCounters = 15;

/// A row of the packet pacing table.
struct PacingRate {
    uint32_t rate = 0; ///< kbit/s, or WQEs a second; 0: no limit
    bool of_wqes = false;
    uint16_t uid = 0; ///< the only user who may use it, or kSharedUid: all may
};

/// Memory that a user has registered.
struct Umem {
    core::DmaArea memory;
    bool writable = false;
};

/// What the vport has received, then what it has sent: unicast, multicast and broadcast.
using VportCounts = std::array<core::FlowCounts, 6>;

/// Flow table data that the core does not keep.
struct FlowRecords {
    std::map<core::Number, MatchMask> masks; ///< of groups, for reading their entries' values
    /// Contexts of entries, by table and index.
    std::map<std::pair<core::Number, core::Number>, std::vector<uint8_t>> entries;
};

/// Firmware of one device, independent of the transport that brings its commands: one at a time, on
/// a thread of the transport. Events arrive from the device threads.
class Firmware final : private core::Listener {
  public:
    /// `memory` and `events` outlive it.
    Firmware(core::Device& device, Memory& memory, EventSink& events, uint32_t speed_mbps,
             Users users);
    ~Firmware() override;

    /// Whether refused commands are reported on stderr; initially they are.
    void set_verbose(bool on) { verbose_ = on; }
    /// Commands that only this transport has.
    void add_commands(CommandTable commands) { commands_.merge(commands); }

    /// Runs the command and fills in status and syndrome of its answer.
    void execute(Command& command);
    /// Destroys all objects and forgets the driver's settings, as function-level reset and
    /// TEARDOWN_HCA do.
    void reset();

    /// Used as an opcode: any command.
    static constexpr uint16_t kAnyCommand = 0;
    /// Replaces the opcode's injection; status ok: removes it. Returns whether the former one still
    /// had commands to fail.
    bool inject(uint16_t opcode, Injection injection);
    /// The opcode of a command by its name in the PRM (CREATE_CQ …), if it is supported.
    [[nodiscard]] std::optional<uint16_t> opcode_of(std::string_view name) const;
    [[nodiscard]] std::vector<uint16_t> opcodes() const; ///< all supported ones
    /// Results of the commands so far, by name.
    [[nodiscard]] std::map<std::string, CommandCounts> command_counts() const;

    /// The port is up while the driver wants it up and the cable is plugged in.
    void set_admin_up(bool up);
    void set_cable(bool plugged_in);
    [[nodiscard]] bool admin_up() const { return admin_up_; }
    [[nodiscard]] bool cable() const { return cable_; } ///< plugged in
    /// Reports an event to the driver, whether it happened or not.
    void report(core::AsyncEvent event, core::Number number);

    // For the commands.
    core::Device& device;
    Memory& memory;
    EventSink& events;
    Objects objects;
    const Vhca vhca;
    Capabilities caps;
    std::array<uint8_t, 6> mac;
    std::vector<uint8_t> vport_context;                  ///< what MODIFY_NIC_VPORT_CONTEXT wrote
    std::map<uint8_t, std::vector<uint8_t>> vport_lists; ///< allowed addresses by list type
    std::vector<uint8_t> node_description = std::vector<uint8_t>(64); ///< as written
    const uint32_t speed_mbps;                                        ///< the port's greatest
    uint32_t link_mbps = speed_mbps;         ///< what its driver has chosen of that
    std::array<uint32_t, 2> wanted_speeds{}; ///< as it wrote PTYS, plain and extended; 0: all
    bool fixed_speed = false;                ///< nothing is negotiated
    uint64_t wanted_fec = 0;                 ///< as the driver wrote it; 0: the port chooses
    std::chrono::steady_clock::time_point beacon_end; ///< the LED blinks until then
    FlowRecords flows;
    std::map<core::Number, Umem> umems;
    std::map<core::Number, std::shared_ptr<core::SendRegisters>> send_registers; ///< by UAR
    std::array<PacingRate, kPacingRates> rates{};
    core::DmaArea all_memory; ///< for keys that name guest-physical addresses
    uint32_t reserved_lkey = 0;
    core::Number reserved_pd = 0;
    VportCounts cleared_counts; ///< when QUERY_VPORT_COUNTER last cleared them

    core::Listener* listener() { return this; }
    /// The registers of an existing UAR.
    [[nodiscard]] std::shared_ptr<core::SendRegisters> registers_of(core::Number uar) const {
        const auto found = send_registers.find(uar);
        return found != send_registers.end() ? found->second : nullptr;
    }
    /// Creates the key for all memory on first use: the guest's firmware moves memory before the
    /// driver attaches.
    void make_reserved_lkey();
    /// PD 0 is the firmware's own: the driver creates queues in it that never receive.
    core::Number pd_of(uint64_t pd) const {
        return pd != 0 ? static_cast<core::Number>(pd) : reserved_pd;
    }

  private:
    void on_completion(core::Number cqn, uint64_t eqn) override;
    void on_async(core::AsyncEvent event, core::Number number, uint64_t cookie) override;

    [[nodiscard]] FwStatus run(Command& command, uint32_t& syndrome);
    /// The status that the injection for `of`, an opcode or kAnyCommand, gives this command.
    [[nodiscard]] std::optional<FwStatus> take_injection(uint16_t of, uint16_t opcode);

    CommandTable commands_;
    Users users_;
    bool verbose_ = true;
    std::map<uint16_t, Injection> injections_;
    std::map<uint16_t, CommandCounts> counts_;
    bool admin_up_ = true; ///< as the port state register says
    bool cable_ = true;
};

/// What the `cookie` of queues says about them (Linux: MLX5_EVENT_QUEUE_TYPE_*); for a virtio queue
/// it is the type of its general object.
inline constexpr uint64_t kQueueTypeQp = 0, kQueueTypeRq = 1, kQueueTypeSq = 2;

// One function per command family adds its commands to the table.
void add_hca_commands(CommandTable& table);
void add_simple_commands(CommandTable& table);
void add_user_commands(CommandTable& table);
void add_cq_commands(CommandTable& table);
void add_mkey_commands(CommandTable& table);
void add_queue_commands(CommandTable& table);
void add_pacing_commands(CommandTable& table);
void add_qp_commands(CommandTable& table);
void add_rss_commands(CommandTable& table);
void add_flow_commands(CommandTable& table);
void add_general_commands(CommandTable& table);
void add_rewrite_commands(CommandTable& table);
void add_steering_commands(CommandTable& table);
void add_vport_commands(CommandTable& table);
void add_register_commands(CommandTable& table);

} // namespace softhca::prm

/// An entry of the command table: opcode, name and input structure by the command's two spellings.
#define PRM_COMMAND(upper, lower, handler)                                                         \
    {                                                                                              \
        MLX5_CMD_OP_##upper, { #upper, PRM_BYTES(lower##_in), handler }                            \
    }
