// SPDX-License-Identifier: BSD-3-Clause
// What a Device consists of. Private to device*.cpp and stats.cpp.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/core/edit_arguments.hpp"
#include "app/softhca/core/flow_tables.hpp"
#include "app/softhca/core/icm.hpp"
#include "app/softhca/core/key_change.hpp"
#include "app/softhca/core/lro.hpp"
#include "app/softhca/core/memory_guard.hpp"
#include "app/softhca/core/meters.hpp"
#include "app/softhca/core/mkey.hpp"
#include "app/softhca/core/object_table.hpp"
#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/port.hpp"
#include "app/softhca/core/recorder.hpp"
#include "app/softhca/core/ring_format.hpp"
#include "app/softhca/core/send_schedule.hpp"
#include "app/softhca/core/ste/walker.hpp"
#include "app/softhca/core/steering.hpp"
#include "app/softhca/core/virtio/chain_schedule.hpp"

#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace softhca::core {

struct Device::State final : GuardedMemory, wire::Recipient, KeyOwner, EntryWrites {
    State(DeviceConfig device_config, std::unique_ptr<wire::Wire> wire,
          std::unique_ptr<wire::Wire> kernel)
        : config(std::move(device_config)), rings(rings_of(config.family)),
          port(config, std::move(wire), std::move(kernel)), data_path(make_data_path()),
          walker({.format = rings.steering_entries(config.steering_format),
                  .icm = icm,
                  .definers = definers,
                  .arguments = edit_arguments,
                  .tirs = tirs,
                  .meters = meters,
                  .tables = flow_tables}) {
        flow_tables.set_walker(walker);
        port.wire().set_recipient(this);
    }
    ~State() { port.wire().set_recipient(nullptr); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    const DeviceConfig config;
    const std::shared_ptr<const std::string> name = std::make_shared<std::string>(config.name);
    const RingFormat& rings;

    // A control call announces itself, so that the device thread, which would retake the lock at
    // once, lets it in.
    std::mutex mutex;
    std::atomic<uint32_t> control_waiting{0};
    bool dead = false; ///< it broke (inject_device_fatal)
    DataPath::Work doing = DataPath::Work::sending;
    static constexpr size_t kReceiveBudget = 128; ///< frames in a round
    size_t frames_left = kReceiveBudget;          ///< until the next round ends
    size_t work_of_round = 0;                     ///< of the last one that completed
    bool awaited = false;                         ///< see Device::was_awaited()
    std::atomic<std::thread::id> polled_by;       ///< the device thread

    Icm icm;
    MkeyTable mkeys;
    Steering steering;
    FlowTables flow_tables;
    Meters meters;
    ste::Definers definers;
    EditArguments edit_arguments;
    Port port;
    DelayDrop delay_drop;
    SendProgress kernel_progress;
    uint64_t control_calls = 1; ///< see DataPathParts
    LroSessions lro_sessions;
    std::unique_ptr<Recorder> recorder; ///< while there are observers
    std::unique_ptr<DataPath> data_path;

    ObjectTable<Pd> pds;
    ObjectTable<Cq> cqs;
    ObjectTable<Sq> sqs;
    ObjectTable<Rq> rqs;
    ObjectTable<Rqt> rqts;
    ObjectTable<Tir> tirs;
    ObjectTable<Flow> flows;
    ste::Walker walker;
    /// Lets RQs find the SQ of their QP: by doorbell record and number of each SQ that has one.
    std::map<std::pair<const void*, Number>, Sq*> sqs_by_record;
    // What poll() visits, or the part of it that may have work.
    std::vector<Sq*> active_sqs;      ///< not in reset …
    SendSchedule send_schedule;       ///< … and which of them have their turn
    std::vector<Sq*> active_rcs;      ///< likewise, of RC QPs …
    SendSchedule rc_schedule;         ///< … and which of those have their turn
    std::vector<Sq*> active_hairpins; ///< likewise, hairpin SQs, except for those that wait …
    const std::shared_ptr<HairpinWakes> hairpin_wakes =
        std::make_shared<HairpinWakes>(); ///< … and are announced here
    std::vector<Rq*> active_rqs;          ///< likewise; visited are …
    std::vector<Rq*> failed_rqs;          ///< … those in error, which must flush
    std::vector<Virtq*> active_virtqs;    ///< that are ready, or have failed since then
    std::vector<Virtq*> owing_virtqs;     ///< that may have an event to report
    ChainSchedule chain_schedule;         ///< of those that send: whose turn it is
    CqVisits cq_visits;
    // Prepared hash keys in use; several TIRs of one key share.
    std::map<net::RssKey, std::weak_ptr<const net::Toeplitz>> hash_keys;
    ObjectTable<QCounter> q_counters;
    QCounter own_q_counter; ///< of RQs that are bound to none of these
    ObjectTable<VirtqCounter> virtq_counters;
    DoorbellRegister no_bell; ///< of hairpin and virtio queues, which have no doorbell

    /// One that reports to the recorder, if there is one.
    [[nodiscard]] std::unique_ptr<DataPath> make_data_path() {
        return rings.make_data_path({.mkeys = mkeys,
                                     .steering = steering,
                                     .tables = flow_tables,
                                     .meters = meters,
                                     .edit_arguments = edit_arguments,
                                     .key_owner = *this,
                                     .entry_writes = *this,
                                     .cqs = cqs,
                                     .sqs = sqs,
                                     .port = port,
                                     .delay_drop = delay_drop,
                                     .kernel_progress = kernel_progress,
                                     .lro_sessions = lro_sessions,
                                     .control_calls = control_calls,
                                     .recorder = recorder.get()});
    }
    /// The list that an SQ is in while it is not in reset.
    [[nodiscard]] std::vector<Sq*>& active(const Sq& sq) {
        return sq.hairpin ? active_hairpins : sq.rc ? active_rcs : active_sqs;
    }
    [[nodiscard]] SendSchedule& schedule(const Sq& sq) {
        return sq.rc ? rc_schedule : send_schedule;
    }
    /// Creates objects in a range (ObjectRanges) that queues of a PD write; they hold the PD.
    template <class Make> [[nodiscard]] Outcome<Number> create_in_pd(Number pd, Make&& make) {
        Pd* const owner = pds.find(pd);
        if (!owner) return refuse(Status::bad_resource);
        const auto made = make();
        if (made) owner->users++;
        return made;
    }
    template <class Objects>
    [[nodiscard]] Outcome<void> destroy_in_pd(Objects& objects, Number first) {
        const auto* const object = objects.find(first);
        if (!object) return refuse(Status::bad_resource);
        Pd* const owner = pds.find(object->pd);
        const auto gone = objects.destroy(first);
        if (gone && owner) owner->users--;
        return gone;
    }
    template <class Objects> void clear_in_pds(Objects& objects) {
        for (const auto& [first, range] : objects.ranges())
            pds.find(range.front().pd)->users--;
        objects.clear();
    }
    /// The latest SQ with this doorbell record; null if there is none.
    [[nodiscard]] Sq* sq_of_record(const void* record) const {
        const auto after = sqs_by_record.upper_bound({record, std::numeric_limits<Number>::max()});
        if (after == sqs_by_record.begin()) return nullptr;
        const auto& [key, sq] = *std::prev(after);
        return key.first == record ? sq : nullptr;
    }
    /// The queue is being destroyed: drops its references.
    void release(const Queue& queue);
    /// Changes a queue's state. For hairpin queues that includes the peer: the RQ that an SQ may
    /// send for, the SQ that an RQ takes packets for.
    using SqPeer = Outcome<std::shared_ptr<HairpinBuffer>>;
    [[nodiscard]] Outcome<void> change_peer(Sq& sq, QueueState state, const SqPeer& peer);
    [[nodiscard]] Outcome<void> change_peer(Rq& rq, QueueState state, const HairpinEnd& sq,
                                            const Outcome<HairpinSize>& sq_size);
    [[nodiscard]] size_t send_hairpins(size_t budget);
    /// Serves virtio SQs in turn until a round has had its share; those not yet served come next.
    [[nodiscard]] size_t send_chains(size_t looks);
    /// A virtio SQ is about to stop. False: it failed on the work that was left.
    [[nodiscard]] bool end_chain(Sq& sq);
    /// Reports events of virtio queues, as far as their RQs have WQEs for them.
    void tell_of_used_chains();
    /// The queue is nobody's peer any more; packets that it holds are lost.
    void leave_peer(Sq& sq);
    void leave_peer(const Rq& rq);
    [[nodiscard]] HairpinEnd end_of(Number queue) const { return {name, queue}; }
    /// A number that no object has. All kinds share one space.
    [[nodiscard]] Number new_number();
    /// Some rule takes received frames, whichever they are.
    [[nodiscard]] bool port_has_destination() const;
    /// Lets the wire begin if its frames have a destination.
    void start_wire();
    /// See Device::poll().
    size_t poll_round(bool rested);
    /// Looks at this many of the RC queues that have been idle, and all others; returns units of
    /// work done.
    size_t execute_entry_writes(size_t looks);

    /// Frames that another device sends here, on the same device thread.
    [[nodiscard]] size_t take(std::span<const iovec> frames) override;
    [[nodiscard]] bool change_key(const KeyChange& change) override;
    void execute_entry_writes() override;

    /// Whether the device was given the memory at this address. With the device locked.
    [[nodiscard]] bool covers(const void* address) const override;
    /// The memory at this address, which the device was just using, is gone. A queue or CQ whose
    /// ring or doorbell record it was breaks; otherwise the WQE ends in error.
    void lose_memory(const void* address);
    /// Work was abandoned because there is no memory at this address; null: it ran to completion.
    void end_left_work(const void* address);

  private:
    template <class Q> bool break_queues(std::vector<Q*>& active, const void* address);
    bool break_virtqs(const void* address);
    bool break_cqs(const void* address);

    Number last_number_ = 0x3f; // the first ones are reserved for the firmware on real devices
};

/// Holds the device lock for a control call.
class ControlLock {
  public:
    explicit ControlLock(Device::State& state);
    ~ControlLock() { state_.mutex.unlock(); }
    ControlLock(const ControlLock&) = delete;
    ControlLock& operator=(const ControlLock&) = delete;

  private:
    Device::State& state_;
};

} // namespace softhca::core
