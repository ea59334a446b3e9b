// SPDX-License-Identifier: BSD-3-Clause
// pair:NAME: connects the two ports of one run that name the same pair.
#include "app/softhca/wire/cable.hpp"
#include "app/softhca/wire/wires.hpp"

#include <map>
#include <mutex>

namespace softhca::wire {
namespace {

struct Pair {
    std::shared_ptr<Cable> cable = make_local_cable();
    bool taken[2] = {false, false};
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
        pair_->taken[end_] = false;
    }
    PairSeat(const PairSeat&) = delete;
    PairSeat& operator=(const PairSeat&) = delete;

  private:
    std::shared_ptr<Pair> pair_;
    unsigned end_;
};

/// The seat is a base class in front of the end, so that it is given up only after unplugging.
class PairWire final : PairSeat, public CableEnd {
  public:
    PairWire(const std::shared_ptr<Pair>& pair, unsigned end)
        : PairSeat(pair, end), CableEnd(*pair->cable, end) {}
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
        while (end < 2 && pair->taken[end])
            ++end;
        if (end == 2)
            return fail(EBUSY,
                        "wire pair:{}: connects two other ports already; a pair has two ends",
                        spec.name);
        pair->taken[end] = true;
    }
    return std::make_unique<PairWire>(pair, end);
}

} // namespace softhca::wire
