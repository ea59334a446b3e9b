// SPDX-License-Identifier: BSD-3-Clause
// What the control socket of softhca-pci supports in addition to `stat`:
//   {"cmd":"link","up":false}                          unplugs the cable, or plugs it in
//   {"cmd":"inject","opcode":"CREATE_CQ","status":8}   commands fail: "skip" are run, then "count"
//                                                      fail (default: all); status 0: no more.
//                                                      "any" is every command except those
//                                                      listed in "spare". Answers whether some
//                                                      were still to fail: "pending"
//   {"cmd":"event","event":"cq_error","number":N}      reports to the driver: port_active,
//                                                      port_error, cq_error, sq_fatal, rq_fatal
//   {"cmd":"fatal"}                                    firmware stops; "syndrome": 1..255
//   {"cmd":"commands"}                                 -> {"CREATE_CQ":{"done":…,"refused":…},…}
#pragma once

#include "app/softhca/control/server.hpp"
#include "app/softhca/pci/function.hpp"

namespace softhca::pci {

/// The function outlives the server that has these.
[[nodiscard]] control::Commands control_commands(Function& function);

} // namespace softhca::pci
