// SPDX-License-Identifier: BSD-3-Clause
// The split ring of one virtio queue: takes the buffer chains that a driver makes available, and
// returns them used.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/virtio/format.hpp"
#include "app/softhca/core/virtio/types.hpp"

#include <span>
#include <vector>

namespace softhca::core {

/// A driver may post chains that hold little or nothing, and time is spent per descriptor. These
/// are the limits for a chain, however large the ring, and for a round (or packets, if there are
/// more of these).
inline constexpr uint32_t kMaxChainDescriptors = 256;
inline constexpr size_t kChainsOfRound = 4096;

/// The VIRTIO_Q_COUNTERS object that a queue counts in.
struct VirtqCounter {
    VirtqCounts counts;
    uint32_t users = 0;
};

/// All of its memory is the driver's, and translated by the key on every use. Used by the device
/// thread with the device locked. Owns nothing while it accesses memory (see MemoryGuard).
class Virtq {
  public:
    /// `queue` is the SQ or RQ that represents it to the rest of the device. `mkeys` outlives it,
    /// as does `owing`, the list it joins when it begins to owe an event.
    Virtq(const VirtqAttr& attr, const MkeyTable& mkeys, Queue& queue, Rq* events,
          VirtqCounter* counter, std::vector<Virtq*>& owing)
        : attr_(attr), mkeys_(mkeys), queue_(queue), events_(events), counter_(counter),
          owing_(owing), next_available_(attr.next_available), next_used_(attr.next_used) {}
    Virtq(const Virtq&) = delete;
    Virtq& operator=(const Virtq&) = delete;

    [[nodiscard]] const VirtqAttr& attr() const { return attr_; }
    [[nodiscard]] VirtqStatus status() const {
        return {state_, fault_, next_available_, next_used_};
    }
    [[nodiscard]] bool serves() const { return state_ == VirtqState::ready; }
    void enter(VirtqState state);
    /// For good; the owner is notified.
    void fail(VirtqFault fault);

    /// Whether there is a chain to serve. A queue whose driver cannot have posted that many goes to
    /// error here.
    [[nodiscard]] bool has_chain();

    /// The contents of the next chain after its header, which is returned separately. False:
    /// nothing, and the queue is in error.
    [[nodiscard]] bool gather(Gather& frame, virtio::NetHeader& header);
    enum class Placed : uint8_t { whole, too_long, failed };
    /// Puts a frame into the next chain, which stays in place if the frame is too long for it.
    /// `sound`: its checksum is correct, which the header then says.
    [[nodiscard]] Placed scatter(std::span<const iovec> pieces, uint32_t bytes, bool sound);
    /// The next chain is done; `written` bytes were written to it.
    void use_chain(uint32_t written);
    /// Of the chain that gather() or scatter() last reached: what looking at it costs.
    [[nodiscard]] uint32_t chain_descriptors() const { return descriptors_; }
    [[nodiscard]] uint32_t header_bytes() const {
        return attr_.version_1 ? sizeof(virtio::NetHeader) : virtio::kLegacyNetHeaderBytes;
    }

    /// The RQ to notify of used chains, if there are any that it was not notified of and the driver
    /// wants events. told(): it has been notified.
    [[nodiscard]] Rq* wants_event();
    void told() { owes_event_ = false; }
    [[nodiscard]] Rq* events() const { return events_; }
    [[nodiscard]] VirtqCounter* counter() const { return counter_; }

    /// Whether this byte of the driver's memory is part of its ring.
    [[nodiscard]] bool works_on(const void* address) const;

  private:
    /// Host address of a part of the ring; null: there is none, or it is not contiguous.
    template <class T> [[nodiscard]] T* locate(uint64_t address, Access access) const;
    /// Sets `head`. False: the queue is in error.
    [[nodiscard]] bool read_head(uint16_t& head);
    /// Calls use(address, bytes), which returns a fault or none, for each buffer of the chain.
    template <class Use> [[nodiscard]] VirtqFault walk(uint16_t head, bool writable, Use&& use);
    template <class Use>
    [[nodiscard]] bool walk_next(bool writable, Use&& use); ///< fails the queue on faults

    [[nodiscard]] uint64_t slot(uint16_t index) const { return index & (attr_.entries - 1u); }

    const VirtqAttr attr_;
    const MkeyTable& mkeys_;
    Queue& queue_;
    Rq* const events_;            ///< null: no RQ is notified of used chains
    VirtqCounter* const counter_; ///< may be null
    std::vector<Virtq*>& owing_;
    VirtqState state_ = VirtqState::init;
    VirtqFault fault_ = VirtqFault::none;
    uint16_t next_available_, next_used_;
    uint16_t head_ = 0;        ///< of the chain that was walked last …
    uint32_t descriptors_ = 0; ///< … and how many it has
    bool owes_event_ = false;
};

} // namespace softhca::core
