// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/look.hpp"
#include "app/softhca/launcher/options.hpp"
#include "app/softhca/launcher/remote.hpp"
#include "app/softhca/launcher/run.hpp"
#include "app/softhca/launcher/vm.hpp"
#include "common/output.hpp"

#include <cstring>

using namespace softhca::launcher;

namespace {

struct Execute {
    int operator()(int status) const { return status; }
    int operator()(RunCommand& command) const { return run(std::move(command)); }
    int operator()(const ShowCommand& command) const { return show(command); }
    int operator()(const TraceCommand& command) const { return trace(command); }
    int operator()(const CaptureCommand& command) const { return capture(command); }
    int operator()(const LinkCommand& command) const { return set_link(command); }
    int operator()(const FaultCommand& command) const { return inject_fault(command); }
};

} // namespace

int main(int argc, char** argv) {
    if (argc > 1 && !std::strcmp(argv[1], "vm")) return become_vm(argv + 2);
    return output::end_of("softhca", kExitNoSetup, [&] {
        Options options = parse_options(argc, argv);
        return std::visit(Execute{}, options);
    });
}
