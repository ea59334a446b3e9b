// SPDX-License-Identifier: BSD-3-Clause
// Methods about files, for the table in methods.cpp.
#pragma once

#include "app/softhca/uverbs/context.hpp"
#include "app/softhca/uverbs/ioctl_attributes.hpp"

namespace softhca::uverbs::devx {

// event_methods.cpp
[[nodiscard]] Errno open_answers(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno open_events(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno subscribe_events(Context& context, const IoctlAttributes& attributes);

} // namespace softhca::uverbs::devx
