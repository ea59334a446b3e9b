// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/firmware.hpp"

#include "common/net/parse.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace softhca::prm {
namespace {

constexpr size_t kStatusAt = 0, kSyndromeAt = 4, kAnswerHead = 16;
/// Shows a developer which side refused: this firmware, or an injection.
constexpr uint32_t kSyndromeRefused = 0x50f7ca, kSyndromeInjected = 0xbadc0d;

constexpr uint8_t kPortDown = 1, kPortActive = 4; // subtypes of a port change
constexpr uint8_t kDelayDropTimeout = 1;          // of a general event
constexpr uint8_t kPort1 = 0x10;
/// For a vport that no driver has configured otherwise.
constexpr core::Loopback kLoopback{.unicast = true, .multicast = true};

} // namespace

std::vector<uint64_t> Command::pages(size_t at, uint64_t count) const {
    std::vector<uint64_t> pages;
    for (; count != 0 && at + sizeof(uint64_t) <= in.size(); at += sizeof(uint64_t), count--)
        pages.push_back(net::load_be<uint64_t>(in.data() + at));
    return pages;
}

Firmware::Firmware(core::Device& core_device, Memory& driver_memory, EventSink& sink,
                   uint32_t speed, Users users)
    : device(core_device), memory(driver_memory), events(sink), vhca(core_device),
      caps(make_capabilities(users, vhca.id(), core_device.config().steering_format)),
      mac(core_device.config().mac), speed_mbps(speed), users_(users) {
    add_hca_commands(commands_);
    add_simple_commands(commands_);
    add_user_commands(commands_);
    add_cq_commands(commands_);
    add_mkey_commands(commands_);
    add_queue_commands(commands_);
    add_pacing_commands(commands_);
    add_qp_commands(commands_);
    add_rss_commands(commands_);
    add_flow_commands(commands_);
    add_general_commands(commands_);
    add_rewrite_commands(commands_);
    add_steering_commands(commands_);
    add_vport_commands(commands_);
    add_register_commands(commands_);
    device.add_listener(this);
}

Firmware::~Firmware() {
    device.remove_listener(this);
    reset();
}

std::optional<FwStatus> Firmware::take_injection(uint16_t of, uint16_t opcode) {
    const auto found = injections_.find(of);
    if (found == injections_.end()) return {};
    Injection& injection = found->second;
    if (std::ranges::find(injection.spared, opcode) != injection.spared.end()) return {};
    if (injection.skip != 0) {
        injection.skip--;
        return {};
    }
    const FwStatus status = injection.status;
    if (injection.count != 0 && --injection.count == 0) injections_.erase(found);
    return status;
}

FwStatus Firmware::run(Command& command, uint32_t& syndrome) {
    syndrome = kSyndromeRefused;
    const auto found = commands_.find(command.opcode);
    if (found == commands_.end()) return FwStatus::bad_operation;
    for (const uint16_t of : {command.opcode, kAnyCommand}) {
        if (const auto injected = take_injection(of, command.opcode)) {
            syndrome = kSyndromeInjected;
            return *injected;
        }
    }
    if (command.uid != 0 && command.uid != kSharedUid && !objects.look_up(Kind::uctx, command.uid))
        return FwStatus::bad_resource;
    if (command.in.size() < found->second.input_bytes) return FwStatus::bad_input_length;
    return found->second.handler(*this, command);
}

void Firmware::execute(Command& command) {
    if (command.in.size() < kAnswerHead) command.in.resize(kAnswerHead);
    if (command.out.size() < kAnswerHead) command.out.resize(kAnswerHead);
    command.opcode = net::load_be<uint16_t>(command.in.data());
    command.uid = net::load_be<uint16_t>(command.in.data() + 2);
    command.op_mod = net::load_be<uint16_t>(command.in.data() + 6);
    objects.act_for(command.uid);
    uint32_t syndrome = 0;
    const FwStatus status = run(command, syndrome);
    objects.act_for(0);
    const std::string culprit = objects.take_culprit();
    if (status == FwStatus::ok) {
        counts_[command.opcode].done++;
        return;
    }
    const auto found = commands_.find(command.opcode);
    if (found != commands_.end()) counts_[command.opcode].refused++;
    if (verbose_)
        std::fprintf(stderr, "softhca: command %#x (%s) op_mod %#x: status %#x%s%s\n",
                     command.opcode, found == commands_.end() ? "unknown" : found->second.name,
                     command.op_mod, static_cast<unsigned>(status), culprit.empty() ? "" : ": ",
                     culprit.c_str());
    // A refusal contains nothing else.
    std::ranges::fill(command.out, uint8_t{0});
    command.out[kStatusAt] = static_cast<uint8_t>(status);
    net::store_be(command.out.data() + kSyndromeAt, syndrome);
}

bool Firmware::inject(uint16_t opcode, Injection injection) {
    const bool pending = injections_.erase(opcode) != 0;
    if (injection.status != FwStatus::ok) injections_[opcode] = std::move(injection);
    return pending;
}

std::optional<uint16_t> Firmware::opcode_of(std::string_view name) const {
    for (const auto& [opcode, info] : commands_)
        if (name == info.name) return opcode;
    return {};
}

std::vector<uint16_t> Firmware::opcodes() const {
    std::vector<uint16_t> opcodes;
    for (const auto& [opcode, info] : commands_)
        opcodes.push_back(opcode);
    return opcodes;
}

std::map<std::string, CommandCounts> Firmware::command_counts() const {
    std::map<std::string, CommandCounts> counts;
    for (const auto& [opcode, count] : counts_)
        counts[commands_.at(opcode).name] = count;
    return counts;
}

void Firmware::set_admin_up(bool up) {
    admin_up_ = up;
    device.set_link(admin_up_ && cable_);
}

void Firmware::set_cable(bool plugged_in) {
    cable_ = plugged_in;
    device.set_link(admin_up_ && cable_);
}

void Firmware::report(core::AsyncEvent event, core::Number number) {
    const uint64_t queue_type = event == core::AsyncEvent::sq_fatal ? kQueueTypeSq : kQueueTypeRq;
    on_async(event, number, queue_type);
}

void Firmware::make_reserved_lkey() {
    if (reserved_lkey != 0) return;
    all_memory = memory.everything();
    const auto pd = device.alloc_pd();
    if (!pd) return;
    reserved_pd = *pd;
    const auto lkey = device.create_mkey({.pd = reserved_pd,
                                          .iova = 0,
                                          .length = all_memory.length(),
                                          .memory = all_memory,
                                          .local_write = true,
                                          .any_pd = true});
    if (lkey) reserved_lkey = *lkey;
}

void Firmware::reset() {
    // Nothing can be in use once its users are gone, so nothing is refused.
    device.destroy_all_flow_tables();
    for (uint8_t kind = 0; kind < kKinds; kind++) {
        for (const core::Number number : objects.numbers(static_cast<Kind>(kind))) {
            switch (static_cast<Kind>(kind)) {
            case Kind::tir: (void)device.destroy_tir(number); break;
            case Kind::rqt: (void)device.destroy_rqt(number); break;
            case Kind::virtq: (void)device.destroy_virtq(number); break;
            case Kind::virtq_counters: (void)device.destroy_virtq_counters(number); break;
            case Kind::rq: (void)device.destroy_rq(number); break;
            case Kind::sq: (void)device.destroy_sq(number); break;
            case Kind::qp: // known to it by their single ring, if they have one
                (void)device.destroy_sq(number);
                (void)device.destroy_rq(number);
                break;
            case Kind::cq: (void)device.destroy_cq(number); break;
            case Kind::mkey: // a request may have changed its variant
                if (const auto key = device.query_mkey(number))
                    (void)device.destroy_mkey(key->lkey);
                break;
            case Kind::sw_icm: (void)device.free_icm(icm_address(number)); break;
            case Kind::pd: (void)device.dealloc_pd(number); break;
            case Kind::q_counter: (void)device.destroy_q_counter(number); break;
            default: break;
            }
        }
    }
    if (reserved_lkey != 0) (void)device.destroy_mkey(reserved_lkey);
    if (reserved_pd != 0) (void)device.dealloc_pd(reserved_pd);
    reserved_lkey = reserved_pd = 0;
    flows = {};
    rates = {};
    device.set_delay_drop(0);
    events.clear();
    objects.clear();
    umems.clear();
    send_registers.clear();
    vport_context.clear();
    vport_lists.clear();
    std::ranges::fill(node_description, uint8_t{0});
    wanted_fec = 0;
    beacon_end = {};
    device.set_other_addresses({});
    device.set_loopback(kLoopback);
    device.set_vxlan_ports({});
    caps = make_capabilities(users_, vhca.id(), device.config().steering_format);
}

void Firmware::on_completion(core::Number cqn, uint64_t eqn) {
    EventData data{};
    net::store_be<uint32_t>(data.data() + 24, cqn);
    events.push(static_cast<uint32_t>(eqn), EventType::completion, 0, data);
}

void Firmware::on_async(core::AsyncEvent event, core::Number number, uint64_t cookie) {
    EventData data{};
    switch (event) {
    case core::AsyncEvent::port_active:
    case core::AsyncEvent::port_error:
        data[8] = kPort1;
        events.push_all(EventType::port_change,
                        event == core::AsyncEvent::port_active ? kPortActive : kPortDown, data);
        break;
    case core::AsyncEvent::cq_error:
        net::store_be<uint32_t>(data.data(), number);
        data[11] = 1; // syndrome: overrun
        events.push_all(EventType::cq_error, 0, data);
        break;
    case core::AsyncEvent::sq_fatal:
    case core::AsyncEvent::rq_fatal:
        data[20] = static_cast<uint8_t>(cookie);
        net::store_be<uint32_t>(data.data() + 24, number);
        events.push_all(EventType::wq_catastrophic, 0, data);
        break;
    case core::AsyncEvent::virtq_error:
        net::store_be<uint16_t>(data.data() + 2, static_cast<uint16_t>(cookie)); // its type
        net::store_be<uint32_t>(data.data() + 4, number);
        events.push_all(EventType::object_change, 0, data);
        break;
    case core::AsyncEvent::delay_drop_timeout:
        events.push_all(EventType::general, kDelayDropTimeout, data);
        break;
    case core::AsyncEvent::device_fatal: events.push_all(EventType::device_error, 0, data); break;
    }
}

} // namespace softhca::prm
