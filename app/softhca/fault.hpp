// SPDX-License-Identifier: BSD-3-Clause
// Injected faults: what can go wrong at a device, the syntax, and which commands fail.
#pragma once

#include "app/softhca/core/completion_error.hpp"
#include "common/result.hpp"

#include <array>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace softhca {

/// A command of the device fails although nothing is wrong with it. "create_qp:EPERM",
/// "reg_mr:ENOMEM:1", "any:EIO:1:20".
struct CommandFault {
    std::string command; ///< one of kFaultCommands, or kAnyCommand
    int error = 0;       ///< errno
    unsigned times = 0;  ///< how often; 0: always
    unsigned after = 0;  ///< this many of these commands succeed first
};
/// The next WQE of an SQ, or the next packet for an RQ, ends with an error CQE.
/// "error_cqe:NUMBER", "error_cqe:NUMBER:local_length".
struct CompletionFault {
    uint32_t queue = 0; ///< as `softhca stat` shows it
    core::CompletionError cause = core::CompletionError::local_qp_operation;
};
/// An SQ, RQ or CQ breaks: it goes to error, and an asynchronous event reports it. "fatal:NUMBER".
struct FatalFault {
    uint32_t number = 0;
};
/// A CQ is full from now on, whatever its consumer says: the next completion overruns it, and the
/// queue that it belongs to fails as well. "overrun:CQ".
struct OverrunFault {
    uint32_t cq = 0;
};
/// The device stalls: no packet passes it and no command is answered, but nothing that waits is
/// lost. "stall:MILLISECONDS".
struct StallFault {
    std::chrono::milliseconds duration{};
};
/// The device is dead: an event reports it and the device does no more work. "device_fatal".
struct DeviceFault {};
/// Commands succeed again. "none".
struct NoCommandFaults {};

using Fault = std::variant<CommandFault, CompletionFault, FatalFault, OverrunFault, StallFault,
                           DeviceFault, NoCommandFaults>;

/// Used as a command's name: each of kFaultCommands.
inline constexpr std::string_view kAnyCommand = "any";
/// Commands that can be made to fail: "open" is open(2) on the device node, the others have their
/// names in the kernel's RDMA ABI; one name covers the plain and the extended form.
inline constexpr std::array<std::string_view, 60> kFaultCommands = {"open",
                                                                    "get_context",
                                                                    "query_context",
                                                                    "query_pd",
                                                                    "query_mr",
                                                                    "query_device",
                                                                    "query_port",
                                                                    "alloc_pd",
                                                                    "dealloc_pd",
                                                                    "reg_mr",
                                                                    "rereg_mr",
                                                                    "dereg_mr",
                                                                    "create_cq",
                                                                    "resize_cq",
                                                                    "modify_cq",
                                                                    "destroy_cq",
                                                                    "create_comp_channel",
                                                                    "create_qp",
                                                                    "modify_qp",
                                                                    "query_qp",
                                                                    "destroy_qp",
                                                                    "create_wq",
                                                                    "modify_wq",
                                                                    "destroy_wq",
                                                                    "create_rwq_ind_tbl",
                                                                    "create_flow",
                                                                    "destroy_rwq_ind_tbl",
                                                                    "destroy_flow",
                                                                    "async_event_alloc",
                                                                    "uar_obj_alloc",
                                                                    "uar_obj_destroy",
                                                                    "flow_matcher_create",
                                                                    "flow_matcher_destroy",
                                                                    "create_modify_header",
                                                                    "create_packet_reformat",
                                                                    "flow_action_destroy",
                                                                    "counters_create",
                                                                    "counters_destroy",
                                                                    "counters_read",
                                                                    "query_gid_table",
                                                                    "devx_other",
                                                                    "devx_query_eqn",
                                                                    "devx_query_uar",
                                                                    "devx_subscribe_event",
                                                                    "devx_obj_create",
                                                                    "devx_obj_destroy",
                                                                    "devx_obj_modify",
                                                                    "devx_obj_query",
                                                                    "devx_obj_async_query",
                                                                    "devx_umem_reg",
                                                                    "devx_umem_dereg",
                                                                    "devx_async_cmd_fd_alloc",
                                                                    "devx_async_event_fd_alloc",
                                                                    "pp_obj_alloc",
                                                                    "pp_obj_destroy",
                                                                    "var_obj_alloc",
                                                                    "var_obj_destroy",
                                                                    "dm_alloc",
                                                                    "dm_free",
                                                                    "dm_mr_reg"};

/// Whether `name`, as in a front's table of commands (CREATE_QP, EX_CREATE_QP), is `command`.
[[nodiscard]] constexpr bool is_command(std::string_view name, std::string_view command) {
    if (name.starts_with("EX_")) name.remove_prefix(3);
    if (name.size() != command.size()) return false;
    for (size_t i = 0; i < name.size(); ++i) {
        const bool upper = name[i] >= 'A' && name[i] <= 'Z';
        if ((upper ? static_cast<char>(name[i] - 'A' + 'a') : name[i]) != command[i]) return false;
    }
    return true;
}
/// Fronts assert this for each of their commands.
[[nodiscard]] constexpr bool can_fail(std::string_view name) {
    for (const std::string_view command : kFaultCommands)
        if (is_command(name, command)) return true;
    return false;
}

/// Errors say what is wrong and what is allowed.
[[nodiscard]] Result<Fault> parse_fault(std::string_view text);
/// A list of command faults, separated by commas; empty text is an empty list.
[[nodiscard]] Result<std::vector<CommandFault>> parse_command_faults(std::string_view text);
[[nodiscard]] std::string to_text(const std::vector<CommandFault>& faults);

/// The present command faults of a device. Thread-safe.
class CommandFaults {
  public:
    explicit CommandFaults(std::vector<CommandFault> faults = {}) : faults_(std::move(faults)) {}

    /// Replaces an earlier fault for the same command.
    void add(CommandFault fault);
    /// Returns the faults that have not occurred, or not as often as requested.
    std::vector<CommandFault> clear();
    /// The errno with which the command, by its name in a front's table, fails now; 0: it succeeds.
    /// It counts towards each fault that applies to it, as a failure or as one of those that
    /// succeed first.
    [[nodiscard]] int take(std::string_view name);
    /// Likewise without counting.
    [[nodiscard]] int peek(std::string_view name) const;

  private:
    mutable std::mutex mutex_;
    std::vector<CommandFault> faults_;
};

} // namespace softhca
