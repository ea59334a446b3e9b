// SPDX-License-Identifier: BSD-3-Clause
// Device files whose content changes: port state, counters.
#pragma once

namespace softhca::uverbs {

/// To be called when a program has opened a file and before it reads it: if that is one of the
/// device files that change, writes the present value into it. Other files stay as they are.
void refresh_live_file(int fd);

} // namespace softhca::uverbs
