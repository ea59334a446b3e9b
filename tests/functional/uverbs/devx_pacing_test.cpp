// SPDX-License-Identifier: BSD-3-Clause
// DevX: rows of the table of packet pacing, and doorbell pages of virtio queues.
#include "tests/functional/uverbs/devx_queues.hpp"

#include <chrono>
#include <csignal>
#include <set>
#include <sys/mman.h>
#include <sys/resource.h>

namespace test {
namespace {

class DevxPacingTest : public DevxQueueTest {
  protected:
    static constexpr uint32_t kRate = 5000; // kbit/s

    mlx5dv_pp* row(uint32_t kbps, uint32_t flags, uint32_t burst = 0) {
        std::array<uint8_t, PRM_BYTES(set_pp_rate_limit_context)> rate{};
        net::store_be(rate.data(), kbps);
        net::store_be(rate.data() + 4, burst);
        errno = 0;
        return mlx5dv_pp_alloc(context.get(), rate.size(), rate.data(), flags);
    }
    /// Replaces the existing SQ and takes its ring.
    [[nodiscard]] Request paced_sq_request(uint16_t index) {
        sq.reset();
        return sq_request(number_of_send_cq, tisn, kSend, kSendRecord)
            .set(inside(PRM(create_sq_in, ctx), PRM(sqc, packet_pacing_rate_limit_index)), index);
    }
};

TEST_F(DevxPacingTest, SendQueuesKeepToTheRateOfTheirRow) {
    mlx5dv_pp* const entry = row(kRate, 0);
    ASSERT_TRUE(entry) << std::strerror(errno);
    ASSERT_NO_FATAL_FAILURE(use_sq(paced_sq_request(entry->index)));
    constexpr uint32_t kFrames = 32, kBytes = 1000;
    constexpr std::chrono::microseconds kEach{uint64_t{kBytes} * 8 * 1000 / kRate};
    const auto start = std::chrono::steady_clock::now();
    send(Frame(kBytes, 0x5a), kFrames);
    ASSERT_TRUE(wait_cqe(kSendCq));
    // The first frame does not wait, and the next one may catch up by half a millisecond.
    EXPECT_GT(std::chrono::steady_clock::now() - start, kEach * (kFrames - 2));
    sq.reset();
    mlx5dv_pp_free(entry);
}

TEST_F(DevxPacingTest, WhatIsNotKeptIsRefused) {
    EXPECT_FALSE(row(kRate, 0, 3000));
    EXPECT_EQ(errno, EINVAL) << "a bound of bursts";
    mlx5dv_pp* const entry = row(kRate, 0);
    EXPECT_TRUE(entry);
    if (entry) mlx5dv_pp_free(entry);
    EXPECT_FALSE(make(paced_sq_request(1))) << "nobody's row";
    EXPECT_EQ(last.status(), FwStatus::bad_resource);
}

TEST_F(DevxPacingTest, RowsAreSharedOrDedicated) {
    constexpr uint32_t kDedicated = 1;
    mlx5dv_pp* const first = row(kRate, 0);
    ASSERT_TRUE(first) << std::strerror(errno);
    mlx5dv_pp* const same = row(kRate, 0);
    mlx5dv_pp* const own = row(kRate, kDedicated);
    ASSERT_TRUE(same && own);
    EXPECT_EQ(first->index, same->index);
    EXPECT_NE(first->index, own->index);
    EXPECT_FALSE(row(0, 0));
    EXPECT_EQ(errno, EINVAL) << "no rate";
    for (const mlx5dv_pp* const entry : {first, own})
        EXPECT_TRUE(made(make(paced_sq_request(entry->index))));
    const uint16_t freed = own->index;
    for (mlx5dv_pp* const entry : {own, same, first})
        mlx5dv_pp_free(entry);
    EXPECT_FALSE(make(paced_sq_request(freed)));
    EXPECT_EQ(last.status(), FwStatus::bad_resource) << "no rate stands there any more";
}

TEST_F(DevxPacingTest, DoorbellPagesOfVirtioQueuesAreTheProgramsOwn) {
    constexpr size_t kThere = 32; // 2^log_doorbell_bar_size, one page each
    std::vector<mlx5dv_var*> vars;
    std::set<uint32_t> numbers;
    std::set<uint64_t> places;
    while (mlx5dv_var* const var = mlx5dv_alloc_var(context.get(), 0)) {
        vars.push_back(var);
        numbers.insert(var->page_id);
        places.insert(static_cast<uint64_t>(var->mmap_off));
    }
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_EQ(vars.size(), kThere);
    EXPECT_EQ(numbers.size(), kThere);
    EXPECT_EQ(places.size(), kThere);
    const auto map = [&](const mlx5dv_var& var) {
        return mmap(nullptr, var.length, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd,
                    static_cast<off_t>(var.mmap_off));
    };
    void* const page = map(*vars.front());
    ASSERT_NE(page, MAP_FAILED) << std::strerror(errno);
    *static_cast<volatile uint32_t*>(page) = 1; // rings a queue
    EXPECT_EQ(munmap(page, vars.front()->length), 0);
    const mlx5dv_var freed = *vars.front();
    mlx5dv_free_var(vars.front());
    EXPECT_EQ(map(freed), MAP_FAILED);
    vars.front() = mlx5dv_alloc_var(context.get(), 0);
    ASSERT_TRUE(vars.front());
    EXPECT_EQ(vars.front()->page_id, freed.page_id);
    for (mlx5dv_var* const var : vars)
        mlx5dv_free_var(var);
}

/// A page that cannot be had takes none of them.
TEST_F(DevxPacingTest, DoorbellPagesThatFailAreGivenBack) {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto old_handler = signal(SIGXFSZ, SIG_IGN);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    mlx5dv_var* const refused = mlx5dv_alloc_var(context.get(), 0);
    const int error = errno;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old_handler);
    EXPECT_FALSE(refused);
    EXPECT_EQ(error, EFBIG);
    mlx5dv_var* const first = mlx5dv_alloc_var(context.get(), 0);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->page_id, 0u);
    mlx5dv_free_var(first);
}

} // namespace
} // namespace test
