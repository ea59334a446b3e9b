// SPDX-License-Identifier: BSD-3-Clause
// One line of kArguments for each device argument: parsing, the usage text and dpdk-pmdinfo.py's
// output come from it.
#include "drivers/net/rawqp/ethdev/driver/devargs.hpp"

#include "common/allowed.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace rawqp {
namespace {

constexpr Allowed kAnyText{};
constexpr Allowed kSwitch{.choices = "0|1"};
constexpr Allowed one_of(std::string_view choices) { return {.choices = choices}; }
constexpr Allowed number(unsigned min, unsigned max) {
    return {.choices = {}, .min = min, .max = max};
}

struct Argument {
    std::string_view key;
    Allowed allowed;
    void (*store)(Devargs& devargs, const AllowedValue& given);
};

template <class Field> void assign(Field& field, const AllowedValue& given) {
    if constexpr (std::is_same_v<Field, std::string>)
        field = given.text;
    else
        field = static_cast<Field>(given.number);
}
template <auto Member> void to(Devargs& devargs, const AllowedValue& given) {
    assign(devargs.*Member, given);
}
template <auto Member> void to_striding(Devargs& devargs, const AllowedValue& given) {
    assign(devargs.striding.*Member, given);
}

// The device narrows the limits of strides further.
constexpr Argument kArguments[] = {
    {"device", kAnyText, to<&Devargs::device>},
    {"port", number(1, UINT8_MAX), to<&Devargs::port>},
    {"iface", kAnyText, to<&Devargs::iface>},
    {"datapath", one_of("auto|mlx5|verbs"), to<&Devargs::datapath>},
    {"flow_engine", one_of("auto|verbs|mlx5"), to<&Devargs::flow_engine>}, // as FlowEngine
    {"port_guard", kSwitch, to<&Devargs::port_guard>},
    {"cqe_comp", one_of("auto|0|1"), to<&Devargs::cqe_comp>}, // as CqeCompression
    {"rx_timestamp", one_of("raw|real"), to<&Devargs::real_time>},
    {"lro_timeout_usec", number(0, UINT16_MAX), to<&Devargs::lro_period>},
    {"mprq_en", kSwitch, to<&Devargs::multi_packet_rx>},
    {"mprq_log_stride_num", number(1, 13), to_striding<&StridingSpec::log_strides>},
    {"mprq_log_stride_size", number(1, 15), to_striding<&StridingSpec::log_stride_bytes>},
    {"mprq_max_memcpy_len", number(0, UINT16_MAX), to_striding<&StridingSpec::copy_bytes>},
    {"txq_mpw", kSwitch, to<&Devargs::tx_multi_packet>},
    {"txq_inline", number(0, kMaxInlineBytes), to<&Devargs::tx_inline_bytes>},
    {"txq_inline_min", one_of("auto|none|l2|ip|tcp"), // as InlineMode
     to<&Devargs::tx_min_inline>},
    {"txq_doorbell", one_of("plain|blueflame"), to<&Devargs::tx_blue_flame>},
};

/// Text assembled by the compiler, which refuses what does not fit; ends in zeros.
struct ConstantText {
    std::array<char, 1024> bytes{};
    size_t size = 0;

    [[nodiscard]] constexpr std::string_view view() const { return {bytes.data(), size}; }
    constexpr void add(std::string_view text) {
        for (const char c : text)
            bytes[size++] = c;
    }
    constexpr void add(unsigned number) {
        if (number >= 10) add(number / 10);
        bytes[size++] = static_cast<char>('0' + number % 10);
    }
};

constexpr void add_allowed(ConstantText& text, const Allowed& allowed) {
    if (allowed.max != 0) {
        text.add(allowed.min);
        text.add("..");
        text.add(allowed.max);
    } else {
        text.add(allowed.choices.empty() ? "string" : allowed.choices);
    }
}

/// "device=<string> port=<1..255> …".
constexpr ConstantText kUsage = [] {
    ConstantText usage;
    for (const Argument& argument : kArguments) {
        usage.add(usage.size == 0 ? "" : " ");
        usage.add(argument.key);
        usage.add("=<");
        add_allowed(usage, argument.allowed);
        usage.add(">");
    }
    return usage;
}();

// The record by which dpdk-pmdinfo.py finds a driver in a file; DPDK's own build generates it.
// "used" and "retain" keep it through --gc-sections and link-time optimisation.
#if __has_attribute(retain)
[[gnu::used, gnu::retain]]
#else
[[gnu::used]]
#endif
constexpr std::array kPmdInfo = [] {
    ConstantText record;
    record.add("PMD_INFO_STRING= {\"name\": \"net_rawqp\", \"params\": \"");
    record.add(kUsage.view());
    record.add("\", \"pci_ids\": []}");
    return record.bytes;
}();

struct FreeKvargs {
    void operator()(rte_kvargs* args) const { rte_kvargs_free(args); }
};

Result<void> parse_pair(std::string_view key, std::string_view value, Devargs& devargs) {
    const auto* const argument = std::ranges::find(kArguments, key, &Argument::key);
    if (argument == std::end(kArguments))
        return fail(EINVAL, "unknown device argument \"{}\": known are {}", key, kUsage.view());
    const Result<AllowedValue> given = check_value(key, argument->allowed, value);
    if (!given) return tl::unexpected(given.error());
    argument->store(devargs, *given);
    return {};
}

} // namespace

Result<Devargs> parse_devargs(const char* args) {
    Devargs devargs;
    const std::string text = args != nullptr ? args : "";
    // No list of valid keys is given: kvargs would refuse an unknown key without naming it.
    const std::unique_ptr<rte_kvargs, FreeKvargs> pairs(rte_kvargs_parse(text.c_str(), nullptr));
    if (!pairs)
        return fail(EINVAL, "malformed device arguments \"{}\": give {}", text, kUsage.view());
    for (unsigned i = 0; i < pairs->count; ++i) {
        const rte_kvargs_pair& pair = pairs->pairs[i];
        if (pair.value == nullptr || pair.value[0] == '\0')
            return fail(EINVAL, "device argument \"{}\" has no value: give {}", pair.key,
                        kUsage.view());
        if (rte_kvargs_count(pairs.get(), pair.key) > 1)
            return fail(EINVAL, "device argument \"{}\" is given more than once", pair.key);
        if (const Result<void> done = parse_pair(pair.key, pair.value, devargs); !done)
            return tl::unexpected(done.error());
    }
    if (devargs.device.empty() == devargs.iface.empty())
        return fail(EINVAL, "{} device= and iface=: give {}",
                    devargs.device.empty() ? "neither of" : "only one of", kUsage.view());
    if (!devargs.iface.empty() && devargs.port != 0)
        return fail(EINVAL, "port= goes with device=; iface={} names its RDMA port itself",
                    devargs.iface);
    return devargs;
}

} // namespace rawqp
