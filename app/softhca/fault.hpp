// SPDX-License-Identifier: BSD-3-Clause
// Faults on request: what can go wrong at a device, how it is written, and which commands fail.
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

/// A command of the device fails though nothing is wrong with it. "create_qp:EPERM",
/// "reg_mr:ENOMEM:1", "any:EIO:1:20".
struct CommandFault {
    std::string command; ///< one of kFaultCommands, or kAnyCommand
    int error = 0;       ///< errno
    unsigned times = 0;  ///< how often; 0: always
    unsigned after = 0;  ///< as many of these commands succeed before
};
/// The next WQE of an SQ, or the next packet for an RQ, ends with an error CQE.
/// "error_cqe:NUMBER", "error_cqe:NUMBER:local_length".
struct CompletionFault {
    uint32_t queue = 0; ///< as `softhca stat` shows it
    core::CompletionError cause = core::CompletionError::local_qp_operation;
};
/// An SQ, RQ or CQ breaks: it goes to error, and an asynchronous event says so. "fatal:NUMBER".
struct FatalFault {
    uint32_t number = 0;
};
/// A CQ is full from now on, whatever its consumer says: the next completion overruns it, and takes
/// the queue whose it is with it. "overrun:CQ".
struct OverrunFault {
    uint32_t cq = 0;
};
/// The device stands still: no packet passes it and no command is answered, but nothing is lost
/// that waits. "stall:MILLISECONDS".
struct StallFault {
    std::chrono::milliseconds duration{};
};
/// The device is dead: an event says so and it does no more work. "device_fatal".
struct DeviceFault {};
/// Commands succeed again. "none".
struct NoCommandFaults {};

using Fault = std::variant<CommandFault, CompletionFault, FatalFault, OverrunFault, StallFault,
                           DeviceFault, NoCommandFaults>;

/// In place of a command's name: each of kFaultCommands.
inline constexpr std::string_view kAnyCommand = "any";
/// Commands that can be made to fail: "open" is open(2) on the device node, the others are named as
/// the kernel's RDMA ABI names them; one name covers the plain and the extended form.
inline constexpr std::array<std::string_view, 58> kFaultCommands = {"open",
                                                                    "get_context",
                                                                    "query_context",
                                                                    "query_pd",
                                                                    "query_mr",
                                                                    "query_device",
                                                                    "query_port",
                                                                    "alloc_pd",
                                                                    "dealloc_pd",
                                                                    "reg_mr",
                                                                    "dereg_mr",
                                                                    "create_cq",
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

/// Whether `name`, as a front's table of commands has it (CREATE_QP, EX_CREATE_QP), is `command`.
[[nodiscard]] constexpr bool is_command(std::string_view name, std::string_view command) {
    if (name.starts_with("EX_")) name.remove_prefix(3);
    if (name.size() != command.size()) return false;
    for (size_t i = 0; i < name.size(); ++i) {
        const bool upper = name[i] >= 'A' && name[i] <= 'Z';
        if ((upper ? static_cast<char>(name[i] - 'A' + 'a') : name[i]) != command[i]) return false;
    }
    return true;
}
/// Fronts assert this of every command that they have.
[[nodiscard]] constexpr bool can_fail(std::string_view name) {
    for (const std::string_view command : kFaultCommands)
        if (is_command(name, command)) return true;
    return false;
}

/// Errors say what is wrong and what could be there.
[[nodiscard]] Result<Fault> parse_fault(std::string_view text);
/// A list of command faults, separated by commas; empty text is an empty list.
[[nodiscard]] Result<std::vector<CommandFault>> parse_command_faults(std::string_view text);
[[nodiscard]] std::string to_text(const std::vector<CommandFault>& faults);

/// The command faults that a device has at present. Thread-safe.
class CommandFaults {
  public:
    explicit CommandFaults(std::vector<CommandFault> faults = {}) : faults_(std::move(faults)) {}

    /// Takes the place of an earlier one for the same command.
    void add(CommandFault fault);
    /// Returns what has not come, or not as often as asked.
    std::vector<CommandFault> clear();
    /// The errno with which the command, by its name in a front's table, fails now; 0: it does not.
    /// It counts for each fault that has it in mind, as one of its times or of those before.
    [[nodiscard]] int take(std::string_view name);
    /// The same without counting.
    [[nodiscard]] int peek(std::string_view name) const;

  private:
    mutable std::mutex mutex_;
    std::vector<CommandFault> faults_;
};

} // namespace softhca
