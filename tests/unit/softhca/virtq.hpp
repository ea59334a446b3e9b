// SPDX-License-Identifier: BSD-3-Clause
// A virtio driver's side of one queue: rings and buffers in memory that has a key.
#pragma once

#include "app/softhca/core/virtio/format.hpp"
#include "tests/unit/softhca/testbed.hpp"

#include <algorithm>
#include <cstring>

namespace testbed {

using virtio::NetHeader;

/// A buffer of a chain.
struct Buffer {
    std::byte* at;
    uint32_t bytes;
};

class DriverRing {
  public:
    static constexpr uint16_t kEntries = 8;

    /// At `base`, in three pages; the indices begin where an earlier queue stopped.
    explicit DriverRing(std::byte* base, uint16_t start = 0)
        : descriptors_(reinterpret_cast<virtio::Descriptor*>(base)),
          available_(reinterpret_cast<uint16_t*>(base + 4096)), used_(base + 8192), next_(start),
          seen_(start) {
        available_[1] = start;
        std::memcpy(used_ + 2, &start, sizeof start);
    }
    /// All attributes except PD and key.
    [[nodiscard]] VirtqAttr attr(bool sends) const {
        VirtqAttr attr;
        attr.entries = kEntries;
        attr.descriptors = reinterpret_cast<uint64_t>(descriptors_);
        attr.available = reinterpret_cast<uint64_t>(available_);
        attr.used = reinterpret_cast<uint64_t>(used_);
        attr.next_available = attr.next_used = next_;
        attr.sends = sends;
        attr.version_1 = true;
        return attr;
    }
    [[nodiscard]] virtio::Descriptor& descriptor(uint16_t index) { return descriptors_[index]; }
    void set_flags(uint16_t flags) { available_[0] = flags; }
    void set_index(uint16_t index) { available_[1] = index; }
    /// Makes the chain with this head available.
    void offer(uint16_t head) {
        available_[2 + next_ % kEntries] = head;
        available_[1] = ++next_;
    }
    /// Posts a chain of these buffers, in unused descriptors. Returns its head.
    uint16_t post(const std::vector<Buffer>& chain, bool writable) {
        const uint16_t head = free_;
        for (size_t i = 0; i < chain.size(); i++) {
            const bool last = i + 1 == chain.size();
            const auto after = static_cast<uint16_t>((free_ + 1) % kEntries);
            descriptors_[free_] = {.address = reinterpret_cast<uint64_t>(chain[i].at),
                                   .bytes = chain[i].bytes,
                                   .flags = static_cast<uint16_t>((writable ? virtio::kWrite : 0) |
                                                                  (last ? 0 : virtio::kNext)),
                                   .next = last ? uint16_t{0xabcd} : after};
            free_ = after;
        }
        offer(head);
        return head;
    }
    /// The next used chain, if there is one.
    [[nodiscard]] std::optional<virtio::UsedElement> used() {
        uint16_t index;
        std::memcpy(&index, used_ + 2, sizeof index);
        if (index == seen_) return {};
        virtio::UsedElement element;
        std::memcpy(&element, used_ + 4 + sizeof element * (seen_++ % kEntries), sizeof element);
        return element;
    }

  private:
    virtio::Descriptor* descriptors_;
    uint16_t* available_;
    std::byte* used_;
    uint16_t next_, seen_, free_ = 0;
};

/// One queue in each direction, and a way to steer all packets to the receiving one.
class VirtioTest : public Testbed {
  protected:
    static constexpr size_t kSendRing = 0x40000, kReceiveRing = 0x50000, kFrames = 0x60000,
                            kBuffers = 0x80000;
    static constexpr uint32_t kHeader = sizeof(NetHeader);

    [[nodiscard]] Number make(VirtqAttr attr) {
        attr.pd = pd;
        attr.lkey = lkey;
        attr.listener = &listener;
        return device->create_virtq(attr).value();
    }
    [[nodiscard]] Number start(const VirtqAttr& attr) {
        const Number queue = make(attr);
        EXPECT_TRUE(device->modify_virtq(queue, VirtqState::ready));
        return queue;
    }
    void steer_to(Number queue) {
        TirAttr tir;
        tir.rqn = queue;
        FlowAttr flow;
        flow.tirs = {device->create_tir(tir).value()};
        (void)device->create_flow(flow).value();
    }
    /// Header and frame at separate places in memory; the previous ones are overwritten.
    Buffer header(const NetHeader& values = {}) {
        return {put(kFrames, Bytes(reinterpret_cast<const uint8_t*>(&values),
                                   reinterpret_cast<const uint8_t*>(&values + 1))),
                kHeader};
    }
    Buffer part(size_t at, const Bytes& bytes) {
        return {put(kFrames + at, bytes), static_cast<uint32_t>(bytes.size())};
    }
    /// Posts header and frame in one chain of two.
    void post(const Bytes& frame, const NetHeader& values = {}) {
        ring.post({header(values), part(0x100, frame)}, false);
    }
    void arrive(const Bytes& frame) {
        wire->incoming.push_back(frame);
        run();
    }
    [[nodiscard]] VirtqStatus status(Number queue) { return device->query_virtq(queue).value(); }
    [[nodiscard]] Bytes sent_last() const { return wire->sent.back(); }

    DriverRing ring{memory_at(kSendRing)}, receive_ring{memory_at(kReceiveRing)};
};

} // namespace testbed
