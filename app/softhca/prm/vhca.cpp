// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/vhca.hpp"

#include <map>
#include <mutex>

namespace softhca::prm {
namespace {

struct Functions {
    std::shared_mutex mutex;
    std::map<uint64_t, const core::Device*> devices;
};
/// Never destroyed: devices may outlive static objects.
Functions& functions() {
    static Functions& all = *new Functions;
    return all;
}

/// Linux makes the upper half of a devlink port's number of it, and the devlink tool takes no
/// number for a port that has its highest bit set. Those of real NICs are small.
constexpr uint16_t kBits = 0x7fff;

uint16_t of_mac(const std::array<uint8_t, 6>& mac) {
    return static_cast<uint16_t>((mac[2] ^ mac[4]) << 8 | (mac[3] ^ mac[5])) & kBits;
}

} // namespace

Vhca::Vhca(const core::Device& device) : id_(of_mac(device.config().mac)) {
    Functions& all = functions();
    const std::unique_lock lock(all.mutex);
    while (id_ == 0 || !all.devices.emplace(id_, &device).second)
        id_ = (id_ + 1) & kBits;
}

Vhca::~Vhca() {
    Functions& all = functions();
    const std::unique_lock lock(all.mutex);
    all.devices.erase(id_);
}

FoundVhca find_vhca(uint64_t id) {
    Functions& all = functions();
    std::shared_lock lock(all.mutex);
    const auto found = all.devices.find(id);
    return {std::move(lock), found != all.devices.end() ? found->second : nullptr};
}

} // namespace softhca::prm
