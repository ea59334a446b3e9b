// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/objects.hpp"

#include "app/softhca/core/q_counters.hpp"

#include <algorithm>
#include <cerrno>

namespace softhca::uverbs {

Errno errno_of(core::Status status) {
    switch (status) {
    case core::Status::bad_parameter:
    case core::Status::bad_resource:
    case core::Status::bad_state: return EINVAL;
    case core::Status::busy: return EBUSY;
    case core::Status::limit: return ENOMEM;
    case core::Status::exists: return EEXIST;
    case core::Status::unsupported: return EOPNOTSUPP;
    }
    return EIO;
}

Errno Object::destroy(core::Device& device) {
    if (!known_to) return take_down(device);
    const std::vector<prm::Ref> known = numbers();
    if (std::ranges::any_of(known, [&](const prm::Ref& ref) { return known_to->in_use(ref); }))
        return EBUSY;
    if (const Errno error = take_down(device)) return error;
    for (const prm::Ref& ref : known)
        known_to->forget(ref);
    return 0;
}

std::vector<prm::Ref> Qp::numbers() const {
    std::vector<prm::Ref> known;
    if (tirn) known.push_back({prm::Kind::tir, tirn});
    if (rqn) known.push_back({prm::Kind::rq, rqn});
    if (sqn) known.push_back({prm::Kind::sq, sqn});
    if (sq.tisn) known.push_back({prm::Kind::tis, sq.tisn});
    return known;
}

void count_for_driver(core::Device& device, core::Number rqn, prm::RqDescription& rq,
                      DeviceNumbers* known_to) {
    (void)device.bind_q_counter(rqn, core::kOwnQCounter);
    rq.q_counter = core::kOwnQCounter;
    if (known_to) known_to->update_rq(rqn, rq, prm::RqPart::q_counter);
}

void Qp::describe(DeviceNumbers& to) const {
    if (tirn) to.describe_tir(tirn, tir);
    if (rqn) to.describe_rq(rqn, rq);
    if (sqn) to.describe_sq(sqn, sq);
}

Errno Pd::take_down(core::Device& device) {
    return rss_qps ? EBUSY : errno_of(device.dealloc_pd(number));
}
Errno Dm::take_down(core::Device& device) {
    return users ? EBUSY : errno_of(device.free_icm(address));
}
Errno Mr::take_down(core::Device& device) {
    if (const Errno error = errno_of(device.destroy_mkey(lkey))) return error;
    if (dm) dm->users--;
    return 0;
}
Errno Cq::take_down(core::Device& device) { return errno_of(device.destroy_cq(number)); }
Errno Wq::take_down(core::Device& device) { return errno_of(device.destroy_rq(rqn)); }
Errno IndirectionTable::take_down(core::Device& device) {
    return errno_of(device.destroy_rqt(rqt));
}

Errno Qp::take_down(core::Device& device) {
    // The TIR first: flows use it, and only it can be busy.
    if (tirn)
        if (const Errno error = errno_of(device.destroy_tir(tirn))) return error;
    tirn = 0;
    if (rss_pd) rss_pd->rss_qps--;
    rss_pd = nullptr;
    self_loopback.reset();
    if (rqn)
        if (const Errno error = errno_of(device.destroy_rq(rqn))) return error;
    rqn = 0;
    return sqn ? errno_of(device.destroy_sq(sqn)) : 0;
}

Errno FlowAction::take_down(core::Device& device) {
    if (users) return EBUSY;
    if (edits) return errno_of(device.destroy_header_edits(edits));
    return reformat ? errno_of(device.destroy_reformat(reformat)) : 0;
}

Errno FlowMatcher::take_down(core::Device&) { return users ? EBUSY : 0; }

Errno Counters::take_down(core::Device& device) {
    if (users) return EBUSY;
    return number ? errno_of(device.destroy_flow_counters(number)) : 0;
}

Errno Flow::take_down(core::Device& device) {
    while (!rules.empty()) {
        if (const Errno error = errno_of(device.destroy_flow(rules.back()))) return error;
        rules.pop_back();
    }
    if (matcher) matcher->users--;
    for (FlowAction* const action : actions)
        action->users--;
    actions.clear();
    for (Counters* const named : counters)
        if (--named->users == 0) named->room = 0; // the next flow describes it anew
    counters.clear();
    return 0;
}

void ObjectTable::introduce(Object& object) {
    object.known_to = numbers_;
    if (!numbers_) return;
    for (const prm::Ref& ref : object.numbers())
        numbers_->record(ref);
    object.describe(*numbers_);
}

Errno ObjectTable::replace(uint64_t handle, std::unique_ptr<Object> object, core::Device& device) {
    std::unique_ptr<Object>& place = objects_.at(handle);
    if (const Errno error = place->destroy(device)) {
        (void)object->destroy(device);
        return error;
    }
    introduce(*object);
    place = std::move(object);
    return 0;
}

void ObjectTable::destroy_all(core::Device& device) {
    // The youngest first, as objects use older ones. But rules and tables of DevX can lead to
    // younger ones: as long as something is destroyed, busy objects are tried again.
    size_t before = 0;
    do {
        before = objects_.size();
        for (auto next = objects_.end(); next != objects_.begin();)
            if (--next; next->second->destroy(device) == 0) next = objects_.erase(next);
    } while (!objects_.empty() && objects_.size() < before);
    objects_.clear();
}

} // namespace softhca::uverbs
