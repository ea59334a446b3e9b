// SPDX-License-Identifier: BSD-3-Clause
// A PCI function driven by hand: guest memory in a memfd, commands through the real command queue,
// no threads.
#pragma once

#include "app/softhca/pci/function.hpp"
#include "common/fd.hpp"
#include "tests/unit/prm/request.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <vector>

namespace pci_test {

using namespace softhca;
using namespace softhca::pci;
using namespace softhca::prm;
using namespace prm_test;
using core::Number;

struct Message {
    uint64_t address;
    uint32_t data;
};

/// The function, its guest's memory, and what a driver has once it has started.
class Guest : public testing::Test {
  protected:
    static constexpr uint64_t kMemory = 32u << 20;
    static constexpr size_t kPage = 4096, kSlotBytes = 64;

    explicit Guest(uint8_t steering_format = 0);
    ~Guest() override;

    /// Zeroed, page-aligned memory of the guest. Never freed.
    [[nodiscard]] uint64_t alloc(size_t bytes);
    [[nodiscard]] std::byte* at(uint64_t address) { return memory_ + address; }

    /// Runs a command in slot 0; `out_bytes` is the room for its answer.
    Answer execute(const Request& request, size_t out_bytes = 1024);
    /// Posts these bytes, whatever they are, in slot 0; returns its last byte after the doorbell.
    uint8_t post(std::span<const uint8_t, kSlotBytes> slot);
    [[nodiscard]] FwStatus status_of(const Request& request) { return execute(request).status(); }
    /// Runs a command that creates an object; returns its number. Fails the test if it is refused.
    Number made(const Request& request);
    void poll() {
        while (device->poll() != 0) {
        }
    }

    [[nodiscard]] uint32_t read_register(uint64_t at) {
        return net::to_be(static_cast<uint32_t>(function->bar_read(at, 4)));
    }
    void write_register(uint64_t at, uint32_t value) {
        function->bar_write(at, net::to_be(value), 4);
    }

    void load_driver(); ///< after a reset: the command queue, then start_driver()

    // Objects as a driver creates them.
    void start_driver(); ///< HCA up; UAR, EQ, PD and transport domain created
    [[nodiscard]] Request cq_request(uint8_t log_entries, uint64_t doorbell);
    [[nodiscard]] Request sq_request(Number cqn, Number tis);
    [[nodiscard]] Request rq_request(Number cqn);
    [[nodiscard]] Request tir_request(Number rqn);
    [[nodiscard]] Request rqt_request(const std::vector<Number>& rqns);
    [[nodiscard]] Request table_request(uint8_t level = 0, uint8_t type = 0);
    [[nodiscard]] Request group_request(Number table, uint32_t first, uint32_t last);
    [[nodiscard]] Request entry_request(Number table, Number group, uint32_t index, Number tir);
    [[nodiscard]] Request root_request(Number table, uint8_t type = 0);
    [[nodiscard]] Request modify_rq(Number rqn, uint8_t from, uint8_t to);
    [[nodiscard]] Request mkey_request(uint64_t memory, uint64_t bytes);
    void enable_msix();

    Fd memory_file; ///< the guest's memory
    testbed::FakeWire* wire = nullptr;
    std::unique_ptr<core::Device> device;
    std::unique_ptr<Function> function;
    std::vector<Message> messages; ///< MSI-X messages that were delivered
    Number uar = 0, eq = 0, pd = 0, domain = 0;
    uint64_t eq_ring = 0;

  private:
    void set_command_queue();

    std::byte* memory_ = nullptr;
    uint64_t next_ = 1u << 20;
};

} // namespace pci_test
