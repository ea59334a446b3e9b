// SPDX-License-Identifier: BSD-3-Clause
// The counters of an interface, as a driver whose set of them changes would tell them.
#include "common/netdev/netdev.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Told {
    uint32_t counted; ///< how many there are when they are counted
    std::vector<std::string> names;
    std::vector<uint64_t> values;
};
thread_local const Told* told = nullptr;

/// Answers as the kernel does: at most what is there, and how many that is.
void answer(void* command) {
    uint32_t code = 0;
    std::memcpy(&code, command, sizeof code);
    auto* const room = static_cast<uint8_t*>(command);
    if (code == ETHTOOL_GDRVINFO) {
        reinterpret_cast<ethtool_drvinfo*>(command)->n_stats = told->counted;
    } else if (code == ETHTOOL_GSTRINGS) {
        auto* const strings = static_cast<ethtool_gstrings*>(command);
        const size_t count = std::min<size_t>(strings->len, told->names.size());
        strings->len = static_cast<uint32_t>(told->names.size());
        for (size_t i = 0; i < count; ++i)
            told->names[i].copy(reinterpret_cast<char*>(room + sizeof *strings) +
                                    i * ETH_GSTRING_LEN,
                                ETH_GSTRING_LEN);
    } else if (code == ETHTOOL_GSTATS) {
        auto* const stats = static_cast<ethtool_stats*>(command);
        const size_t count = std::min<size_t>(stats->n_stats, told->values.size());
        stats->n_stats = static_cast<uint32_t>(told->values.size());
        std::memcpy(room + sizeof *stats, told->values.data(), count * sizeof(uint64_t));
    }
}

} // namespace

/// In place of libc's.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
    va_list rest;
    va_start(rest, request);
    void* const argument = va_arg(rest, void*);
    va_end(rest);
    if (told == nullptr || request != SIOCETHTOOL)
        return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
    answer(static_cast<ifreq*>(argument)->ifr_data);
    return 0;
}

namespace netdev {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What `ask` finds out about an interface of this driver.
template <class Answer> Answer asked(const Told& driver, Result<Answer> (Netdev::*ask)() const) {
    told = &driver;
    const Result<Answer> answer = (Netdev("eth0").*ask)();
    told = nullptr;
    return answer.value();
}

std::vector<std::string> names_of(const Told& driver) {
    return asked(driver, &Netdev::counter_names);
}
std::vector<uint64_t> values_of(const Told& driver) {
    return asked(driver, &Netdev::counter_values);
}

TEST(EthtoolCounters, NamesHaveUpTo32CharactersWithoutAnEnd) {
    const std::string longest(ETH_GSTRING_LEN, 'n');
    EXPECT_THAT(names_of({3, {"rx", longest, "tx"}, {}}), ElementsAre("rx", longest, "tx"));
}

TEST(EthtoolCounters, SomeAreGoneSinceTheyWereCounted) {
    EXPECT_THAT(names_of({3, {"rx", "tx"}, {}}), ElementsAre("rx", "tx"));
    EXPECT_THAT(values_of({3, {}, {5, 6}}), ElementsAre(5, 6));
}

TEST(EthtoolCounters, SomeHaveComeSinceTheyWereCounted) {
    EXPECT_THAT(names_of({1, {"rx", "tx"}, {}}), ElementsAre("rx"));
    EXPECT_THAT(values_of({1, {}, {5, 6}}), ElementsAre(5));
}

TEST(EthtoolCounters, NoneAreCounted) {
    EXPECT_THAT(names_of({0, {"rx"}, {}}), IsEmpty());
    EXPECT_THAT(values_of({0, {}, {5}}), IsEmpty());
}

TEST(EthtoolCounters, ThoseWithNameAndValueAreListed) {
    const auto counters = asked({2, {"rx", "tx"}, {5}}, &Netdev::counters);
    ASSERT_EQ(counters.size(), 1u);
    EXPECT_EQ(counters[0].name, "rx");
    EXPECT_EQ(counters[0].value, 5u);
}

} // namespace
} // namespace netdev
