// SPDX-License-Identifier: BSD-3-Clause
// Methods about files and pacing, for the table in methods.cpp.
#pragma once

#include "app/softhca/uverbs/context.hpp"
#include "app/softhca/uverbs/ioctl_attributes.hpp"

namespace softhca::uverbs::devx {

// event_methods.cpp
[[nodiscard]] Errno open_answers(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno open_events(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno subscribe_events(Context& context, const IoctlAttributes& attributes);

// pacing.cpp
[[nodiscard]] Errno alloc_pacing(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno free_pacing(Context& context, const IoctlAttributes& attributes);

// var.cpp
[[nodiscard]] Errno alloc_var(Context& context, const IoctlAttributes& attributes);
[[nodiscard]] Errno free_var(Context& context, const IoctlAttributes& attributes);

} // namespace softhca::uverbs::devx
