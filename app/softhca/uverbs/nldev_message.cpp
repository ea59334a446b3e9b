// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/nldev_message.hpp"

#include <cerrno>
#include <cstring>
#include <optional>

namespace softhca::uverbs {
namespace {

enum class Kind : uint8_t { any, u8, u32, string };

/// For the attributes that are read from requests.
Kind kind_of(uint16_t type) {
    switch (type) {
    case kAttrDriverDetails: return Kind::u8;
    case RDMA_NLDEV_ATTR_DEV_INDEX:
    case RDMA_NLDEV_ATTR_PORT_INDEX:
    case RDMA_NLDEV_ATTR_RES_LQPN:
    case RDMA_NLDEV_ATTR_RES_CM_IDN:
    case RDMA_NLDEV_ATTR_RES_CQN:
    case RDMA_NLDEV_ATTR_RES_MRN:
    case RDMA_NLDEV_ATTR_RES_PDN:
    case RDMA_NLDEV_ATTR_RES_CTXN:
    case RDMA_NLDEV_ATTR_RES_SRQN:
    case RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
    case RDMA_NLDEV_ATTR_STAT_MODE:
    case RDMA_NLDEV_ATTR_STAT_RES: return Kind::u32;
    case RDMA_NLDEV_ATTR_CHARDEV_TYPE:
    case RDMA_NLDEV_ATTR_DEV_NAME: return Kind::string;
    default: return Kind::any;
    }
}

/// Null if the attribute is valid.
const char* fault_of(const nlattr& attribute, bool strict, int& error) {
    constexpr size_t kLongestText = 64;
    const size_t length = mnl_attr_get_payload_len(&attribute);
    const auto* text = static_cast<const char*>(mnl_attr_get_payload(&attribute));
    const auto check = [&](size_t wanted) -> const char* {
        error = strict ? EINVAL : ERANGE;
        if (strict && length != wanted) return "invalid attribute length";
        return length < wanted ? "Attribute failed policy validation" : nullptr;
    };
    switch (kind_of(mnl_attr_get_type(&attribute))) {
    case Kind::any: return nullptr;
    case Kind::u8: return check(sizeof(uint8_t));
    case Kind::u32: return check(sizeof(uint32_t));
    case Kind::string:
        error = length > kLongestText ? ERANGE : EINVAL;
        return length && length <= kLongestText && std::memchr(text, 0, length)
                   ? nullptr
                   : "Attribute failed policy validation";
    }
    return nullptr;
}

} // namespace

Refusal NldevRequest::parse(bool strict) {
    const auto* start = reinterpret_cast<const char*>(&header);
    const auto* next = static_cast<const nlattr*>(mnl_nlmsg_get_payload(&header));
    int left = static_cast<int>(mnl_nlmsg_get_payload_len(&header));
    for (; mnl_attr_ok(next, left); left -= MNL_ALIGN(next->nla_len), next = mnl_attr_next(next)) {
        const auto offset = static_cast<size_t>(reinterpret_cast<const char*>(next) - start);
        const uint16_t type = mnl_attr_get_type(next);
        if (type == 0 || type >= attributes_.size()) {
            if (strict) return {EINVAL, "Unknown attribute type", offset};
            continue;
        }
        int error = 0;
        if (const char* fault = fault_of(*next, strict, error)) return {error, fault, offset};
        attributes_[type] = next;
    }
    if (left > 0 && strict) return {EINVAL, "bytes leftover after parsing attributes"};
    return {};
}

NldevMessage::NldevMessage(const nlmsghdr& request, uint32_t port, uint16_t type, uint16_t flags)
    : header_(mnl_nlmsg_put_header(buffer_.data())) {
    header_->nlmsg_type = type;
    header_->nlmsg_flags = flags;
    header_->nlmsg_seq = request.nlmsg_seq;
    header_->nlmsg_pid = port;
}

nlattr* NldevMessage::open(uint16_t type, bool marked) {
    nlattr* start = mnl_attr_nest_start(header_, type);
    if (!marked) start->nla_type = type;
    return start;
}

void NldevMessage::append(const void* data, size_t length) {
    std::memcpy(mnl_nlmsg_put_extra_header(header_, length), data, length);
}

std::string acknowledgement(const nlmsghdr& request, uint32_t port, const Refusal& refusal,
                            bool capped, bool extended) {
    const nlmsgerr head{.error = -refusal.error, .msg = request};
    // The request is included with its content if it was refused.
    const bool whole = refusal.error && !capped;
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    if (whole)
        bytes.append(reinterpret_cast<const char*>(&request + 1),
                     request.nlmsg_len - sizeof request);
    bytes.resize(MNL_ALIGN(bytes.size()));

    const bool tells = extended && refusal.text;
    NldevMessage details(
        request, port, NLMSG_ERROR,
        static_cast<uint16_t>((whole ? 0 : NLM_F_CAPPED) | (tells ? NLM_F_ACK_TLVS : 0)));
    if (tells) {
        details.text(NLMSGERR_ATTR_MSG, refusal.text);
        if (refusal.offset) details.u32(NLMSGERR_ATTR_OFFS, static_cast<uint32_t>(refusal.offset));
    }
    std::string message = details.bytes();
    message.insert(sizeof(nlmsghdr), bytes);
    auto* header = reinterpret_cast<nlmsghdr*>(message.data());
    header->nlmsg_len = static_cast<uint32_t>(message.size());
    return message;
}

} // namespace softhca::uverbs
