// SPDX-License-Identifier: BSD-3-Clause
// What entries of format 1 do to packets: actions in the entry itself and in lists.
#include "app/softhca/core/rings/mlx5/ste/v1/layout.hpp"

#include <cstring>
#include <optional>

namespace softhca::core::mlx5_rings::v1 {
namespace {

using ste::Action;

// ---------------------------------------------------------------- set, add and copy

/// Numbers of fields, of 32 bits each. Source: dr_ste_v1.h, DR_STE_V1_ACTION_MDFY_FLD_*.
namespace hw {
enum : uint8_t {
    l2_0 = 0x00,
    l2_1 = 0x01,
    l2_2 = 0x02,
    l2_source_0 = 0x08,
    l2_source_1 = 0x09,
    l3_0 = 0x0e,
    l4_0 = 0x18,
    l4_1 = 0x19,
    ipv4_0 = 0x40,
    ipv4_1 = 0x41,
    ipv6_destination_0 = 0x44,
    ipv6_source_0 = 0x4c,
    tcp_0 = 0x5e,
    tcp_1 = 0x5f,
    metadata_to_cqe = 0x7b,
    general_purpose = 0x7c,
    reg_2_0 = 0x8c,
    reg_2_1 = 0x8d,
    reg_1_0 = 0x8e,
    reg_1_1 = 0x8f,
    reg_0_0 = 0x90,
    reg_0_1 = 0x91,
};
} // namespace hw

constexpr EditRow kRows[] = {
    {hw::l2_0, 0, 31, EditField::dst_mac_high},
    {hw::l2_1, 16, 31, EditField::dst_mac_low},
    {hw::l2_1, 0, 15, EditField::ether_type},
    {hw::l2_2, 0, 15, EditField::vlan_tci},
    {hw::l2_source_0, 0, 31, EditField::src_mac_high},
    {hw::l2_source_1, 16, 31, EditField::src_mac_low},
    {hw::l3_0, 8, 15, EditField::ipv4_ttl},
    {hw::l3_0, 8, 15, EditField::ipv6_hop_limit},
    {hw::l3_0, 16, 17, EditField::ip_ecn},
    {hw::l3_0, 18, 23, EditField::ip_dscp},
    {hw::l4_0, 16, 31, EditField::tcp_src_port},
    {hw::l4_0, 16, 31, EditField::udp_src_port},
    {hw::l4_0, 0, 15, EditField::tcp_dst_port},
    {hw::l4_0, 0, 15, EditField::udp_dst_port},
    {hw::l4_1, 16, 24, EditField::tcp_flags},
    {hw::ipv4_0, 0, 31, EditField::src_ipv4},
    {hw::ipv4_1, 0, 31, EditField::dst_ipv4},
    {hw::ipv6_destination_0, 0, 31, after(EditField::dst_ipv6, 0)},
    {hw::ipv6_destination_0 + 1, 0, 31, after(EditField::dst_ipv6, 1)},
    {hw::ipv6_destination_0 + 2, 0, 31, after(EditField::dst_ipv6, 2)},
    {hw::ipv6_destination_0 + 3, 0, 31, after(EditField::dst_ipv6, 3)},
    {hw::ipv6_source_0, 0, 31, after(EditField::src_ipv6, 0)},
    {hw::ipv6_source_0 + 1, 0, 31, after(EditField::src_ipv6, 1)},
    {hw::ipv6_source_0 + 2, 0, 31, after(EditField::src_ipv6, 2)},
    {hw::ipv6_source_0 + 3, 0, 31, after(EditField::src_ipv6, 3)},
    {hw::tcp_0, 0, 31, EditField::tcp_sequence},
    {hw::tcp_1, 0, 31, EditField::tcp_ack},
    {hw::metadata_to_cqe, 0, 31, EditField::reg_b},
    {hw::general_purpose, 0, 31, EditField::reg_a},
    {hw::reg_0_0, 0, 31, after(EditField::reg_c, 0)},
    {hw::reg_0_1, 0, 31, after(EditField::reg_c, 1)},
    {hw::reg_1_0, 0, 31, after(EditField::reg_c, 2)},
    {hw::reg_1_1, 0, 31, after(EditField::reg_c, 3)},
    {hw::reg_2_0, 0, 31, after(EditField::reg_c, 4)},
    {hw::reg_2_1, 0, 31, after(EditField::reg_c, 5)},
};

/// Shifts count from the preceding field. Empty: it is outside the field.
std::optional<EditRange> range_of(uint8_t field, uint8_t shift, uint8_t length) {
    const unsigned first = shift & kShiftMask, given = length & kShiftMask;
    if (first < kFieldShift) return {};
    return EditRange{field, first - kFieldShift, given == 0 ? 32 : given};
}

bool add_edits(const ModifyAction& action, std::vector<HeaderStep>& steps) {
    const auto to = range_of(action.field, action.shift, action.length);
    if (!to) return false;
    const uint32_t data = action.data;
    switch (static_cast<ActionId>(action.id)) {
    case ActionId::set: add_value_edits(kRows, HeaderEdit::Kind::set, *to, data, steps); break;
    case ActionId::add: add_value_edits(kRows, HeaderEdit::Kind::add, *to, data, steps); break;
    default: {
        const auto from = range_of(static_cast<uint8_t>(data >> 16),
                                   static_cast<uint8_t>(data >> 8), action.length);
        if (!from) return false;
        add_copy_edits(kRows, *to, *from, steps);
    }
    }
    return true;
}

// ---------------------------------------------------------------- headers come and go

std::optional<Anchor> anchor_of(uint8_t number) {
    switch (static_cast<HeaderAnchor>(number & kAnchorMask)) {
    case HeaderAnchor::start: return Anchor::start;
    case HeaderAnchor::first_vlan: return Anchor::first_vlan;
    case HeaderAnchor::l3: return Anchor::l3;
    case HeaderAnchor::inner_l2: return Anchor::inner_l2;
    case HeaderAnchor::inner_l3: return Anchor::inner_l3;
    }
    return {};
}

std::optional<HeaderStep> remove_to_header(const RemoveToHeaderAction& action) {
    const auto from = anchor_of(action.start_anchor), to = anchor_of(action.end_anchor);
    if (!from || !to) return {};
    return HeaderStep{.kind = HeaderStep::Kind::remove_to, .from = *from, .to = *to};
}

std::optional<HeaderStep> remove_by_size(const RemoveBySizeAction& action) {
    const auto from = anchor_of(action.start_anchor);
    if (!from) return {};
    const uint32_t word = action.offset_size;
    return HeaderStep{.kind = HeaderStep::Kind::remove,
                      .from = *from,
                      .offset = static_cast<uint16_t>((word >> 7 & 0x7f) * kHeaderWord),
                      .bytes = static_cast<uint16_t>((word & 0x3f) * kHeaderWord)};
}

/// The position, provided that it is a valid one.
std::optional<HeaderStep> insert_at(const InsertAction& action, HeaderStep::Kind kind) {
    const auto from = anchor_of(action.start_anchor);
    if (!from) return {};
    const uint32_t word = action.offset_size;
    return HeaderStep{.kind = kind,
                      .from = *from,
                      .offset = static_cast<uint16_t>((word >> 9 & 0x7f) * kHeaderWord)};
}

std::optional<HeaderStep> insert_inline(const InsertAction& action) {
    auto step = insert_at(action, HeaderStep::Kind::insert);
    if (!step) return {};
    step->bytes = sizeof action.data;
    std::memcpy(step->data.data(), &action.data, sizeof action.data);
    return step;
}

// ---------------------------------------------------------------- reading them

template <class T> std::optional<T> as(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(T)) return {};
    T action;
    std::memcpy(&action, bytes.data(), sizeof action);
    return action;
}

uint32_t load_24(const std::array<uint8_t, 3>& bytes) {
    return uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 8 | bytes[2];
}

bool add_step(const std::optional<HeaderStep>& step, ste::Entry& entry) {
    return step && entry.add(step_of(*step));
}

bool add_modify(const ModifyAction& action, ste::Entry& entry) {
    Action edit{.kind = Action::Kind::edit};
    std::memcpy(edit.edit.data(), &action, sizeof action);
    return entry.add(edit);
}

bool add_encap(const InsertAction& action, ste::Entry& entry) {
    const auto step = insert_at(action, HeaderStep::Kind::encap);
    return step && entry.add({.kind = Action::Kind::encap, .step = *step, .number = action.data});
}

bool add_list(const ModifyListAction& action, ste::Entry& entry) {
    return entry.add({.kind = Action::Kind::edits,
                      .count = action.count,
                      .edits_from = uint64_t{action.list} * kEditListUnit});
}

bool add_pattern(const AcceleratedListAction& action, ste::Entry& entry) {
    return entry.add({.kind = Action::Kind::pattern,
                      .number = load_24(action.argument),
                      .count = action.count,
                      .edits_from = uint64_t{load_24(action.pattern)} * kEditListUnit});
}

bool add_meter(const AsoAction& action, ste::Entry& entry) {
    if ((action.reg_type & 0xf) != kAsoMeters) return false;
    const uint32_t word = action.meter;
    // In a pair of registers, the color is in the odd one.
    return entry.add({.kind = Action::Kind::meter,
                      .number = load_24(action.object),
                      .meter = static_cast<uint8_t>(word & 1),
                      .reg_c = static_cast<uint8_t>((action.reg_type >> 6) * 2 + 1),
                      .before = static_cast<Color>(word >> 1 & 3)});
}

/// Size of the first action; 0: it is not a valid action, or there is no room for it.
size_t read_action(std::span<const std::byte> bytes, ste::Entry& entry) {
    const auto take = [&]<class T>(bool (*add)(const T&, ste::Entry&)) -> size_t {
        const auto action = as<T>(bytes);
        return action && add(*action, entry) ? sizeof(T) : 0;
    };
    switch (static_cast<ActionId>(bytes.front())) {
    case ActionId::none: return kSingleBytes;
    case ActionId::set:
    case ActionId::add:
    case ActionId::copy: return take(add_modify);
    case ActionId::remove_by_size:
        return take(+[](const RemoveBySizeAction& action, ste::Entry& to) {
            return add_step(remove_by_size(action), to);
        });
    case ActionId::remove_to_header:
        return take(+[](const RemoveToHeaderAction& action, ste::Entry& to) {
            return add_step(remove_to_header(action), to);
        });
    case ActionId::insert_inline:
        return take(+[](const InsertAction& action, ste::Entry& to) {
            return add_step(insert_inline(action), to);
        });
    case ActionId::insert_pointer: return take(add_encap);
    case ActionId::flow_tag:
        return take(+[](const FlowTagAction& action, ste::Entry& to) {
            to.flow_tag = load_24(action.tag);
            return true;
        });
    case ActionId::modify_list: return take(add_list);
    case ActionId::accelerated_list: return take(add_pattern);
    case ActionId::aso: return take(add_meter);
    }
    return 0;
}

} // namespace

bool read_actions(std::span<const std::byte> bytes, ste::Entry& entry) {
    while (!bytes.empty()) {
        const size_t taken = read_action(bytes, entry);
        if (taken == 0) return false;
        bytes = bytes.subspan(taken);
    }
    return true;
}

/// For a list, where each action has room for a double one.
bool read_edit(ste::RawEdit raw, std::vector<HeaderStep>& steps) {
    std::optional<HeaderStep> step;
    switch (static_cast<ActionId>(raw.front())) {
    case ActionId::none: return true;
    case ActionId::set:
    case ActionId::add:
    case ActionId::copy: return add_edits(*as<ModifyAction>(raw), steps);
    case ActionId::remove_by_size: step = remove_by_size(*as<RemoveBySizeAction>(raw)); break;
    case ActionId::remove_to_header: step = remove_to_header(*as<RemoveToHeaderAction>(raw)); break;
    case ActionId::insert_inline: step = insert_inline(*as<InsertAction>(raw)); break;
    default: return false;
    }
    if (step) steps.push_back(*step);
    return step.has_value();
}

} // namespace softhca::core::mlx5_rings::v1
