// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/device.hpp"
#include "app/softhca/core/flow_tables.hpp"

namespace softhca::core {

Outcome<Number> FlowTables::create_sampler(const SamplerAttr& attr) {
    if (samplers_.size() >= Limits::kMaxSamplers) return refuse(Status::limit);
    FlowTable* const copies = find_table(attr.copies);
    FlowTable* const all = find_table(attr.all);
    if (!copies || !all) return refuse(Status::bad_resource);
    const auto leads_on = [&](const FlowTable& to) {
        return attr.any_level || to.level > attr.level;
    };
    if (attr.ratio == 0 || attr.level >= Limits::kMaxFlowTableLevels ||
        copies->sends != attr.sends || all->sends != attr.sends || !leads_on(*copies) ||
        !leads_on(*all))
        return refuse(Status::bad_parameter);
    auto sampler = std::make_unique<Sampler>();
    sampler->number = numbers_.take();
    sampler->level = attr.level;
    sampler->ratio = attr.ratio;
    sampler->copies = copies;
    sampler->all = all;
    copies->users++;
    all->users++;
    const Number number = sampler->number;
    samplers_[number] = std::move(sampler);
    return number;
}

Outcome<void> FlowTables::destroy_sampler(Number number) {
    const auto found = samplers_.find(number);
    if (found == samplers_.end()) return refuse(Status::bad_resource);
    const Sampler& sampler = *found->second;
    if (sampler.users != 0) return refuse(Status::busy);
    sampler.copies->users--;
    sampler.all->users--;
    samplers_.erase(found);
    numbers_.give_back(number);
    return {};
}

Sampler* FlowTables::find_sampler(Number number) const {
    const auto found = samplers_.find(number);
    return found == samplers_.end() ? nullptr : found->second.get();
}

Outcome<Sampler*> FlowTables::find_sampler(const FlowTable& from, Number number,
                                           bool any_level) const {
    Sampler* const sampler = find_sampler(number);
    if (!sampler) return refuse(Status::bad_resource);
    if ((!any_level && sampler->level <= from.level) || sampler->all->sends != from.sends)
        return refuse(Status::bad_parameter);
    return sampler;
}

} // namespace softhca::core
