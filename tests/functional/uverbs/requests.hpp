// SPDX-License-Identifier: BSD-3-Clause
// Requests to the kernel's RDMA stack as no library makes them.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <vector>

namespace test {

/// A hand-made RDMA_VERBS_IOCTL request.
class Request {
  public:
    Request(uint16_t object, uint16_t method) {
        header().object_id = object;
        header().method_id = method;
        header().driver_id = RDMA_DRIVER_MLX5;
        header().length = sizeof(ib_uverbs_ioctl_hdr);
    }
    Request& in(uint16_t id, const void* data, uint16_t size) {
        ib_uverbs_attr attribute{};
        attribute.attr_id = id;
        attribute.len = size;
        if (size <= 8)
            std::memcpy(&attribute.data, data, size);
        else
            attribute.data = reinterpret_cast<uint64_t>(data);
        return add(attribute);
    }
    /// Likewise a handle, of no size, in place of the address.
    Request& pointer(uint16_t id, uint64_t address, uint16_t size) {
        ib_uverbs_attr attribute{};
        attribute.attr_id = id;
        attribute.len = size;
        attribute.data = address;
        return add(attribute);
    }
    /// A place for an answer.
    template <class T> Request& out(uint16_t id, T& place) {
        return pointer(id, reinterpret_cast<uint64_t>(&place), sizeof place);
    }
    /// The last attribute, without which the request would not be what the program wants.
    Request& mandatory() {
        last().flags = UVERBS_ATTR_F_MANDATORY;
        return *this;
    }
    Request& reserved() {
        last().attr_data.reserved = 1;
        return *this;
    }
    Request& selects(uint8_t element, uint8_t reserved = 0) {
        last().attr_data.enum_data = {element, reserved};
        return *this;
    }
    /// Returns 0 or errno.
    int send(int fd) { return ioctl(fd, RDMA_VERBS_IOCTL, &header()) ? errno : 0; }
    ib_uverbs_ioctl_hdr& header() { return *reinterpret_cast<ib_uverbs_ioctl_hdr*>(words_.data()); }

  private:
    ib_uverbs_attr& last() { return header().attrs[header().num_attrs - 1]; }
    Request& add(const ib_uverbs_attr& attribute) {
        const size_t at = words_.size();
        words_.resize(at + sizeof attribute / 8);
        std::memcpy(&words_[at], &attribute, sizeof attribute);
        header().num_attrs++;
        header().length = static_cast<uint16_t>(words_.size() * 8);
        return *this;
    }
    std::vector<uint64_t> words_ = std::vector<uint64_t>(sizeof(ib_uverbs_ioctl_hdr) / 8);
};

/// A command of the classic ABI.
inline Request write_command(uint32_t number, const void* in, uint16_t in_size, void* out,
                             uint16_t out_size) {
    Request request(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    const uint64_t wide = number;
    request.in(UVERBS_ATTR_WRITE_CMD, &wide, sizeof wide);
    if (in_size) request.in(UVERBS_ATTR_CORE_IN, in, in_size);
    if (out_size) request.pointer(UVERBS_ATTR_CORE_OUT, reinterpret_cast<uint64_t>(out), out_size);
    return request;
}

} // namespace test
