// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softhca::launcher {

/// `softhca vm …`: becomes the program softhca-vm with these arguments (those after `vm`). Returns
/// only if that program cannot be run, with the exit status.
[[nodiscard]] int become_vm(const char* const* arguments);

} // namespace softhca::launcher
