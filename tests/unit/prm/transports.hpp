// SPDX-License-Identifier: BSD-3-Clause
// The two ways to send commands to firmware: through a guest's command queue, and from a process.
// Commands return the same statuses either way.
#pragma once

#include "app/softhca/uverbs/devx/port_firmware.hpp"
#include "tests/unit/pci/guest.hpp"

#include <functional>

namespace prm_test {

inline constexpr size_t kPage = 4096, kPages = 8;

/// A way to send commands to firmware, and what a driver has there.
class Transport {
  public:
    virtual ~Transport() = default;
    virtual Answer run(Request request) = 0;
    [[nodiscard]] virtual core::Device& device() = 0;
    [[nodiscard]] virtual testbed::FakeWire& wire() = 0;
    [[nodiscard]] virtual std::byte* pages() = 0; ///< what is at `memory`
    [[nodiscard]] virtual std::vector<uint16_t> opcodes() = 0;
    uint64_t memory = 0; ///< address of kPages zeroed pages
    Number eq = 0, uar = 0;
};

class GuestTransport final : public Transport, private pci_test::Guest {
  public:
    using Guest::kMemory, Guest::kSlotBytes;

    explicit GuestTransport(uint8_t steering_format = 0) : Guest(steering_format) {
        start_driver();
        memory = alloc(kPages * kPage);
        Transport::eq = Guest::eq;
        Transport::uar = Guest::uar;
    }
    Answer run(Request request) override { return execute(request); }
    [[nodiscard]] core::Device& device() override { return *Guest::device; }
    [[nodiscard]] testbed::FakeWire& wire() override { return *Guest::wire; }
    [[nodiscard]] std::byte* pages() override { return at(memory); }
    [[nodiscard]] std::vector<uint16_t> opcodes() override {
        return function->with_firmware([](Firmware& firmware) { return firmware.opcodes(); });
    }
    using Guest::post;

  private:
    void TestBody() override {}
};

class ProcessTransport final : public Transport {
  public:
    explicit ProcessTransport(uint8_t steering_format = 0)
        : ProcessTransport(std::make_unique<testbed::FakeWire>(), steering_format) {
        const auto start = reinterpret_cast<uint64_t>(storage_.data());
        memory = (start + kPage - 1) & ~(kPage - 1);
        eq = uverbs::PortFirmware::eq_of(0);
        uar = firmware_.with_firmware([](Firmware& firmware) {
            firmware.objects.act_for(kSharedUid);
            constexpr Number kUar = pci::BarLayout::kFirstUar; // as the guest's
            firmware.objects.add(Kind::uar, kUar, {});
            firmware.objects.act_for(0);
            return kUar;
        });
    }
    Answer run(Request request) override {
        constexpr Field kUid{16, 16};
        Answer answer;
        answer.out.resize(1024);
        const auto uid =
            static_cast<uint16_t>(Fields(request.in.data(), request.in.size()).get(kUid));
        (void)firmware_.execute(request.in, answer.out, uid);
        return answer;
    }
    [[nodiscard]] core::Device& device() override { return device_; }
    [[nodiscard]] testbed::FakeWire& wire() override { return wire_; }
    [[nodiscard]] std::byte* pages() override { return reinterpret_cast<std::byte*>(memory); }
    [[nodiscard]] std::vector<uint16_t> opcodes() override {
        return firmware_.with_firmware([](Firmware& firmware) { return firmware.opcodes(); });
    }
    [[nodiscard]] uverbs::PortFirmware& firmware() { return firmware_; }

  private:
    ProcessTransport(std::unique_ptr<testbed::FakeWire> wire, uint8_t steering_format)
        : wire_(*wire), device_{core::DeviceConfig{.mac = {2, 0, 0, 0, 0, 1},
                                                   .steering_format = steering_format},
                                std::move(wire), nullptr} {}

    testbed::FakeWire& wire_; ///< the device's
    std::vector<std::byte> storage_ = std::vector<std::byte>((kPages + 1) * kPage);
    core::Device device_;
    uverbs::PortFirmware firmware_{device_, 100000};
};

struct Named {
    const char* name;
    std::function<std::unique_ptr<Transport>()> make;
};

/// Test parameters: both ways, and their names.
[[nodiscard]] inline auto transports(uint8_t steering_format = 0) {
    return testing::Values(
        Named{"Guest", [=] { return std::make_unique<GuestTransport>(steering_format); }},
        Named{"Process", [=] { return std::make_unique<ProcessTransport>(steering_format); }});
}
[[nodiscard]] inline std::string name_of(const testing::TestParamInfo<Named>& test) {
    return test.param.name;
}

/// Two independent users of the firmware, and its driver (uid 0).
class TransportTest : public testing::TestWithParam<Named> {
  protected:
    static constexpr Field kUid{16, 16};

    TransportTest()
        : transport(GetParam().make()), mine(new_user(kRawTransmit)), other(new_user(0)) {}
    static Request by(uint16_t uid, Request request) { return request.set(kUid, uid); }
    Answer run(const Request& request) { return transport->run(request); }
    FwStatus status(const Request& request) { return run(request).status(); }
    Number made(const Request& request) {
        const Answer answer = run(request);
        EXPECT_EQ(answer.status(), FwStatus::ok)
            << "opcode " << std::hex << net::load_be<uint16_t>(request.in.data());
        return answer.number();
    }
    uint16_t new_user(uint32_t caps) {
        return static_cast<uint16_t>(
            run(REQUEST(CREATE_UCTX, create_uctx)
                    .set(inside(PRM(create_uctx_in, uctx), PRM(uctx, cap)), caps))
                .get(PRM(create_uctx_out, uid)));
    }

    std::unique_ptr<Transport> transport;
    uint16_t mine, other;
};

} // namespace prm_test
