// SPDX-License-Identifier: BSD-3-Clause
// The verbs objects of a context: the mapping between the handles of the uverbs ABI and the numbers
// of the device.
#pragma once

#include "app/softhca/core/device.hpp"
#include "app/softhca/prm/descriptions.hpp"
#include "app/softhca/prm/objects.hpp"
#include "app/softhca/uverbs/buffers.hpp"
#include "app/softhca/uverbs/event_pipe.hpp"
#include "app/softhca/uverbs/loopback.hpp"
#include "app/softhca/uverbs/rights.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <rdma/mlx5-abi.h>
#include <span>
#include <vector>

namespace softhca::uverbs {

/// Translates a status as mlx5_core turns the firmware's answer into an errno.
[[nodiscard]] Errno errno_of(core::Status status);
template <class T> [[nodiscard]] Errno errno_of(const core::Outcome<T>& outcome) {
    return outcome ? 0 : errno_of(outcome.error());
}

/// The program's firmware commands may refer to verbs objects by their numbers on the device
/// (DevX).
class DeviceNumbers {
  public:
    virtual ~DeviceNumbers() = default;
    virtual void record(const prm::Ref& object) = 0;
    /// What a recorded TIR does: commands may ask, and change it.
    virtual void describe_tir(core::Number tirn, const core::TirAttr& tir) = 0;
    /// Likewise the entries of an indirection table.
    virtual void describe_rqt(core::Number rqt, const std::vector<core::Number>& rqns) = 0;
    /// Likewise queues.
    virtual void describe_cq(core::Number cqn, const prm::CqDescription& cq) = 0;
    virtual void describe_sq(core::Number sqn, const prm::SqDescription& sq) = 0;
    virtual void describe_rq(core::Number rqn, const prm::RqDescription& rq) = 0;
    /// The program has changed a part by verbs.
    virtual void update_cq(core::Number cqn, const prm::CqDescription& cq, prm::CqPart part) = 0;
    virtual void update_rq(core::Number rqn, const prm::RqDescription& rq, prm::RqPart part) = 0;
    /// In use by something that a command created.
    [[nodiscard]] virtual bool in_use(const prm::Ref& object) = 0;
    virtual void forget(const prm::Ref& object) = 0;
};

struct Object {
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() = default;
    PinnedPages pages; ///< its rings, or the region's memory
    std::shared_ptr<PinnedPages> doorbell_page;
    DeviceNumbers* known_to = nullptr; ///< whoever knows the numbers
    /// The object's identity on the device.
    [[nodiscard]] virtual std::vector<prm::Ref> numbers() const { return {}; }
    /// What commands are to find when they ask for those numbers.
    virtual void describe(DeviceNumbers&) const {}
    /// Removes it from the device. EBUSY, and nothing changes, while another object uses it.
    [[nodiscard]] Errno destroy(core::Device& device);

  protected:
    /// Likewise, checking only the users that the device itself knows.
    [[nodiscard]] virtual Errno take_down(core::Device& device) = 0;
};

/// Counts what the device reports about one object: the destroy command must return how many events
/// the program has read (libibverbs waits until it has acknowledged as many).
struct EventSource {
    uint64_t user_handle = 0; ///< how the program names the object in events
    uint32_t fatal_event = 0; ///< enum ibv_event_type reported for a fatal error
    std::atomic<uint32_t> async_posted{0};
    std::atomic<uint32_t> completions_posted{0};
    std::shared_ptr<EventPipe> channel; ///< of a CQ, may be null
    std::shared_ptr<EventPipe> async;   ///< may be null: events are lost, as with no reader
};

struct Pd final : Object {
    core::Number number = 0;
    unsigned rss_qps = 0; ///< RSS QPs in it, whose PD the device does not know: they are TIRs there
    std::vector<prm::Ref> numbers() const override { return {{prm::Kind::pd, number}}; }
    Errno take_down(core::Device& device) override;
};

/// ICM for software steering.
struct Dm final : Object {
    uint64_t address = 0; ///< on the device
    uint64_t length = 0;
    unsigned users = 0; ///< regions of it
    Errno take_down(core::Device& device) override;
};

/// What a program can change of a region.
struct MrAttributes {
    core::Number pd = 0;
    uint64_t start = 0, length = 0; ///< in its memory
    uint64_t iova = 0;              ///< of the start, as WQEs name it
    uint32_t access = 0;            ///< IB_UVERBS_ACCESS_*
};

struct Mr final : Object, MrAttributes {
    uint32_t lkey = 0;
    Dm* dm = nullptr; ///< the memory that this is a region of; it counts this as a user
    std::vector<prm::Ref> numbers() const override { return {{prm::Kind::mkey, lkey >> 8}}; }
    Errno take_down(core::Device& device) override;
};

struct Cq final : Object {
    core::Number number = 0;
    uint32_t entries = 0; ///< as reported to the program
    prm::CqDescription description;
    EventSource events;
    std::vector<prm::Ref> numbers() const override { return {{prm::Kind::cq, number}}; }
    void describe(DeviceNumbers& to) const override { to.describe_cq(number, description); }
    /// To commands, after the program has changed a part of the description.
    void tell(prm::CqPart part) const {
        if (known_to) known_to->update_cq(number, description, part);
    }
    Errno take_down(core::Device& device) override;
};

/// A separate receive queue (ibv_wq).
struct Wq final : Object {
    core::Number rqn = 0;
    prm::RqDescription description;
    EventSource events;
    std::vector<prm::Ref> numbers() const override { return {{prm::Kind::rq, rqn}}; }
    void describe(DeviceNumbers& to) const override { to.describe_rq(rqn, description); }
    /// See Cq.
    void tell(prm::RqPart part) const {
        if (known_to) known_to->update_rq(rqn, description, part);
    }
    Errno take_down(core::Device& device) override;
};

/// Lets an RQ count in the kernel driver's own Q counter, as that driver does whenever it makes one
/// ready; `known_to`: of the object that has the RQ.
void count_for_driver(core::Device& device, core::Number rqn, prm::RqDescription& rq,
                      DeviceNumbers* known_to);

struct IndirectionTable final : Object {
    core::Number rqt = 0;
    std::vector<core::Number> rqns; ///< as it was created
    std::vector<prm::Ref> numbers() const override { return {{prm::Kind::rqt, rqt}}; }
    void describe(DeviceNumbers& to) const override { to.describe_rqt(rqt, rqns); }
    Errno take_down(core::Device& device) override;
};

/// A RAW_PACKET QP as mlx5_ib implements it: an SQ, and an RQ with a TIR that leads to it, either
/// part optional. An RSS QP is a TIR over an indirection table and nothing else.
struct Qp final : Object {
    bool rss = false;
    core::Number sqn = 0, rqn = 0, tirn = 0; ///< 0: has none
    core::TirAttr tir;                       ///< what the TIR was made as
    prm::SqDescription sq; ///< its TIS is that of a DevX context's SQ, for commands that ask
    prm::RqDescription rq;
    core::Number pd = 0;
    Pd* rss_pd = nullptr; ///< of an RSS QP: it counts this as a user
    uint8_t port = 0;     ///< 0 until the program names it
    uint8_t state = 0;    ///< enum ib_qp_state as last set
    uint32_t max_send_wr = 0, max_recv_wr = 0, max_send_sge = 0, max_recv_sge = 0;
    uint32_t max_inline_data = 0;
    bool signal_all = false;
    std::optional<LoopbackUse> self_loopback; ///< receives what its own context sends
    EventSource events;
    std::vector<prm::Ref> numbers() const override;
    void describe(DeviceNumbers& to) const override;
    Errno take_down(core::Device& device) override;
};

/// One change that flows make to packets: header edits, a reformat, or removal of an L2 tunnel.
struct FlowAction final : Object {
    bool decap = false;
    core::Number edits = 0, reformat = 0;
    unsigned users = 0; ///< flows that name it
    Errno take_down(core::Device& device) override;
};

/// Mask and priority of DV flows.
struct FlowMatcher final : Object {
    bool sends = false;    ///< of the table for sent packets
    uint8_t flow_type = 0; ///< enum mlx5_ib_flow_type
    uint16_t priority = 0;
    std::vector<std::byte> mask; ///< struct mlx5_ifc_fte_match_param_bits, as far as given
    unsigned users = 0;          ///< flows created with it
    Errno take_down(core::Device& device) override;
};

/// ibv_counters: a counter of the device, and where a reader finds each of its values.
struct Counters final : Object {
    core::Number number = 0; ///< 0: no flow has counted into it yet
    std::vector<mlx5_ib_flow_counters_desc> points;
    uint64_t room = 0;  ///< values that a reader must have room for; 0: not described
    unsigned users = 0; ///< flows that name it
    Errno take_down(core::Device& device) override;
};

struct Flow final : Object {
    std::vector<core::Number> rules;  ///< ALL_DEFAULT has two
    std::vector<Counters*> counters;  ///< each counts this flow as a user
    std::vector<FlowAction*> actions; ///< likewise
    FlowMatcher* matcher = nullptr;   ///< of a DV flow
    Errno take_down(core::Device& device) override;
};

/// A page of doorbell registers. The device polls the records and rings in memory and, of the
/// registers, those that ring SQs.
struct DoorbellPage : Object {
    uint32_t page = 0; ///< of the context's
};

struct Uar final : DoorbellPage {
    core::Number number = 0; ///< of a DevX context; 0: commands do not know it
    std::shared_ptr<core::SendRegisters> registers;
    std::vector<prm::Ref> numbers() const override {
        return number ? std::vector<prm::Ref>{{prm::Kind::uar, number}} : std::vector<prm::Ref>{};
    }
    Errno take_down(core::Device&) override { return 0; }
};

/// Handles are unique within a context, whatever the kind. Not thread-safe.
class ObjectTable {
  public:
    /// From now on, objects become known to `numbers`.
    void set_numbers(DeviceNumbers* numbers) { numbers_ = numbers; }
    uint32_t add(std::unique_ptr<Object> object) {
        introduce(*object);
        objects_.emplace(next_, std::move(object));
        return next_++;
    }
    /// Destroys the object of that handle, and puts another in its place. EBUSY while something
    /// uses it: then it stays, and the other one is destroyed.
    [[nodiscard]] Errno replace(uint64_t handle, std::unique_ptr<Object> object,
                                core::Device& device);
    /// Null when there is no object of that handle and kind.
    template <class T> [[nodiscard]] T* find(uint64_t handle) const {
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : dynamic_cast<T*>(found->second.get());
    }
    /// Why there is no object of that kind: no such handle, one of another kind, or a number that
    /// no handle can be.
    [[nodiscard]] Errno absence(uint64_t handle) const {
        const bool negative = static_cast<int64_t>(handle) < 0;
        return negative || objects_.contains(handle) ? EINVAL : ENOENT;
    }
    /// `settle` sees the object once more after it has been destroyed.
    template <class T, class Settle>
    [[nodiscard]] Errno destroy(uint64_t handle, core::Device& device, Settle&& settle) {
        T* object = find<T>(handle);
        if (!object) return absence(handle);
        if (const Errno error = object->destroy(device)) return error;
        settle(*object);
        objects_.erase(handle);
        return 0;
    }
    template <class T> [[nodiscard]] Errno destroy(uint64_t handle, core::Device& device) {
        return destroy<T>(handle, device, [](T&) {});
    }

    /// In whatever order is possible.
    void destroy_all(core::Device& device);

    template <class T, class Visit> void for_each(Visit visit) const {
        for (const auto& [handle, object] : objects_)
            if (T* wanted = dynamic_cast<T*>(object.get())) visit(*wanted);
    }

  private:
    void introduce(Object& object);

    std::map<uint64_t, std::unique_ptr<Object>> objects_;
    DeviceNumbers* numbers_ = nullptr;
    uint32_t next_ = 1;
};

} // namespace softhca::uverbs
