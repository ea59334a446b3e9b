// SPDX-License-Identifier: BSD-3-Clause
// Structures of ethtool's ioctl commands. Included by this folder's files only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <linux/ethtool.h>
#include <vector>

namespace netdev {

/// A kernel structure that ends in an array of unknown length, with room for `bytes` of it.
template <class Header> class Variable {
  public:
    explicit Variable(size_t bytes)
        : storage_((sizeof(Header) + bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t)) {}
    Header* operator->() { return get(); }
    Header* get() { return reinterpret_cast<Header*>(storage_.data()); }
    uint8_t* tail() { return reinterpret_cast<uint8_t*>(storage_.data()) + sizeof(Header); }

  private:
    std::vector<uint64_t> storage_;
};

/// With its three masks of link modes.
class LinkSettings : public Variable<ethtool_link_settings> {
    using Variable::Variable;
};

} // namespace netdev
