// SPDX-License-Identifier: BSD-3-Clause
// A receive ring that is driven by an input, whatever its format.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/received.hpp"
#include "tests/unit/rings/fake_mrs.hpp"

#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace fuzz {

/// The elements of `all` that the input selects: bit 0 is the first.
template <size_t kCount>
constexpr uint64_t chosen(uint8_t bits, const std::array<uint64_t, kCount>& all) {
    uint64_t some = 0;
    for (size_t i = 0; i < kCount; ++i)
        if (bits >> i & 1) some |= all[i];
    return some;
}

class RingPlayer {
  public:
    virtual ~RingPlayer() = default;
    RingPlayer(const RingPlayer&) = delete;
    RingPlayer& operator=(const RingPlayer&) = delete;

    /// Returns the first thing that went wrong; empty: nothing.
    std::string run(size_t max_steps) {
        start();
        for (size_t step = 0; problem_.empty() && !input_.empty() && step < max_steps; ++step)
            play(input_.byte());
        if (ring_ != nullptr && problem_.empty()) finish(); // else it cannot be trusted now
        return problem_;
    }

  protected:
    static constexpr uint16_t kMaxPoll = 64;

    /// Constructors of derived classes fill in the rest of `spec_`.
    RingPlayer(Input input, const rawqp::RingFormat& format, rte_mempool* pool, uint8_t segments,
               bool mark)
        : input_(input), format_(format), received_(pool, segments), mark_(mark) {
        spec_.pool = pool;
        spec_.segments = segments;
        spec_.mrs = &mrs_.table;
        mrs_.on_reset = [this] { return reset(); };
    }

    /// One step of the input.
    virtual void play(uint8_t step) = 0;
    /// Stops and destroys the ring, and checks what is left.
    virtual void finish() = 0;
    /// Called when the ring's WQ has been reset.
    virtual void forget_posted() = 0;
    virtual void check(const rte_mbuf& packet) = 0;

    void poll(uint16_t count, bool keep) {
        std::array<rte_mbuf*, kMaxPoll> mbufs{};
        const uint16_t got = burst_(ring_, mbufs.data(), count);
        if (got > count) return fail(fmt::format("{} packets where {} were asked", got, count));
        for (uint16_t i = 0; i < got; ++i)
            check(*mbufs[i]);
        if (std::string wrong = received_.take({mbufs.data(), got}, keep); !wrong.empty())
            fail(std::move(wrong));
    }
    /// The bits decide whether the WQ can be reset from now on, and what else the application does.
    void change(uint8_t step) {
        refuse_reset_ = (step & 0x80) != 0;
        if (step & 0x40) ring_->tell_all = !ring_->tell_all;
        if (step & 0x20) received_.release();
    }
    void fail(std::string what) {
        if (problem_.empty()) problem_ = std::move(what);
    }

    rings_test::FakeMrs mrs_;
    Input input_;
    const rawqp::RingFormat& format_;
    rawqp::RxSpec spec_;
    rawqp::RxRing* ring_ = nullptr;
    Received received_;

  private:
    void start() {
        const auto created = format_.rx_create(spec_);
        if (!created) return fail(created.error().what);
        ring_ = *created;
        ring_->tell_all = mark_;
        if (!format_.rx_start(*ring_)) fail("cannot start");
        burst_ = format_.rx_burst(spec_).function;
    }
    int reset() {
        if (refuse_reset_) return -EIO;
        forget_posted();
        return 0;
    }

    bool mark_;
    eth_rx_burst_t burst_ = nullptr;
    bool refuse_reset_ = false;
    std::string problem_;
};

} // namespace fuzz
