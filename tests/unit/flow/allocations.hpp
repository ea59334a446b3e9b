// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace rawqp::test {

/// How often this thread has called operator new.
size_t allocations();

} // namespace rawqp::test
