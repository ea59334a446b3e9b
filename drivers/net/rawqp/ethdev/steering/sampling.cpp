// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/sampling.hpp"

namespace rawqp {

std::unique_ptr<Sampling> Sampling::make(Devx& devx, uint32_t ratio, const EntryActions& copies,
                                         const EntryActions& all) {
    auto made = std::make_unique<Sampling>();
    made->copies_ = Leaf::make(devx, false, copies);
    if (!made->copies_.entry) return nullptr;
    if (!all.table) made->all_ = Leaf::make(devx, false, all);
    if (!all.table && !made->all_.entry) return nullptr;
    prm::CreateSamplerIn in{};
    in.head.op_mod = prm::kSamplerType;
    in.type_and_level = uint32_t{kLastLevel} << 16 | prm::kIgnoreLevel;
    in.ratio = ratio;
    in.copies = made->copies_.table->object().number;
    in.all = all.table ? *all.table : made->all_.table->object().number;
    made->object_ = devx.make(in, "sampler");
    return made->object_ ? std::move(made) : nullptr;
}

} // namespace rawqp
