// SPDX-License-Identifier: BSD-3-Clause
// A device whose rules are hand-made entries in ICM, of any format.
#pragma once

#include "app/softhca/core/icm.hpp"
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "tests/unit/softhca/collector.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <cstring>

namespace testbed {

class SteBed : public Testbed {
  protected:
    static constexpr uint64_t kIcmBytes = 1 << 16;
    static constexpr std::byte kAll{0xff};

    explicit SteBed(uint8_t format) : Testbed(with_format(format)) {
        icm = *device->alloc_icm(IcmKind::steering, kIcmBytes);
        edits = *device->alloc_icm(IcmKind::header_edits, 4096);
        tir = direct_tir(rq);
        table = *device->create_flow_table({.icm_root = icm});
    }
    static DeviceConfig with_format(uint8_t format) {
        DeviceConfig config = default_config();
        config.steering_format = format;
        return config;
    }
    void receives() { EXPECT_TRUE(device->set_flow_table_root(table)); }
    /// The steering of sent packets begins with this entry.
    void sends(unsigned index) {
        const Number first =
            *device->create_flow_table({.sends = true, .icm_root = entry_at(index)});
        ASSERT_TRUE(device->set_flow_table_root(first, FlowRoot::transmit));
    }

    [[nodiscard]] uint64_t entry_at(unsigned index) const { return icm + index * ste::kEntryBytes; }
    [[nodiscard]] static uint64_t to_tir(Number tirn) {
        return ste::address_of(ste::Place::tir, tirn);
    }
    [[nodiscard]] static uint64_t to_drop() { return ste::address_of(ste::Place::drop); }
    [[nodiscard]] static uint64_t to_send() { return ste::address_of(ste::Place::send); }

    void write(uint64_t address, const void* data, size_t bytes) {
        const auto area = device->icm_area(address, bytes);
        ASSERT_TRUE(area);
        std::memcpy(area->at(0), data, bytes);
    }
    template <class Entry> void put_ste(unsigned index, const Entry& made) {
        static_assert(sizeof made == ste::kEntryBytes);
        write(entry_at(index), &made, sizeof made);
    }
    void receive(const Bytes& frame) {
        wire->incoming.push_back(frame);
        run();
    }
    /// Receives one packet. The result: what observers are told of its way, then what became of it.
    std::string traced(const Bytes& frame) {
        Collector collector{true};
        device->add_observer(collector);
        receive(frame);
        device->remove_observer(collector);
        EXPECT_EQ(collector.passages.size(), 1u);
        if (collector.passages.empty()) return "";
        return collector.first_way() + collector.passages.front().verdict;
    }
    /// Receives one packet, and returns it as delivered.
    Bytes passed(const Bytes& frame) {
        post_buffers(rq, 1);
        receive(frame);
        return packet_of(expect_packet(rx_cq));
    }
    void send(const Bytes& frame) {
        post_packet(frame);
        run();
    }

    uint64_t icm = 0, edits = 0;
    Number tir = 0, table = 0;
};

} // namespace testbed
