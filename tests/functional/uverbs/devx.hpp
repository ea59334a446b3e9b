// SPDX-License-Identifier: BSD-3-Clause
// Firmware commands through mlx5dv_devx_*: objects, umems, hand-made queues.
#pragma once

#include "common/mlx5/formats.hpp"
#include "tests/functional/uverbs/verbs.hpp"
#include "tests/unit/prm/request.hpp"

#include <cerrno>

namespace test {

using prm_test::Answer;
using prm_test::inside;
using prm_test::Request;
using softhca::prm::Field;
using softhca::prm::FwStatus;

using DevxHandle = Handle<mlx5dv_devx_obj, mlx5dv_devx_obj_destroy>;
using UmemHandle = Handle<mlx5dv_devx_umem, mlx5dv_devx_umem_dereg>;

/// The last command's errno and answer.
struct Result {
    int error = 0;
    Answer answer;
    [[nodiscard]] FwStatus status() const { return answer.status(); }
    [[nodiscard]] uint32_t number() const { return answer.number(); }
};

/// A context that may run firmware commands, and what queues need.
class DevxTest : public testing::Test {
  protected:
    static constexpr size_t kPage = 4096, kAnswerBytes = 4096 + 16;

    void SetUp() override;
    [[nodiscard]] static ContextHandle open_devx();

    Result general(const Request& request, ibv_context* by = nullptr);
    /// Returns null, with the reason in `last`, if the command is refused.
    [[nodiscard]] DevxHandle make(const Request& request, ibv_context* by = nullptr);
    Result query(mlx5dv_devx_obj* object, const Request& request);
    Result modify(mlx5dv_devx_obj* object, const Request& request);

    // The rings are in the pages of one umem, one after the other.
    [[nodiscard]] uint8_t* page(uint32_t index) { return memory.data() + index * kPage; }
    [[nodiscard]] Request cq_request(uint32_t ring, uint32_t record);
    [[nodiscard]] Request sq_request(uint32_t cqn, uint32_t tisn, uint32_t ring, uint32_t record);
    [[nodiscard]] Request rq_request(uint32_t cqn, uint32_t ring, uint32_t record);
    [[nodiscard]] Request tir_request(uint32_t rqn);
    [[nodiscard]] DevxHandle make_tis();

    ContextHandle context;
    PdHandle pd;
    uint32_t pdn = 0, eqn = 0;
    mlx5dv_devx_uar* uar = nullptr;
    std::vector<uint8_t, std::allocator<uint8_t>> storage;
    struct Pages {
        uint8_t* first = nullptr;
        [[nodiscard]] uint8_t* data() const { return first; }
    } memory;
    UmemHandle umem;
    Result last;
    DevxHandle domain;
    uint32_t tdn = 0;
};

} // namespace test
