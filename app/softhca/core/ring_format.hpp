// SPDX-License-Identifier: BSD-3-Clause
// What a Device requires of a family's rings, and of the data path over them.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/core/object_table.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/port.hpp"
#include "app/softhca/core/requests.hpp"
#include "app/softhca/core/steering.hpp"

#include <array>
#include <memory>
#include <span>
#include <sys/uio.h>

namespace softhca::core::ste {
class Format;
}

namespace softhca::core {

class Meters;
class Recorder;

/// The device, for its data path.
class EntryWrites {
  public:
    /// Executes the requests that RC QPs have: with these, programs write the entries by which
    /// packets are steered. Called when frames, or requests of an SQ, have been found and before
    /// the first of them is steered. Looking once in each round would not do: a round can be
    /// interrupted for milliseconds between that look and the arrival of a frame, and a program
    /// that has its rules written before the frame is sent counts on them.
    virtual void execute_entry_writes() = 0;

  protected:
    ~EntryWrites() = default;
};

/// Moves packets between the wire and the rings, for one device. Used by the device thread with the
/// device locked, once per queue and round.
class DataPath {
  public:
    virtual ~DataPath() = default;

    /// Executes requests of a ready SQ until it is empty, `budget` packets are out or the wire is
    /// busy; flushes one in error. Returns units of work done.
    virtual size_t send(Sq& sq, size_t budget) = 0;
    /// Sends what the peer of a hairpin SQ has. Returns the number of packets.
    virtual size_t send_hairpin(Sq& sq, size_t budget) = 0;
    /// Sends what the chains of a virtio queue hold. Returns units of work done.
    virtual size_t send_chains(Sq& sq, size_t budget) = 0;
    /// Such a queue stops: a chain that has partly left ends now. What the wire has no room for is
    /// lost and counted.
    virtual void end_chain(Sq& sq) = 0;
    /// Sends what the kernel netdev has. Returns the number of frames.
    virtual size_t send_kernel(size_t budget) = 0;
    /// Receives from the wire. Returns the number of frames.
    virtual size_t receive(size_t budget) = 0;
    /// Receives frames of one piece each that do not come from the wire, until one has to wait.
    virtual void take(std::span<const iovec> frames) = 0;
    /// A fault interrupted take(), as the present frame could not be read: it is not taken.
    virtual void lose_frame() = 0;
    /// How many frames of the last take() are done, however it ended.
    [[nodiscard]] virtual size_t taken() const = 0;
    /// Completes the requests of an RQ in error as flushed. Returns how many.
    virtual size_t flush(Rq& rq) = 0;
    /// An empty message arrives at the RQ of a QP. False: the RQ has no request for it yet.
    [[nodiscard]] virtual bool receive_message(Rq& rq) = 0;
    /// Whether such a frame would be delivered: there is a rule, and a posted request wherever it
    /// leads.
    [[nodiscard]] virtual bool is_expected(std::span<const iovec> pieces, uint32_t bytes) = 0;
    /// The SQ is being destroyed.
    virtual void forget(const Sq& sq) = 0;
    /// What the device was doing when a fault interrupted it.
    enum class Work : uint8_t {
        sending,
        receiving, ///< from the wire
        taking,    ///< take()
    };
    /// The work in progress ends in a protection error, unless the queue or CQ itself is `broken`.
    virtual void lose_memory(bool broken, Work work) = 0;
};

/// What a data path works with; all of it outlives the data path.
struct DataPathParts {
    const MkeyTable& mkeys;
    const Steering& steering;
    const FlowTables& tables;
    Meters& meters;
    EditArguments& edit_arguments;
    KeyOwner& key_owner;
    EntryWrites& entry_writes;
    const ObjectTable<Cq>& cqs;
    const ObjectTable<Sq>& sqs; ///< whose requests may refer to each other
    Port& port;
    DelayDrop& delay_drop;
    SendProgress& kernel_progress; ///< of the kernel netdev's next frame
    LroSessions& lro_sessions;
    /// Number of control calls so far: as long as it stays the same, so does everything that
    /// decides about packets. Never 0.
    const uint64_t& control_calls;
    Recorder* recorder = nullptr; ///< is notified of everything; null: nobody observes
};

/// A request that is posted and not executed yet, for observers.
struct PostedRequest {
    static constexpr size_t kSegments = 4;

    uint16_t index = 0; ///< position in the ring, as its counter has it
    uint16_t steps = 1;
    const char* kind = "";        ///< the format's own name for it
    const char* fault = nullptr;  ///< it will fail, for this reason
    uint32_t inlined = 0;         ///< bytes of it in the ring
    uint32_t segments_in_all = 0; ///< in memory
    std::array<Segment, kSegments> segments{};
};

/// A family's rings. Stateless: one object serves all devices.
class RingFormat {
  public:
    virtual ~RingFormat() = default;

    /// Whether such a ring is valid: sizes of its entries, its size, where it lies.
    [[nodiscard]] virtual bool fits(const CqAttr& attr) const = 0;
    [[nodiscard]] virtual bool fits(const SqAttr& attr) const = 0;
    [[nodiscard]] virtual bool fits(const RqAttr& attr) const = 0;

    /// Reads the oldest posted requests, as the device would; returns how many. `queue` is a copy
    /// of the queue, which advances with each. Owns nothing, as the ring's memory may be gone (see
    /// MemoryGuard).
    [[nodiscard]] virtual size_t read_posted(Sq& queue, std::span<PostedRequest> into) const = 0;
    [[nodiscard]] virtual size_t read_posted(Rq& queue, std::span<PostedRequest> into) const = 0;

    [[nodiscard]] virtual std::unique_ptr<Cq> make_cq(Number number, const CqAttr& attr) const = 0;
    /// The format of entries that programs write into ICM, by number.
    [[nodiscard]] virtual const ste::Format& steering_entries(uint8_t format) const = 0;
    [[nodiscard]] virtual std::unique_ptr<DataPath>
    make_data_path(const DataPathParts& parts) const = 0;
};

/// The table of families (core/rings/families.cpp).
[[nodiscard]] const RingFormat& rings_of(Family family);

} // namespace softhca::core
