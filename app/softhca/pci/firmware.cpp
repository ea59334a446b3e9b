// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/firmware.hpp"

#include <cstdio>

namespace softhca::pci {
namespace {

constexpr size_t kStatusAt = 0, kSyndromeAt = 4, kAnswerHead = 16;
/// Tells a developer which side refused: this firmware, or an injection.
constexpr uint32_t kSyndromeRefused = 0x50f7ca, kSyndromeInjected = 0xbadc0d;

constexpr uint8_t kPortDown = 1, kPortActive = 4; // subtypes of a port change
constexpr uint8_t kPort1 = 0x10;

} // namespace

std::vector<uint64_t> Command::pages(size_t at, uint64_t count) const {
    std::vector<uint64_t> pages;
    for (; count != 0 && at + sizeof(uint64_t) <= in.size(); at += sizeof(uint64_t), count--)
        pages.push_back(net::load_be<uint64_t>(in.data() + at));
    return pages;
}

Firmware::Firmware(core::Device& core_device, GuestMemory& guest_memory, Interrupts& interrupts,
                   uint32_t speed)
    : device(core_device), memory(guest_memory), events(interrupts), caps(make_capabilities()),
      mac(core_device.config().mac), speed_mbps(speed) {
    add_hca_commands(commands_);
    add_page_commands(commands_);
    add_simple_commands(commands_);
    add_eq_commands(commands_);
    add_cq_commands(commands_);
    add_mkey_commands(commands_);
    add_queue_commands(commands_);
    add_qp_commands(commands_);
    add_rss_commands(commands_);
    add_flow_commands(commands_);
    add_vport_commands(commands_);
    add_register_commands(commands_);
    device.add_listener(this);
}

Firmware::~Firmware() {
    device.remove_listener(this);
    reset();
}

void Firmware::execute(Command& command) {
    if (command.in.size() < kAnswerHead) command.in.resize(kAnswerHead);
    if (command.out.size() < kAnswerHead) command.out.resize(kAnswerHead);
    command.opcode = net::load_be<uint16_t>(command.in.data());
    command.op_mod = net::load_be<uint16_t>(command.in.data() + 6);
    FwStatus status = FwStatus::bad_operation;
    uint32_t syndrome = kSyndromeRefused;
    const auto found = commands_.find(command.opcode);
    if (const auto injected = injected_.find(command.opcode); injected != injected_.end()) {
        status = injected->second;
        syndrome = kSyndromeInjected;
    } else if (found != commands_.end()) {
        status = command.in.size() < found->second.input_bytes
                     ? FwStatus::bad_input_length
                     : found->second.handler(*this, command);
    }
    if (status == FwStatus::ok) return;
    const std::string culprit = objects.take_culprit();
    std::fprintf(stderr, "softhca-pci: command %#x (%s) op_mod %#x: status %#x%s%s\n",
                 command.opcode, found == commands_.end() ? "unknown" : found->second.name,
                 command.op_mod, static_cast<unsigned>(status), culprit.empty() ? "" : ": ",
                 culprit.c_str());
    command.out[kStatusAt] = static_cast<uint8_t>(status);
    net::store_be(command.out.data() + kSyndromeAt, syndrome);
}

void Firmware::inject(uint16_t opcode, FwStatus status) {
    if (status == FwStatus::ok)
        injected_.erase(opcode);
    else
        injected_[opcode] = status;
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
    // Nothing can be in use any more once its users are gone, so nothing is refused.
    device.destroy_all_flow_tables();
    for (uint8_t kind = 0; kind < kKinds; kind++) {
        for (const core::Number number : objects.numbers(static_cast<Kind>(kind))) {
            switch (static_cast<Kind>(kind)) {
            case Kind::tir: (void)device.destroy_tir(number); break;
            case Kind::rqt: (void)device.destroy_rqt(number); break;
            case Kind::rq: (void)device.destroy_rq(number); break;
            case Kind::sq: (void)device.destroy_sq(number); break;
            case Kind::cq: (void)device.destroy_cq(number); break;
            case Kind::mkey:
                (void)device.destroy_mkey(objects.find(Kind::mkey, number)->detail);
                break;
            case Kind::pd: (void)device.dealloc_pd(number); break;
            default: break;
            }
        }
    }
    if (reserved_lkey != 0) (void)device.destroy_mkey(reserved_lkey);
    if (reserved_pd != 0) (void)device.dealloc_pd(reserved_pd);
    reserved_lkey = reserved_pd = 0;
    group_masks.clear();
    events.clear();
    objects.clear();
    given_pages.clear();
    vport_context.clear();
    vport_lists.clear();
    caps = make_capabilities();
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
    case core::AsyncEvent::device_fatal: events.push_all(EventType::device_error, 0, data); break;
    }
}

} // namespace softhca::pci
