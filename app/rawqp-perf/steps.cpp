// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/steps.hpp"

#include <array>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <vector>
#if defined(__x86_64__)
#include <csignal>
#include <ucontext.h>
#endif

namespace perf {

#if defined(__x86_64__)
namespace {

constexpr size_t kMost = 1u << 20; // steps
constexpr std::array kRegisters{REG_RIP, REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP,
                                REG_RBP, REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10,
                                REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
using Step = std::array<uint64_t, kRegisters.size()>;

std::vector<Step> steps; // a signal handler knows no object
size_t taken = 0;
struct sigaction before;

void on_step(int, siginfo_t*, void* context) {
    const auto& found = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    if (taken == steps.size()) return;
    Step& step = steps[taken++];
    for (size_t i = 0; i < step.size(); ++i)
        step[i] = static_cast<uint64_t>(found[kRegisters[i]]);
}

} // namespace

Steps::Steps() {
    steps.resize(kMost);
    struct sigaction action {};
    action.sa_sigaction = on_step;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, &before);
}

Steps::~Steps() { sigaction(SIGTRAP, &before, nullptr); }

// The trap flag is bit 8. A leaf function may have variables below the stack pointer.
void Steps::begin() {
    taken = 0;
    asm volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                 "lea 128(%%rsp), %%rsp" ::
                     : "memory", "cc");
}

void Steps::end() {
    asm volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $-257, (%%rsp)\n\tpopfq\n\t"
                 "lea 128(%%rsp), %%rsp" ::
                     : "memory", "cc");
}

void Steps::write(const std::string& file) const {
    if (taken == steps.size()) throw std::runtime_error("trace: more steps than there is room for");
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(steps.data()),
              static_cast<std::streamsize>(taken * sizeof(Step)));
    if (!out.flush()) throw std::runtime_error("cannot write " + file);
}
#else
Steps::Steps() { throw std::runtime_error("trace: only on x86-64"); }
Steps::~Steps() = default;
void Steps::begin() {}
void Steps::end() {}
void Steps::write(const std::string&) const {}
#endif

} // namespace perf
