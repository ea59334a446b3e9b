// SPDX-License-Identifier: BSD-3-Clause
// A port of the primary process in a secondary one.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/process/guards.hpp"
#include "drivers/net/rawqp/ethdev/process/protocol.hpp"
#include "drivers/net/rawqp/ethdev/process_port.hpp"

#include <atomic>
#include <mutex>
#include <optional>

namespace rawqp {

/// Probe in a secondary process: the primary has a port with the device's name.
[[nodiscard]] Result<void> attach_secondary(rte_vdev_device* vdev, RingFormats formats);

extern const eth_dev_ops kSecondaryOps;

/// The last event that has come, as an earlier one may be about a past state.
struct LastEvent {
    std::optional<EventMessage> event;
    bool over = false; ///< nothing more comes
    [[nodiscard]] bool is_closed() const { return event && event->what == Event::closed; }
    [[nodiscard]] bool is_end() const { return over || is_closed(); }
};

/// process_private of a secondary. It owns mappings and functions; everything else is the
/// primary's, which it asks for what is not plain data. Once the primary closes the port or dies,
/// bursts are empty and operations fail.
class SecondaryPort final : public ProcessPort {
  public:
    SecondaryPort(rte_eth_dev* dev, SharedPort& shared, RingFormats formats);
    ~SecondaryPort();

    /// Announces itself to the primary, and opens the queues that run.
    [[nodiscard]] Result<void> connect();
    /// From now on ethdev's fast path calls the guards. Called after rte_eth_dev_probing_finish.
    void install();
    /// The shared state may be read, within a Visit, and the primary be asked.
    [[nodiscard]] bool alive() const { return !gone_.load(); }

    /// While a Visit that was let in lasts, the primary does not take the shared state away.
    class Visit {
      public:
        explicit Visit(SecondaryPort& port) : port_(port) { ++port_.visitors_; }
        ~Visit() { --port_.visitors_; }
        Visit(const Visit&) = delete;
        Visit& operator=(const Visit&) = delete;
        explicit operator bool() const { return port_.alive(); }

      private:
        SecondaryPort& port_;
    };

    bool register_address(uintptr_t address, MrEntry& entry) override;
    int reset(RxRing& ring) override;
    int reset(TxRing& ring) override;
    int read_clock(mlx5dv_clock_info& info) override;
    int read_clock(uint64_t& ticks) override;
    void read_missed() override;

    /// Makes the primary read the link into rte_eth_dev_data.
    [[nodiscard]] int read_link();
    /// As rte_eth_read_clock. 0 or an errno value, like the others here.
    [[nodiscard]] int device_clock(uint64_t& time);
    [[nodiscard]] int query_flow(const rte_flow* flow, rte_flow_query_count& count);

    [[nodiscard]] static SecondaryPort& of(const rte_eth_dev* dev) {
        return static_cast<SecondaryPort&>(ProcessPort::of(dev));
    }
    /// What ethdev has instead of the shared data once the port is closed, here or by the primary,
    /// which erases that data and may later have another port in its place: no queues, no address.
    /// By the port number in it ethdev finds the fast path to reset (DPDK 22.11 to 25.11).
    [[nodiscard]] rte_eth_dev_data& data_of_closed();

  private:
    /// The result has the answer's error, or why there is no answer: EIO, the primary is gone;
    /// ETIMEDOUT.
    AnswerMessage ask(QuestionMessage question);
    /// The same for control calls, which wait until the primary's control path is done with the
    /// port. EAGAIN: it was busy for kBusyMilliseconds. Bursts cannot wait, because the primary may
    /// be waiting for them to end.
    AnswerMessage ask_patiently(const QuestionMessage& question);
    template <class Ring> int ask_reset(Question what, const Ring& ring);
    /// Opens the guards of running queues, closes the others, and waits until nobody is inside
    /// those.
    void follow();
    void open_queues();
    void leave(const char* why);
    /// Makes the primary admit this process. `missed`: what it has notified since.
    int enter(LastEvent& missed);
    void read_shared();
    /// Waits until nobody looks at the shared state any more, or somebody does so for too long.
    void wait_for_visitors() const;

    Result<void> watch_channel();
    void unwatch_channel();
    static void on_channel(void* self);
    static void on_mempool_event(rte_mempool_event event, rte_mempool* pool, void* self);
    void read_event();

    const uint16_t port_id_; ///< as ethdev's data may vanish
    const RingFormats formats_;
    PortGuards& guards_;
    Fd device_; ///< the primary's, for mmap
    Fd channel_;
    rte_intr_handle* handle_ = nullptr;
    bool watching_ = false;
    std::atomic<bool> gone_ = false;
    std::atomic<uint32_t> visitors_ = 0;
    std::mutex queues_mutex_; ///< around open and close
    std::mutex clock_mutex_;
    uint64_t next_clock_ = 0; ///< timer cycles: when to ask for the clock again
    AnswerMessage clock_;     ///< the last answer to that question
};

} // namespace rawqp
