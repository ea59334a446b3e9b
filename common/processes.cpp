// SPDX-License-Identifier: BSD-3-Clause
#include "common/processes.hpp"

#include "common/files.hpp"

#include <algorithm>

namespace processes {

std::vector<Process> with_open(const std::string& file, const std::string& proc) {
    std::vector<Process> list;
    for (const std::string& pid : files::entries(proc)) {
        if (pid.find_first_not_of("0123456789") != pid.npos) continue;
        const std::string process = proc + "/" + pid;
        const std::vector<std::string> open = files::entries(process + "/fd");
        const auto is_it = [&](const std::string& fd) {
            return files::link_target(process + "/fd/" + fd) == file;
        };
        if (std::any_of(open.begin(), open.end(), is_it))
            list.push_back({files::first_line(process + "/comm"), pid});
    }
    return list;
}

} // namespace processes
