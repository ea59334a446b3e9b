// SPDX-License-Identifier: BSD-3-Clause
// ibv_counters: what flows with a count action have matched. The first flow that names a counters
// object also says where a reader finds each value.
#include "app/softhca/uverbs/commands.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>
#include <optional>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>

namespace softhca::uverbs {
namespace {

using Description = mlx5_ib_flow_counters_desc;
using Data = mlx5_ib_flow_counters_data;

constexpr uint32_t kMaxPoints = 0xffff / sizeof(Description);

Errno read_description(const Data& data, std::vector<Description>& points) {
    if (data.ncounters > kMaxPoints) return EINVAL;
    // The ABI's field is a pointer with a width of eight bytes everywhere.
    const auto* from = reinterpret_cast<const Description*>(data.counters_data);
    const size_t bytes = data.ncounters * sizeof(Description);
    if (bytes != 0 && !is_mapped(from, bytes)) return EFAULT;
    points.resize(data.ncounters);
    if (bytes != 0) std::memcpy(points.data(), from, bytes);
    for (const Description& point : points)
        if (point.description > IBV_COUNTER_BYTES) return EINVAL;
    return 0;
}

/// The data after mlx5_ib_create_flow, if it announces any.
std::optional<Data> described(const InBuffer& driver_in) {
    if (driver_in.as<mlx5_ib_create_flow>().ncounters_data == 0) return std::nullopt;
    const auto counters = driver_in.bytes().subspan(sizeof(mlx5_ib_create_flow));
    return InBuffer(counters.data(), counters.size()).as<Data>();
}

Errno describe(Counters& counters, const InBuffer& driver_in) {
    const auto data = described(driver_in);
    // Counters are described by the first flow that names them, and by no other.
    if (data.has_value() == (counters.room != 0)) return EINVAL;
    if (!data) return 0;
    std::vector<Description> points;
    if (const Errno error = read_description(*data, points)) return error;
    for (const Description& point : points)
        counters.room = std::max(counters.room, uint64_t{point.index} + 1);
    counters.points = std::move(points);
    return 0;
}

} // namespace

Errno create_counters(Context& context, const IoctlAttributes& attributes) {
    if (!attributes.has(UVERBS_ATTR_CREATE_COUNTERS_HANDLE)) return EINVAL;
    attributes.set_handle(UVERBS_ATTR_CREATE_COUNTERS_HANDLE,
                          context.objects.add(std::make_unique<Counters>()));
    return 0;
}

Errno read_counters(Context& context, const IoctlAttributes& attributes) {
    constexpr std::array<uint16_t, 1> kPointers = {UVERBS_ATTR_READ_COUNTERS_BUFF};
    const auto handle = attributes.number(UVERBS_ATTR_READ_COUNTERS_HANDLE);
    if (!handle || !attributes.has(UVERBS_ATTR_READ_COUNTERS_BUFF)) return EINVAL;
    const Counters* counters = context.objects.find<Counters>(*handle);
    if (!counters) return context.objects.absence(*handle);
    const uint64_t flags = attributes.number(UVERBS_ATTR_READ_COUNTERS_FLAGS).value_or(0);
    if (!counters->users || flags & ~uint64_t{IB_UVERBS_READ_COUNTERS_PREFER_CACHED}) return EINVAL;
    if (!attributes.pointers_are_good(kPointers, true)) return EFAULT;
    const OutBuffer out = attributes.out(UVERBS_ATTR_READ_COUNTERS_BUFF);
    std::vector<uint64_t> values(out.size() / sizeof(uint64_t));
    if (!counters->number || counters->room > values.size()) return EINVAL;
    const auto counts = context.device->query_flow_counter(counters->number, false);
    if (!counts) return errno_of(counts);
    for (const Description& point : counters->points)
        values[point.index] +=
            point.description == IBV_COUNTER_BYTES ? counts->bytes : counts->packets;
    std::memcpy(out.bytes().data(), values.data(), values.size() * sizeof(uint64_t));
    return 0;
}

Errno check_counters_data(const InBuffer& driver_in) {
    if (driver_in.size() == 0) return 0;
    if (driver_in.size() < sizeof(mlx5_ib_create_flow)) return EOPNOTSUPP;
    const uint32_t given = driver_in.as<mlx5_ib_create_flow>().ncounters_data;
    if (given > 1) return EINVAL;
    const size_t known = sizeof(mlx5_ib_create_flow) + given * sizeof(Data);
    if (driver_in.size() < known) return EFAULT;
    return driver_in.has_more_than(known) ? EOPNOTSUPP : 0;
}

Errno bind_counters(Counters& counters, const InBuffer& driver_in, core::Device& device) {
    if (const Errno error = describe(counters, driver_in)) return error;
    if (counters.number) return 0;
    const auto number = device.create_flow_counters();
    if (number) counters.number = *number;
    return errno_of(number);
}

} // namespace softhca::uverbs
