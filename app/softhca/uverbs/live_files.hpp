// SPDX-License-Identifier: BSD-3-Clause
// Device files whose content changes: port state, counters.
#pragma once

namespace softhca::uverbs {

/// To be called after a program has opened a file and before it reads it: if it is one of the
/// device files that change, writes the present value into it. Other files are left alone.
void refresh_live_file(int fd);

} // namespace softhca::uverbs
