// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/driver/devargs.hpp"

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/driver/formats.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>

namespace rawqp {
namespace {

constexpr const char* kUsage =
    "device=RDMA_DEVICE[,port=N] or iface=NETDEV, datapath=auto|FORMAT, cqe_comp=0|1, "
    "rx_timestamp=raw|real, mprq_en=0|1, mprq_log_stride_num=N, mprq_log_stride_size=N, "
    "mprq_max_memcpy_len=BYTES, txq_mpw=0|1, txq_inline=BYTES, "
    "txq_inline_min=auto|none|l2|ip|tcp and txq_doorbell=plain|blueflame";

struct FreeKvargs {
    void operator()(rte_kvargs* args) const { rte_kvargs_free(args); }
};

std::string datapaths() {
    std::string names = "auto";
    for (const RingFormat* format : ring_formats())
        names += fmt::format(", {}", format->name);
    return names;
}

bool is_datapath(std::string_view name) {
    for (const RingFormat* format : ring_formats())
        if (name == format->name) return true;
    return name == "auto";
}

/// False: the text is not a number from `min` to `max`.
template <class Number>
bool read_number(std::string_view text, Number& number, Number min, Number max) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end && number >= min && number <= max;
}

Result<void> parse_port(std::string_view text, Devargs& devargs) {
    if (!read_number<uint8_t>(text, devargs.port, 1, UINT8_MAX))
        return fail(EINVAL, "port={}: not an RDMA port number, 1 to 255", text);
    return {};
}

Result<void> parse_switch(std::string_view key, std::string_view text, bool& on) {
    if (text != "0" && text != "1") return fail(EINVAL, "{}={}: neither 0 nor 1", key, text);
    on = text == "1";
    return {};
}

template <class Number>
Result<void> parse_number(std::string_view key, std::string_view text, Number& number, Number min,
                          Number max) {
    if (!read_number(text, number, min, max))
        return fail(EINVAL, "{}={}: not a number from {} to {}", key, text, min, max);
    return {};
}

Result<void> parse_inline(std::string_view text, Devargs& devargs) {
    if (!read_number<uint16_t>(text, devargs.tx_inline_bytes, 0, kMaxInlineBytes))
        return fail(EINVAL, "txq_inline={}: not a number of bytes from 0 to {}", text,
                    kMaxInlineBytes);
    return {};
}

Result<void> parse_inline_mode(std::string_view text, Devargs& devargs) {
    constexpr std::string_view kNames[] = {"auto", "none", "l2", "ip", "tcp"}; // as InlineMode
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), text);
    if (found == std::end(kNames))
        return fail(EINVAL, "txq_inline_min={}: none of auto, none, l2, ip and tcp", text);
    devargs.tx_min_inline = static_cast<InlineMode>(found - kNames);
    return {};
}

Result<void> parse_doorbell(std::string_view text, Devargs& devargs) {
    if (text != "plain" && text != "blueflame")
        return fail(EINVAL, "txq_doorbell={}: neither plain nor blueflame", text);
    devargs.tx_blue_flame = text == "blueflame";
    return {};
}

Result<void> parse_pair(std::string_view key, std::string_view value, Devargs& devargs) {
    if (key == "port") return parse_port(value, devargs);
    if (key == "cqe_comp") return parse_switch(key, value, devargs.cqe_comp);
    if (key == "rx_timestamp") {
        if (value != "raw" && value != "real")
            return fail(EINVAL, "rx_timestamp={}: neither raw nor real", value);
        devargs.real_time = value == "real";
        return {};
    }
    if (key == "mprq_en") return parse_switch(key, value, devargs.multi_packet_rx);
    if (key == "mprq_log_stride_num") // the device narrows the limits further
        return parse_number<uint8_t>(key, value, devargs.striding.log_strides, 1, 13);
    if (key == "mprq_log_stride_size")
        return parse_number<uint8_t>(key, value, devargs.striding.log_stride_bytes, 1, 15);
    if (key == "mprq_max_memcpy_len")
        return parse_number<uint16_t>(key, value, devargs.striding.copy_bytes, 0, UINT16_MAX);
    if (key == "txq_mpw") return parse_switch(key, value, devargs.tx_multi_packet);
    if (key == "txq_inline") return parse_inline(value, devargs);
    if (key == "txq_inline_min") return parse_inline_mode(value, devargs);
    if (key == "txq_doorbell") return parse_doorbell(value, devargs);
    if (key == "device")
        devargs.device = value;
    else if (key == "iface")
        devargs.iface = value;
    else if (key != "datapath")
        return fail(EINVAL, "unknown device argument \"{}\": known are {}", key, kUsage);
    else if (!is_datapath(value))
        return fail(EINVAL, "datapath={}: unknown; known are {}", value, datapaths());
    else
        devargs.datapath = value;
    return {};
}

} // namespace

Result<Devargs> parse_devargs(const char* args) {
    Devargs devargs;
    const std::string text = args != nullptr ? args : "";
    // No list of valid keys is given: kvargs would refuse an unknown key without naming it.
    const std::unique_ptr<rte_kvargs, FreeKvargs> pairs(rte_kvargs_parse(text.c_str(), nullptr));
    if (!pairs) return fail(EINVAL, "malformed device arguments \"{}\": give {}", text, kUsage);
    for (unsigned i = 0; i < pairs->count; ++i) {
        const rte_kvargs_pair& pair = pairs->pairs[i];
        if (pair.value == nullptr || pair.value[0] == '\0')
            return fail(EINVAL, "device argument \"{}\" has no value: give {}", pair.key, kUsage);
        if (rte_kvargs_count(pairs.get(), pair.key) > 1)
            return fail(EINVAL, "device argument \"{}\" is given more than once", pair.key);
        if (const Result<void> done = parse_pair(pair.key, pair.value, devargs); !done)
            return tl::unexpected(done.error());
    }
    if (devargs.device.empty() == devargs.iface.empty())
        return fail(EINVAL, "{} device= and iface=: give {}",
                    devargs.device.empty() ? "neither of" : "only one of", kUsage);
    if (!devargs.iface.empty() && devargs.port != 0)
        return fail(EINVAL, "port= goes with device=; iface={} names its RDMA port itself",
                    devargs.iface);
    return devargs;
}

} // namespace rawqp
