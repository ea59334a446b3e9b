// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/cable.hpp"

#include <cstdlib>
#include <new>
#include <sys/mman.h>

namespace softhca::wire {

std::shared_ptr<Cable> make_local_cable() {
    void* memory =
        mmap(nullptr, sizeof(Cable), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return {static_cast<Cable*>(memory), [](Cable* cable) { munmap(cable, sizeof *cable); }};
}

CableEnd::CableEnd(Cable& cable, unsigned end)
    : reader_(cable.ring(1 - end)), writer_(cable.ring(end)), own_(cable.ends[end]),
      peer_(cable.ends[1 - end]) {
    // A predecessor that died left an odd number: first announce that it has gone.
    const uint64_t unplugged = (own_.generation.load(std::memory_order_relaxed) + 1) & ~uint64_t{1};
    own_.generation.store(unplugged, std::memory_order_seq_cst);
    reader_.skip_all();
    own_.port_up.store(1, std::memory_order_relaxed);
    own_.generation.store(unplugged + 1, std::memory_order_release);
}

CableEnd::~CableEnd() {
    writer_.publish(); // what was sent still reaches a peer that reads
    own_.generation.fetch_add(1, std::memory_order_release);
}

std::span<const std::byte> CableEnd::peek() {
    const auto frame = reader_.peek();
    if (frame.empty()) look_for_death();
    return frame;
}

size_t CableEnd::peek_batch(std::span<iovec> frames) {
    const size_t count = reader_.peek_batch(frames);
    if (count == 0) look_for_death();
    return count;
}

SendResult CableEnd::send(const OutFrame& frame) {
    if (!peer_attached()) return SendResult::lost;
    const SendResult result = writer_.put(frame);
    return result == SendResult::busy ? busy() : result;
}

SendResult CableEnd::send_batch(std::span<const iovec> frames, size_t& sent) {
    if (!peer_attached()) return SendResult::lost;
    const SendResult result = writer_.put_batch(frames, sent);
    return result == SendResult::busy ? busy() : result;
}

/// The result for a frame that finds no room.
SendResult CableEnd::busy() {
    look_for_death();
    return peer_attached() ? SendResult::busy : SendResult::lost;
}

bool CableEnd::peer_attached() const {
    const uint64_t generation = peer_.generation.load(std::memory_order_acquire);
    return (generation & 1) && generation != dead_generation_;
}

void CableEnd::look_for_death() {
    const uint64_t generation = peer_.generation.load(std::memory_order_acquire);
    if ((generation & 1) && generation != dead_generation_ && !peer_alive())
        dead_generation_ = generation;
}

bool CableEnd::carrier() {
    return peer_attached() && peer_.port_up.load(std::memory_order_acquire);
}

} // namespace softhca::wire
