// SPDX-License-Identifier: BSD-3-Clause
// pair:NAME: connects the two ports of one run that name the same pair. Frames go from the sender's
// memory to the receiver if it takes them at once, and otherwise through the cable's ring.
#include "app/softhca/wire/cable.hpp"
#include "app/softhca/wire/wires.hpp"

#include <map>
#include <mutex>

namespace softhca::wire {
namespace {

/// The recipient at an end.
struct Place {
    bool taken = false;
    std::mutex mutex; ///< held while the recipient takes frames
    Recipient* recipient = nullptr;
};

struct Pair {
    std::shared_ptr<Cable> cable = make_local_cable();
    Place places[2];
};

std::mutex pairs_mutex; // ports may be opened and closed by different threads
std::map<std::string, std::weak_ptr<Pair>>& pairs() {
    static auto* all = new std::map<std::string, std::weak_ptr<Pair>>; // outlives static objects
    return *all;
}

/// The right to use one end of a pair.
class PairSeat {
  public:
    PairSeat(std::shared_ptr<Pair> pair, unsigned end) : pair_(std::move(pair)), end_(end) {}
    ~PairSeat() {
        const std::lock_guard lock(pairs_mutex);
        pair_->places[end_].taken = false;
    }
    PairSeat(const PairSeat&) = delete;
    PairSeat& operator=(const PairSeat&) = delete;

  protected:
    [[nodiscard]] Place& own() const { return pair_->places[end_]; }
    [[nodiscard]] Place& peer() const { return pair_->places[1 - end_]; }

  private:
    std::shared_ptr<Pair> pair_;
    unsigned end_;
};

/// The seat is a base class before the end, so that it is released only after unplugging.
class PairWire final : PairSeat, public CableEnd {
  public:
    PairWire(const std::shared_ptr<Pair>& pair, unsigned end)
        : PairSeat(pair, end), CableEnd(*pair->cable, end) {}

    SendResult send_batch(std::span<const iovec> frames, size_t& sent) override {
        const size_t taken = is_drained() ? hand_over(frames) : 0; // otherwise they would overtake
        sent += taken;
        return CableEnd::send_batch(frames.subspan(taken), sent);
    }
    void set_recipient(Recipient* recipient) override {
        const std::lock_guard lock(own().mutex);
        own().recipient = recipient;
    }

  private:
    [[nodiscard]] size_t hand_over(std::span<const iovec> frames) const {
        const std::lock_guard lock(peer().mutex);
        return peer().recipient ? peer().recipient->take(frames) : 0;
    }
};

} // namespace

OpenedWire open_pair(const PairSpec& spec) {
    std::shared_ptr<Pair> pair;
    unsigned end = 0;
    {
        const std::lock_guard lock(pairs_mutex);
        std::weak_ptr<Pair>& known = pairs()[spec.name];
        pair = known.lock();
        if (!pair) known = pair = std::make_shared<Pair>();
        while (end < 2 && pair->places[end].taken)
            ++end;
        if (end == 2)
            return fail(EBUSY,
                        "wire pair:{}: connects two other ports already; a pair has two ends",
                        spec.name);
        pair->places[end].taken = true;
    }
    return std::make_unique<PairWire>(pair, end);
}

} // namespace softhca::wire
