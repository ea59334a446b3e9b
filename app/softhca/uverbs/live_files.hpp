// SPDX-License-Identifier: BSD-3-Clause
// Device files whose content changes: port state, counters.
#pragma once

namespace softhca::uverbs {

/// To be called before a program looks at the device file `name` (as the program knows it), which
/// really is `file`: writes the present value into it if this process runs the device and the file
/// is one of those that change. Cheap for all other names and in processes without a device.
void refresh_live_file(const char* name, const char* file);

} // namespace softhca::uverbs
