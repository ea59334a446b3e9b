// SPDX-License-Identifier: BSD-3-Clause
// RDMA netlink messages: what a request holds, and writing an answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <libmnl/libmnl.h>
#include <rdma/rdma_netlink.h>
#include <string>
#include <string_view>

namespace softhca::uverbs {

/// Attributes added in Linux 6.7 and 6.8 (rdma_nldev_attr); the headers of a stable 6.1 have them
/// in its latest releases only.
inline constexpr uint16_t kAttrPrivilegedQkeyMode = 96, kAttrDriverDetails = 97;

/// Why a request is refused: a positive errno, the message for sockets that asked for more
/// (NETLINK_EXT_ACK), and the offset of the offending byte.
struct Refusal {
    int error = 0;
    const char* text = nullptr;
    size_t offset = 0; ///< 0: none
};

/// A request of complete, aligned bytes, and its attributes once parsed.
class NldevRequest {
  public:
    explicit NldevRequest(const nlmsghdr& request) : header(request) {}

    /// As nla_parse() does it; the newer commands are `strict`.
    [[nodiscard]] Refusal parse(bool strict);
    [[nodiscard]] bool has(rdma_nldev_attr type) const { return attributes_[type]; }
    /// Value of an attribute that is present.
    [[nodiscard]] uint32_t number(rdma_nldev_attr type) const {
        return mnl_attr_get_u32(attributes_[type]);
    }
    [[nodiscard]] std::string_view text(rdma_nldev_attr type) const {
        return mnl_attr_get_str(attributes_[type]);
    }
    [[nodiscard]] bool has_number(rdma_nldev_attr type, uint32_t value) const {
        return has(type) && number(type) == value;
    }

    const nlmsghdr& header;

  private:
    std::array<const nlattr*, kAttrDriverDetails + 1> attributes_{};
};

/// A message under construction. The writer must keep it within kRoom.
class NldevMessage {
  public:
    /// Readers have at least 4096 bytes; splittable answers are split so that this is enough.
    static constexpr size_t kFull = 3584, kRoom = 8192;

    NldevMessage(const nlmsghdr& request, uint32_t port, uint16_t type, uint16_t flags);
    NldevMessage(const NldevMessage&) = delete;
    NldevMessage& operator=(const NldevMessage&) = delete;

    void u8(uint16_t type, uint8_t value) { mnl_attr_put_u8(header_, type, value); }
    void u32(uint16_t type, uint32_t value) { mnl_attr_put_u32(header_, type, value); }
    void u64(uint16_t type, uint64_t value) { mnl_attr_put_u64(header_, type, value); }
    void text(uint16_t type, const std::string& value) {
        mnl_attr_put_strz(header_, type, value.c_str());
    }
    /// What `fill` adds becomes the content of an attribute.
    template <class Fill> void nest(uint16_t type, Fill fill) {
        nlattr* start = open(type);
        fill();
        close(start);
    }
    /// Nesting in two steps. As in the kernel, tables are not marked as nested unless `marked`.
    [[nodiscard]] nlattr* open(uint16_t type, bool marked = false);
    void close(nlattr* start) { mnl_attr_nest_end(header_, start); }
    /// Bytes without attributes.
    void append(const void* data, size_t length);

    [[nodiscard]] nlmsghdr& header() { return *header_; }
    [[nodiscard]] bool is_full() const { return header_->nlmsg_len > kFull; }
    [[nodiscard]] std::string bytes() const {
        return {reinterpret_cast<const char*>(header_), header_->nlmsg_len};
    }

  private:
    alignas(nlmsghdr) std::array<char, kRoom> buffer_{};
    nlmsghdr* header_;
};

/// NLMSG_ERROR for a refused request, or its acknowledgement.
[[nodiscard]] std::string acknowledgement(const nlmsghdr& request, uint32_t port,
                                          const Refusal& refusal, bool capped, bool extended);

} // namespace softhca::uverbs
