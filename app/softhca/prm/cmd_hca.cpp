// SPDX-License-Identifier: BSD-3-Clause
// Commands about the HCA as a whole: enable, initialise, capabilities, identity.
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/identity.hpp"
#include "app/softhca/prm/firmware.hpp"

#include <algorithm>

namespace softhca::prm {
namespace {

constexpr size_t kCapsAt = 16; // of both the input of SET and the output of QUERY

FwStatus accept(Firmware&, Command&) { return FwStatus::ok; }

FwStatus query_issi(Firmware&, Command& command) {
    // Interface steps 0 and 1.
    command.output().set(PRM(query_issi_out, supported_issi_dw0), 0b11);
    return FwStatus::ok;
}

FwStatus set_issi(Firmware&, Command& command) {
    return command.input().get(PRM(set_issi_in, current_issi)) <= 1 ? FwStatus::ok
                                                                    : FwStatus::bad_parameter;
}

FwStatus init_hca(Firmware& firmware, Command&) {
    firmware.make_reserved_lkey();
    return FwStatus::ok;
}

FwStatus teardown_hca(Firmware& firmware, Command&) {
    firmware.reset();
    return FwStatus::ok;
}

FwStatus query_hca_cap(Firmware& firmware, Command& command) {
    const auto type = static_cast<CapType>(command.op_mod >> 1);
    const bool current = (command.op_mod & 1) != 0;
    const auto& pages = current ? firmware.caps.current : firmware.caps.maximum;
    const auto found = pages.find(type);
    // Unsupported kinds of capabilities are all zero.
    if (found != pages.end() && command.out.size() > kCapsAt)
        std::copy_n(found->second.begin(),
                    std::min(found->second.size(), command.out.size() - kCapsAt),
                    command.out.begin() + kCapsAt);
    return FwStatus::ok;
}

FwStatus set_hca_cap(Firmware& firmware, Command& command) {
    const auto found = firmware.caps.current.find(static_cast<CapType>(command.op_mod >> 1));
    if (found == firmware.caps.current.end()) return FwStatus::bad_parameter;
    const size_t bytes = std::min(found->second.size(), command.in.size() - kCapsAt);
    std::copy_n(command.in.begin() + kCapsAt, bytes, found->second.begin());
    return FwStatus::ok;
}

FwStatus query_adapter(Firmware&, Command& command) {
    const Fields psid =
        command.output().at(PRM(query_adapter_out, query_adapter_struct.vsd_contd_psid[0]));
    command.output().set(PRM(query_adapter_out, query_adapter_struct.ieee_vendor_id), kVendorId);
    std::copy_n(kBoardId, std::min(sizeof kBoardId, psid.size()), psid.data());
    return FwStatus::ok;
}

FwStatus query_special_contexts(Firmware& firmware, Command& command) {
    Fields out = command.output();
    out.set(PRM(query_special_contexts_out, resd_lkey), firmware.reserved_lkey);
    out.set(PRM(query_special_contexts_out, dump_fill_mkey), core::kDumpFillKey);
    out.set(PRM(query_special_contexts_out, null_mkey), core::kNullKey);
    return FwStatus::ok;
}

} // namespace

void add_hca_commands(CommandTable& table) {
    table.insert({
        PRM_COMMAND(ENABLE_HCA, enable_hca, accept),
        PRM_COMMAND(DISABLE_HCA, disable_hca, accept),
        PRM_COMMAND(INIT_HCA, init_hca, init_hca),
        PRM_COMMAND(TEARDOWN_HCA, teardown_hca, teardown_hca),
        PRM_COMMAND(QUERY_HCA_CAP, query_hca_cap, query_hca_cap),
        {MLX5_CMD_OP_SET_HCA_CAP, {"SET_HCA_CAP", kCapsAt + 1, set_hca_cap}},
        PRM_COMMAND(QUERY_ISSI, query_issi, query_issi),
        PRM_COMMAND(SET_ISSI, set_issi, set_issi),
        PRM_COMMAND(SET_DRIVER_VERSION, set_driver_version, accept),
        PRM_COMMAND(QUERY_ADAPTER, query_adapter, query_adapter),
        PRM_COMMAND(QUERY_SPECIAL_CONTEXTS, query_special_contexts, query_special_contexts),
    });
}

} // namespace softhca::prm
