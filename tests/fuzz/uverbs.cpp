// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/commands.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fuzz {
namespace {

using namespace softhca;
using namespace softhca::uverbs;

constexpr size_t kMostCommands = 64;
constexpr size_t kPage = 4096, kPages = 16;
constexpr int kMostDescriptors = 1024;
constexpr uint32_t kUar = 0xfe;
constexpr int kAddressBits = 48; ///< of a program, at most

/// The memory that the program may name as rings, doorbell records and regions. It is unmapped on
/// either side, so that a device that goes beyond it is noticed.
class Arena {
  public:
    Arena()
        : start_(static_cast<uint8_t*>(mmap(nullptr, (kPages + 2) * kPage, PROT_NONE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) +
                 kPage) {
        mprotect(start_, kPages * kPage, PROT_READ | PROT_WRITE);
    }
    [[nodiscard]] std::span<uint8_t> page(size_t index) const {
        return {start_ + index % kPages * kPage, kPage};
    }
    [[nodiscard]] uint64_t address(size_t page) const {
        return reinterpret_cast<uint64_t>(this->page(page).data());
    }
    [[nodiscard]] bool holds(uint64_t address) const {
        return address - this->address(0) < kPages * kPage;
    }
    void clear() const { std::memset(start_, 0, kPages * kPage); }

  private:
    uint8_t* start_;
};

/// The kernel's side: one device, which works between commands.
struct Machine {
    explicit Machine(std::unique_ptr<testbed::FakeWire> own_wire)
        : wire(own_wire.get()),
          device({.name = "mlx5_0", .mac = {2, 0, 0, 0, 0, 1}}, std::move(own_wire), nullptr) {
        port.device = &device;
        device.set_link(true);
    }
    static PortConfig port_config() {
        PortConfig config;
        config.device = "mlx5_0";
        config.pci = "0000:ca:00.0";
        config.netdev = "softhca0";
        return config;
    }
    [[nodiscard]] nlohmann::json objects() const { return device.stats()["objects"]; }

    testbed::FakeWire* wire; ///< owned by the device
    core::Device device;
    PortConfig config = port_config();
    ClockPage clock;
    Port port{config, 0, "/nonexistent", clock};
    Arena arena;
};

/// The program: its structs and its space for answers end where their memory ends.
class Player {
  public:
    Player(Machine& machine, Input input)
        : machine_(machine), input_(input), context_(machine.port) {}

    std::string run() {
        const uint8_t flags = input_.byte();
        if (attach(context_, machine_.device, (flags & 1) != 0)) return "the context was refused";
        if (!make_uar()) return "there is no UAR";
        for (size_t i = 0; i < kMostCommands && !input_.empty(); ++i) {
            const uint8_t what = input_.byte();
            if ((what & 3) == 0)
                work();
            else if ((what & 7) == 5)
                frame();
            else
                command((what & 3) == 1);
        }
        work();
        return "";
    }

  private:
    /// The one that queues name. It has no handle, so that the first one is a PD's.
    bool make_uar() {
        if (context_.add_doorbell_page(kUar)) return false;
        uar_ = context_.map_registers(kUar);
        context_.send_registers[kUar] = uar_;
        return uar_ != nullptr;
    }
    /// With a header in memory, as in the system call.
    void send(uint16_t object, uint16_t method) {
        const size_t bytes =
            sizeof(ib_uverbs_ioctl_hdr) + attributes_.size() * sizeof attributes_[0];
        std::vector<uint64_t> words(bytes / sizeof(uint64_t));
        auto& header = *reinterpret_cast<ib_uverbs_ioctl_hdr*>(words.data());
        header.length = static_cast<uint16_t>(bytes);
        header.object_id = object;
        header.method_id = method;
        header.num_attrs = static_cast<uint16_t>(attributes_.size());
        header.driver_id = RDMA_DRIVER_MLX5;
        std::ranges::copy(attributes_, header.attrs);
        (void)context_.ioctl(&header);
        attributes_.clear();
        memory_.clear();
    }
    /// As write(2) passes it.
    void frame() {
        const std::vector<uint8_t>& bytes = filled(4u * input_.byte());
        (void)context_.on_write(bytes.data(), bytes.size());
        memory_.clear();
    }
    void command(bool classic) {
        if (classic) {
            const uint8_t number = input_.byte();
            constexpr uint8_t kExtended = 0x80;
            in_place(UVERBS_ATTR_WRITE_CMD,
                     (number & ~kExtended) |
                         (number & kExtended ? IB_USER_VERBS_CMD_FLAG_EXTENDED : 0u));
            for (const uint16_t id : {uint16_t{UVERBS_ATTR_CORE_IN}, uint16_t{UVERBS_ATTR_UHW_IN}})
                by_pointer(id, 4u * input_.byte());
            for (const uint16_t id :
                 {uint16_t{UVERBS_ATTR_CORE_OUT}, uint16_t{UVERBS_ATTR_UHW_OUT}})
                answer(id, 4u * input_.byte());
            return send(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
        }
        const uint16_t object = id(), method = id();
        for (uint8_t count = input_.byte() % 16; count > 0; --count) {
            const uint8_t how = input_.byte();
            const uint16_t attribute = id();
            switch (how & 3) {
            case 0: in_place(attribute, input_.byte(), 0); break;
            case 1: by_pointer(attribute, 4u * input_.byte()); break;
            case 2: answer(attribute, 4u * input_.byte()); break;
            default: {
                uint64_t value = 0;
                input_.fill({reinterpret_cast<uint8_t*>(&value), sizeof value});
                if ((how & 4) != 0) value = machine_.arena.address(value);
                in_place(attribute, safe(value), static_cast<uint16_t>(how >> 3 & 8));
            }
            }
            attributes_.back().attr_data.enum_data.elem_id = how >> 3;
        }
        send(object, method);
    }
    /// The driver's IDs start at a number of their own.
    uint16_t id() {
        constexpr uint8_t kDriver = 0x80;
        const uint8_t byte = input_.byte();
        return static_cast<uint16_t>((byte & ~kDriver) |
                                     (byte & kDriver ? 1u << UVERBS_ID_NS_SHIFT : 0u));
    }

    void in_place(uint16_t id, uint64_t value, uint16_t length = sizeof(uint64_t)) {
        ib_uverbs_attr attribute{};
        attribute.attr_id = id;
        attribute.len = length;
        attribute.data = value;
        attributes_.push_back(attribute);
    }
    /// Bytes of the input, with addresses of the arena in some places.
    std::vector<uint8_t>& filled(size_t size) {
        std::vector<uint8_t>& bytes = memory_.emplace_back(size);
        input_.fill(bytes);
        for (uint8_t patches = input_.byte() % 4; patches > 0; --patches) {
            const size_t at = 4u * input_.byte();
            const uint8_t where = input_.byte();
            if (at + sizeof(uint64_t) > size) continue;
            const uint64_t address = machine_.arena.address(where >> 4) + 64u * (where & 7);
            if ((where & 8) != 0)
                net::store_be(&bytes[at], address);
            else
                std::memcpy(&bytes[at], &address, sizeof address);
        }
        for (size_t at = 0; at + sizeof(uint64_t) <= size; at += 4)
            keep_out(&bytes[at]);
        return bytes;
    }
    void by_pointer(uint16_t id, size_t size) {
        const std::vector<uint8_t>& bytes = filled(size);
        uint64_t small = 0;
        const bool is_small = size <= sizeof small;
        if (is_small) std::ranges::copy(bytes, reinterpret_cast<uint8_t*>(&small));
        in_place(id, is_small ? small : reinterpret_cast<uint64_t>(bytes.data()),
                 static_cast<uint16_t>(size));
    }
    void answer(uint16_t id, size_t size) {
        in_place(id, reinterpret_cast<uint64_t>(memory_.emplace_back(size).data()),
                 static_cast<uint16_t>(size));
    }
    /// Fuzzers learn addresses from comparisons. If one made a device write into the fuzzer's own
    /// memory, that would not be a finding.
    [[nodiscard]] uint64_t safe(uint64_t value) const {
        const auto* const page = reinterpret_cast<const void*>(value & ~(kPage - 1));
        const bool out_of_reach = value < kPage || value >> kAddressBits != 0; // saves system calls
        return out_of_reach || machine_.arena.holds(value) || !is_mapped(page, 1) ? value : 0;
    }
    void keep_out(uint8_t* at) const {
        uint64_t value;
        std::memcpy(&value, at, sizeof value);
        if (safe(value) != value || safe(__builtin_bswap64(value)) != __builtin_bswap64(value))
            std::memset(at, 0, sizeof value);
    }

    /// Puts whatever the input says into rings and doorbell records, and a frame arrives.
    void work() {
        const uint8_t where = input_.byte();
        const size_t at = 64u * (where & 7);
        input_.fill(machine_.arena.page(where >> 4).subspan(at, 64));
        machine_.wire->incoming.push_back(input_.take(input_.byte()));
        for (int rounds = 0; rounds < 8; ++rounds)
            machine_.device.poll();
        machine_.wire->incoming.clear();
        machine_.wire->sent.clear();
    }

    Machine& machine_;
    Input input_;
    std::shared_ptr<core::SendRegisters> uar_;
    Context context_;
    std::vector<ib_uverbs_attr> attributes_;   ///< of the next command
    std::vector<std::vector<uint8_t>> memory_; ///< what they point to
};

/// Event files, which a program would close.
void close_files() {
    for (int fd = 0; fd < kMostDescriptors; ++fd) {
        if (!fd_table::may_hold(fd) || !fd_table::find(fd)) continue;
        fd_table::release(fd);
        close(fd);
    }
}

} // namespace

std::string play_uverbs(std::span<const uint8_t> bytes) {
    static Machine machine(std::make_unique<testbed::FakeWire>());
    static const nlohmann::json before = machine.objects();
    machine.arena.clear();
    std::string problem = Player(machine, Input(bytes)).run();
    close_files();
    if (!problem.empty()) return problem;
    const nlohmann::json left = machine.objects();
    return left == before ? "" : fmt::format("left on the device: {}", left.dump());
}

} // namespace fuzz
