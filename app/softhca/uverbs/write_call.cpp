// SPDX-License-Identifier: BSD-3-Clause
// The commands of the classic ABI as write(2) takes them: of programs whose libibverbs was built
// without the ioctl. One call is one frame: a header, what is asked for, and where the answer goes.
// As ib_uverbs_write() of the kernel, also in the order of its checks.
#include "app/softhca/uverbs/commands.hpp"

#include <cerrno>
#include <cstring>

namespace softhca::uverbs {
namespace {

/// A frame whose header has been read.
struct Frame {
    ib_uverbs_cmd_hdr header;
    const std::byte* body; ///< after the header
    size_t body_bytes;
    CallMemory& memory;
};

/// Bytes of a request or an answer: first the core's, then the driver's.
struct Parts {
    size_t core, driver;
    [[nodiscard]] size_t all() const { return core + driver; }
};

template <class T> T value_at(const std::byte* place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    return value;
}

/// Runs the command on a request that is mapped.
Errno run(Context& context, const Frame& frame, const std::byte* request, Parts in,
          uint64_t response, Parts out) {
    if (!context.device && frame.header.command != IB_USER_VERBS_CMD_GET_CONTEXT) return EINVAL;
    auto* const answer = reinterpret_cast<std::byte*>(response);
    if (!frame.memory.has(answer, out.all(), true)) return EFAULT;
    return run_write_command(context, frame.header.command,
                             {.in = {request, in.core},
                              .out = {answer, out.core},
                              .driver_in = {request + in.core, in.driver},
                              .driver_out = {answer + out.core, out.driver},
                              .async = context.default_async});
}

/// What is after the structs known to the core is the driver's. The answer's place is the first
/// word of the request, if there is an answer.
Errno run_plain(Context& context, const Frame& frame, const WriteFrame& known) {
    constexpr size_t kWord = 4;
    const ib_uverbs_cmd_hdr& header = frame.header;
    const size_t in = frame.body_bytes, out = header.out_words * kWord;
    if (header.in_words * kWord != sizeof header + in) return EINVAL;
    if (in < known.request || out < known.response) return ENOSPC;
    if (!frame.memory.has(frame.body, in)) return EFAULT;
    const auto split = [&](size_t all, size_t core) {
        return known.driver ? Parts{core, all - core} : Parts{all, 0};
    };
    if (known.response == 0)
        return run(context, frame, frame.body, split(in, known.request), 0, {});
    return run(context, frame, frame.body, split(in, known.request), value_at<uint64_t>(frame.body),
               split(out, known.response));
}

/// A second header says where the answer goes, and what of both is the driver's.
Errno run_extended(Context& context, const Frame& frame) {
    constexpr size_t kWord = 8;
    if (frame.body_bytes < sizeof(ib_uverbs_ex_cmd_hdr)) return EINVAL;
    if (!frame.memory.has(frame.body, frame.body_bytes)) return EFAULT;
    const auto more = value_at<ib_uverbs_ex_cmd_hdr>(frame.body);
    const Parts in{frame.header.in_words * kWord, more.provider_in_words * kWord};
    const Parts out{frame.header.out_words * kWord, more.provider_out_words * kWord};
    if (in.all() != frame.body_bytes - sizeof more) return EINVAL;
    if (more.cmd_hdr_reserved != 0) return EINVAL;
    if ((more.response != 0) != (out.all() != 0)) return EINVAL;
    return run(context, frame, frame.body + sizeof more, in, more.response, out);
}

} // namespace

Errno run_written(Context& context, const void* data, size_t size) {
    CallMemory memory;
    if (size < sizeof(ib_uverbs_cmd_hdr)) return EINVAL;
    if (!memory.has(data, sizeof(ib_uverbs_cmd_hdr))) return EFAULT;
    const auto* const bytes = static_cast<const std::byte*>(data);
    const auto header = value_at<ib_uverbs_cmd_hdr>(bytes);
    const auto known = write_frame(header.command);
    if (!known) return run_write_command(context, header.command, {}); // says why
    const Frame frame{header, bytes + sizeof header, size - sizeof header, memory};
    const bool extended = header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
    return extended ? run_extended(context, frame) : run_plain(context, frame, *known);
}

} // namespace softhca::uverbs
