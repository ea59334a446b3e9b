// SPDX-License-Identifier: BSD-3-Clause
// For builds without the kernel headers that have the layouts of firmware commands.
#include "app/softhca/uverbs/commands.hpp"

#include <cerrno>
#include <cstdio>

namespace softhca::uverbs {

Errno open_devx(Context& context) {
    if (context.port.config.devx.value_or(false))
        std::fprintf(stderr,
                     "softhca: %s: devx=on: built without DevX, for there were no kernel headers "
                     "(apt install linux-headers-amd64, then build again)\n",
                     context.port.config.device.c_str());
    return EOPNOTSUPP;
}

std::span<const Method> devx_methods() { return {}; }

} // namespace softhca::uverbs
