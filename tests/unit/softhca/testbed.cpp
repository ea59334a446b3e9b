// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/softhca/testbed.hpp"

#include "app/softhca/wire/frame.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace testbed {
namespace {

constexpr size_t kPage = 4096;

std::unique_ptr<Device> make_device(DeviceConfig config, bool with_kernel, FakeWire*& wire,
                                    FakeWire*& kernel) {
    auto own_wire = std::make_unique<FakeWire>();
    wire = own_wire.get();
    auto own_kernel = with_kernel ? std::make_unique<FakeWire>() : nullptr;
    kernel = own_kernel.get();
    return std::make_unique<Device>(std::move(config), std::move(own_wire), std::move(own_kernel));
}

template <class T> void append(Bytes& to, const T& value) {
    const size_t at = to.size();
    to.resize(at + sizeof value);
    std::memcpy(to.data() + at, &value, sizeof value);
}

void pad_segment(Bytes& bytes) { bytes.resize((bytes.size() + 15) / 16 * 16); }

} // namespace

std::span<const std::byte> FakeWire::peek() {
    if (incoming.empty()) return {};
    if (on_arrival) on_arrival();
    return frames::view(incoming.front());
}

size_t FakeWire::peek_batch(std::span<iovec> frames) {
    size_t count = 0;
    for (; count < std::min(frames.size(), incoming.size()); count++) {
        Bytes& frame = incoming[count];
        if (frame.empty()) break; // like peek()
        frames[count] = {frame.data(), frame.size()};
    }
    if (count != 0 && on_arrival) on_arrival();
    return count;
}

void FakeWire::pop_batch(size_t count) {
    incoming.erase(incoming.begin(), incoming.begin() + static_cast<ptrdiff_t>(count));
}

wire::SendResult FakeWire::send(const wire::OutFrame& frame) {
    if (on_send) on_send();
    if (lossy) return wire::SendResult::lost;
    if (sent.size() >= room) return wire::SendResult::busy;
    size_t bytes = 0;
    for (const iovec& piece : frame.pieces)
        bytes += piece.iov_len;
    EXPECT_EQ(bytes, frame.length);
    sending.resize(bytes); // reading the pieces may fault: nothing must be lost then
    wire::gather(frame, reinterpret_cast<std::byte*>(sending.data()));
    sent.push_back(sending);
    return wire::SendResult::sent;
}

bool FakeListener::saw(AsyncEvent event) const {
    return std::ranges::any_of(events, [&](const auto& seen) { return seen.first == event; });
}

Pages::Pages(size_t bytes)
    : data_(
          static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage))),
      size_(bytes) {
    std::memset(data_.get(), 0, bytes);
}

DmaArea Pages::paged_area() const {
    std::vector<std::byte*> pages;
    for (size_t at = 0; at < size_; at += kPage)
        pages.push_back(data() + at);
    return DmaArea::paged(std::move(pages), 12, 0, size_);
}

TestCq::TestCq(Device& device, uint8_t log_entries, FakeListener* listener, bool events,
               uint8_t cqe_size)
    : ring(size_t{cqe_size} << log_entries), log_entries_(log_entries), cqe_size_(cqe_size) {
    for (size_t i = 0; i < size_t{1} << log_entries; i++)
        ring.data()[(i + 1) * cqe_size - 1] = std::byte{0xf0}; // invalid opcode
    CqAttr attr;
    attr.ring = ring.area();
    attr.doorbell = cq_doorbell(&doorbell);
    attr.log_entries = log_entries;
    attr.cqe_size = cqe_size;
    attr.listener = listener;
    attr.cookie = 77;
    attr.events = events;
    number = device.create_cq(attr).value();
}

const mlx5::Cqe* TestCq::poll() {
    const uint32_t slot = consumer & ((1u << log_entries_) - 1);
    const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(
        ring.data() + size_t{slot} * cqe_size_ + cqe_size_ - sizeof(mlx5::Cqe));
    const uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE); // a thread writes it
    const bool mine = (op_own & mlx5::kOwnerMask) == ((consumer >> log_entries_) & 1);
    const auto opcode = static_cast<mlx5::CqeOpcode>(op_own >> 4);
    if (!mine || opcode == mlx5::CqeOpcode::invalid) return nullptr;
    consumer++;
    return cqe;
}

const mlx5::ErrorCqe* TestCq::poll_error(mlx5::CqeOpcode expected) {
    const mlx5::Cqe* const cqe = poll();
    if (!cqe || opcode(*cqe) != expected) return nullptr;
    return reinterpret_cast<const mlx5::ErrorCqe*>(cqe);
}

void TestCq::arm(bool solicited) {
    doorbell.arm = (events & 3) << mlx5::kCqArmSequenceShift | (consumer & 0xffffff) |
                   (solicited ? mlx5::kCqArmSolicited : 0);
}

Wqe::Wqe(mlx5::WqeOpcode opcode, uint8_t ce) {
    mlx5::WqeCtrlSeg ctrl{};
    ctrl.opmod_idx_opcode = static_cast<uint32_t>(opcode);
    ctrl.fm_ce_se = ce;
    append(bytes, ctrl);
}

Wqe& Wqe::eth(uint8_t cs_flags, const Bytes& inline_header, uint16_t mss) {
    mlx5::WqeEthSeg eth{};
    eth.cs_flags = cs_flags;
    eth.mss = mss;
    eth.inline_size = static_cast<uint16_t>(inline_header.size());
    append(bytes, eth);
    bytes.resize(bytes.size() - sizeof eth.inline_header);
    bytes.insert(bytes.end(), inline_header.begin(), inline_header.end());
    pad_segment(bytes);
    return *this;
}

Wqe& Wqe::eth_vlan(uint16_t tci, bool svlan, uint8_t cs_flags) {
    mlx5::WqeEthSeg eth{};
    eth.cs_flags = cs_flags;
    eth.inline_size = static_cast<uint16_t>(mlx5::kInsertVlan | (svlan ? mlx5::kInsertSvlan : 0));
    net::store_be(eth.inline_header, tci);
    append(bytes, eth);
    return *this;
}

Wqe& Wqe::data(uint32_t lkey, const void* address, uint32_t size) {
    mlx5::WqeDataSeg segment{};
    segment.byte_count = size;
    segment.lkey = lkey;
    segment.addr = reinterpret_cast<uint64_t>(address);
    append(bytes, segment);
    return *this;
}

Wqe& Wqe::inline_data(const Bytes& data) {
    const mlx5::WqeInlineSeg head{mlx5::kInlineFlag | static_cast<uint32_t>(data.size())};
    append(bytes, head);
    bytes.insert(bytes.end(), data.begin(), data.end());
    pad_segment(bytes);
    return *this;
}

namespace {

SqAttr sq_attr(Number pd, Number cqn, Number domain, FakeListener* listener) {
    SqAttr attr;
    attr.pd = pd;
    attr.cqn = cqn;
    attr.transport_domain = domain;
    attr.listener = listener;
    return attr;
}

} // namespace

TestSq::TestSq(Device& device, Number pd, Number cqn, uint8_t log_wqebbs, FakeListener* listener,
               bool paged, Number domain)
    : TestSq(device, sq_attr(pd, cqn, domain, listener), log_wqebbs, paged) {}

TestSq::TestSq(Device& device, SqAttr attr, uint8_t log_wqebbs, bool paged)
    : ring(size_t{mlx5::kWqebb} << log_wqebbs) {
    attr.ring = paged ? ring.paged_area() : ring.area();
    attr.doorbell = send_doorbell(&doorbell);
    attr.log_wqebbs = log_wqebbs;
    attr.user_index = 0x5a;
    number = device.create_sq(attr).value();
    EXPECT_TRUE(device.modify_sq(number, QueueState::ready));
}

uint16_t TestSq::post(const Wqe& wqe) {
    const uint16_t index = producer;
    Bytes bytes = wqe.bytes;
    frames::put32(bytes, 0, uint32_t{bytes[0]} << 24 | uint32_t{index} << 8 | bytes[3]);
    frames::put32(bytes, 4, number << 8 | static_cast<uint32_t>(bytes.size() / mlx5::kSegment));
    write(index, 0, bytes);
    producer = static_cast<uint16_t>(producer + (bytes.size() + mlx5::kWqebb - 1) / mlx5::kWqebb);
    return index;
}

void TestSq::write(uint16_t index, size_t offset, const Bytes& bytes) {
    for (size_t i = 0; i < bytes.size(); i++)
        ring.data()[(size_t{index} * mlx5::kWqebb + offset + i) % ring.size()] =
            std::byte{bytes[i]};
}

Bytes TestSq::read(uint16_t index, size_t bytes) const {
    Bytes result(bytes);
    for (size_t i = 0; i < bytes; i++)
        result[i] =
            static_cast<uint8_t>(ring.data()[(size_t{index} * mlx5::kWqebb + i) % ring.size()]);
    return result;
}

TestRq::TestRq(Device& device, Number pd, Number cqn, const RqOptions& options)
    : ring(size_t{1} << (options.log_wqes + options.log_wqe_bytes)), options_(options) {
    RqAttr attr;
    attr.pd = pd;
    attr.cqn = cqn;
    attr.ring = ring.area();
    attr.doorbell = receive_doorbell(&doorbell);
    attr.log_wqes = options.log_wqes;
    attr.log_wqe_bytes = options.log_wqe_bytes;
    attr.user_index = 0xa5;
    attr.vlan_strip = options.vlan_strip;
    attr.scatter_fcs = options.scatter_fcs;
    attr.delay_drop = options.delay_drop;
    attr.striding = options.striding;
    attr.listener = options.listener;
    number = device.create_rq(attr).value();
    EXPECT_TRUE(device.modify_rq(number, QueueState::ready));
}

void TestRq::post(const std::vector<Segment>& segments) {
    const size_t mask = (size_t{1} << options_.log_wqes) - 1;
    std::byte* at = ring.data() + ((producer & mask) << options_.log_wqe_bytes);
    std::byte* const end = at + (size_t{1} << options_.log_wqe_bytes);
    if (options_.striding) at += sizeof(mlx5::WqeNextSeg);
    for (const Segment& segment : segments) {
        mlx5::WqeDataSeg data{};
        data.byte_count = segment.bytes;
        data.lkey = segment.lkey;
        data.addr = reinterpret_cast<uint64_t>(segment.address);
        std::memcpy(at, &data, sizeof data);
        at += sizeof data;
    }
    if (at < end && !options_.striding) {
        mlx5::WqeDataSeg last{};
        last.lkey = mlx5::kInvalidLkey;
        std::memcpy(at, &last, sizeof last);
    }
    doorbell.receive = ++producer;
}

DeviceConfig Testbed::default_config() {
    DeviceConfig config;
    config.mac = frames::kOurMac;
    return config;
}

uint32_t make_key(Device& device, Number pd, const Pages& memory, bool local_write) {
    return device
        .create_mkey({.pd = pd,
                      .iova = reinterpret_cast<uint64_t>(memory.data()),
                      .length = memory.size(),
                      .memory = memory.area(),
                      .local_write = local_write})
        .value();
}

Testbed::Testbed(DeviceConfig config, bool with_kernel)
    : device(make_device(std::move(config), with_kernel, wire, kernel)),
      pd(device->alloc_pd().value()), lkey(make_key(*device, pd, memory, true)),
      tx_cq(*device, 6, &listener), rx_cq(*device, 7, &listener),
      sq(*device, pd, tx_cq.number, 5, &listener),
      rq(*device, pd, rx_cq.number, {.listener = &listener}) {}

std::byte* Testbed::put(size_t at, const Bytes& bytes) {
    std::memcpy(memory.data() + at, bytes.data(), bytes.size());
    return memory.data() + at;
}

Bytes Testbed::get(const void* address, size_t bytes) {
    const auto* const data = static_cast<const uint8_t*>(address);
    return {data, data + bytes};
}

void Testbed::run() {
    for (int rounds = 0; device->poll() != 0; rounds++)
        ASSERT_LT(rounds, 100000) << "never idle";
}

void Testbed::post_packet(const Bytes& packet) {
    sq.post(Wqe(mlx5::WqeOpcode::send)
                .eth()
                .data(lkey, put(0, packet), static_cast<uint32_t>(packet.size())));
    sq.ring_doorbell();
}

void Testbed::post_buffer(TestRq& to) {
    const size_t slot = kMemory / 2 / kRoom;
    to.post({{lkey, memory.data() + kMemory / 2 + (to.producer % slot) * kRoom, kRoom}});
}

const mlx5::Cqe& Testbed::expect_packet(TestCq& cq) {
    static const mlx5::Cqe none{};
    const mlx5::Cqe* const cqe = cq.poll();
    EXPECT_NE(cqe, nullptr) << "no packet was received";
    if (!cqe) return none;
    EXPECT_EQ(TestCq::opcode(*cqe), mlx5::CqeOpcode::resp_send);
    return *cqe;
}

Bytes Testbed::packet_of(const mlx5::Cqe& cqe) {
    const size_t slot = cqe.wqe_counter % (kMemory / 2 / kRoom);
    return get(memory.data() + kMemory / 2 + slot * kRoom, cqe.byte_count);
}

Number Testbed::direct_tir(const TestRq& to) {
    TirAttr attr;
    attr.rqn = to.number;
    return device->create_tir(attr).value();
}

Number Testbed::steer_all(const TestRq& to, FlowDomain domain) {
    FlowAttr attr;
    attr.domain = domain;
    attr.tirs = {direct_tir(to)};
    return device->create_flow(attr).value();
}

} // namespace testbed
