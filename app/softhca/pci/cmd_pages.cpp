// SPDX-License-Identifier: BSD-3-Clause
// Memory that the driver lends to the firmware. None is needed, but a driver takes other paths when
// firmware asks for nothing, so this asks for a little.
#include "app/softhca/pci/commands.hpp"

#include <algorithm>

namespace softhca::pci {
namespace {

using namespace prm;

constexpr uint16_t kAtBoot = 1, kAtInit = 2;                // op_mod of QUERY_PAGES
constexpr uint16_t kCannotGive = 0, kGive = 1, kReturn = 2; // op_mod of MANAGE_PAGES
constexpr size_t kPagesAt = 16;
constexpr uint32_t kBootPages = 8, kInitPages = 24;
/// What a driver may lend: far more than is requested, but not so much that its list matters.
constexpr size_t kMostPages = 1u << 16;

FwStatus query_pages(Firmware&, Command& command) {
    const uint32_t wanted = command.op_mod == kAtBoot   ? kBootPages
                            : command.op_mod == kAtInit ? kInitPages
                                                        : 0;
    command.output().set(PRM(query_pages_out, num_pages), wanted);
    return FwStatus::ok;
}

FwStatus manage_pages(std::vector<uint64_t>& given, Command& command) {
    const auto entries = command.input().get(PRM(manage_pages_in, input_num_entries));
    if (command.op_mod == kCannotGive) return FwStatus::ok;
    if (command.op_mod == kGive) {
        const auto pages = command.pages(kPagesAt, entries);
        if (pages.size() != entries) return FwStatus::bad_input_length;
        if (pages.size() > kMostPages - given.size()) return FwStatus::exceeded_limit;
        given.insert(given.end(), pages.begin(), pages.end());
        return FwStatus::ok;
    }
    if (command.op_mod != kReturn) return FwStatus::bad_parameter;
    const size_t room = (command.out.size() - kPagesAt) / sizeof(uint64_t);
    const size_t count = std::min<size_t>({entries, given.size(), room});
    for (size_t i = 0; i < count; i++) {
        net::store_be(command.out.data() + kPagesAt + i * sizeof(uint64_t), given.back());
        given.pop_back();
    }
    command.output().set(PRM(manage_pages_out, output_num_entries), count);
    return FwStatus::ok;
}

} // namespace

void add_page_commands(CommandTable& table, std::vector<uint64_t>& given_pages) {
    const auto manage = [&](Firmware&, Command& command) {
        return manage_pages(given_pages, command);
    };
    table.insert({
        PRM_COMMAND(QUERY_PAGES, query_pages, query_pages),
        PRM_COMMAND(MANAGE_PAGES, manage_pages, manage),
    });
}

} // namespace softhca::pci
