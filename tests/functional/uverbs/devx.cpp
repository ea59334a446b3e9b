// SPDX-License-Identifier: BSD-3-Clause
#include "tests/functional/uverbs/devx.hpp"

namespace test {
namespace {

constexpr size_t kPages = 16;

} // namespace

ContextHandle DevxTest::open_devx() {
    int count = 0;
    ibv_device** const devices = ibv_get_device_list(&count);
    mlx5dv_context_attr attributes{};
    attributes.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    ContextHandle opened(count ? mlx5dv_open_device(devices[0], &attributes) : nullptr);
    ibv_free_device_list(devices);
    return opened;
}

void DevxTest::SetUp() {
    context = open_devx();
    ASSERT_TRUE(context) << std::strerror(errno);
    pd.reset(ibv_alloc_pd(context.get()));
    ASSERT_TRUE(pd);
    mlx5dv_pd dv_pd{};
    mlx5dv_obj object{};
    object.pd = {pd.get(), &dv_pd};
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD), 0);
    pdn = dv_pd.pdn;
    ASSERT_EQ(mlx5dv_devx_query_eqn(context.get(), 0, &eqn), 0);
    uar = mlx5dv_devx_alloc_uar(context.get(), 0);
    ASSERT_TRUE(uar) << std::strerror(errno);
    storage.resize((kPages + 1) * kPage);
    const auto start = reinterpret_cast<uintptr_t>(storage.data());
    memory.first = storage.data() + (kPage - start % kPage) % kPage;
    umem.reset(
        mlx5dv_devx_umem_reg(context.get(), memory.data(), kPages * kPage, IBV_ACCESS_LOCAL_WRITE));
    ASSERT_TRUE(umem) << std::strerror(errno);
    domain = make(REQUEST(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain));
    ASSERT_TRUE(domain);
    tdn = last.number();
}

Result DevxTest::general(const Request& request, ibv_context* by) {
    last.answer.out.assign(kAnswerBytes, 0);
    last.error = mlx5dv_devx_general_cmd(by ? by : context.get(), request.in.data(),
                                         request.in.size(), last.answer.out.data(), kAnswerBytes);
    return last;
}

DevxHandle DevxTest::make(const Request& request, ibv_context* by) {
    last.answer.out.assign(64, 0);
    errno = 0;
    DevxHandle object(mlx5dv_devx_obj_create(by ? by : context.get(), request.in.data(),
                                             request.in.size(), last.answer.out.data(),
                                             last.answer.out.size()));
    last.error = object ? 0 : errno;
    return object;
}

Result DevxTest::query(mlx5dv_devx_obj* object, const Request& request) {
    last.answer.out.assign(kAnswerBytes, 0);
    last.error = mlx5dv_devx_obj_query(object, request.in.data(), request.in.size(),
                                       last.answer.out.data(), kAnswerBytes);
    return last;
}

Result DevxTest::modify(mlx5dv_devx_obj* object, const Request& request) {
    last.answer.out.assign(64, 0);
    last.error = mlx5dv_devx_obj_modify(object, request.in.data(), request.in.size(),
                                        last.answer.out.data(), last.answer.out.size());
    return last;
}

DevxHandle DevxTest::make_tis() {
    return make(REQUEST(CREATE_TIS, create_tis)
                    .set(inside(PRM(create_tis_in, ctx), PRM(tisc, transport_domain)), tdn));
}

// In reserved bits of the kernel's header: see softhca's prm/ring_memory.hpp.
constexpr Field kCqRecordUmem{0x20, 32}, kCqUmemOffset{0x280, 64}, kCqUmem{0x2c0, 32};
constexpr Field kWqRecordUmem{0x140, 32}, kWqUmem{0x160, 32}, kWqUmemOffset{0x180, 64};

Request DevxTest::cq_request(uint32_t ring, uint32_t record) {
    constexpr Field kContext = PRM(create_cq_in, cq_context);
    std::memset(page(ring), 0xff, kPage);
    std::memset(page(record), 0, kPage);
    return REQUEST(CREATE_CQ, create_cq)
        .set(inside(kContext, PRM(cqc, log_cq_size)), 6)
        .set(inside(kContext, PRM(cqc, uar_page)), uar->page_id)
        .set(inside(kContext, PRM(cqc, c_eqn_or_apu_element)), eqn)
        .set(inside(kContext, kCqRecordUmem), umem->umem_id)
        .set(inside(kContext, PRM(cqc, dbr_addr)), record * kPage)
        .set(kCqUmem, umem->umem_id)
        .set(kCqUmemOffset, ring * kPage);
}

namespace {

/// A work queue of 64 entries.
void set_wq(Request& request, Field wq, uint32_t pdn, uint32_t umem, uint64_t ring, uint64_t record,
            uint8_t log_stride) {
    constexpr uint64_t kCyclic = 1;
    request.set(inside(wq, PRM(wq, wq_type)), kCyclic)
        .set(inside(wq, PRM(wq, pd)), pdn)
        .set(inside(wq, PRM(wq, log_wq_stride)), log_stride)
        .set(inside(wq, PRM(wq, log_wq_sz)), 6)
        .set(inside(wq, kWqRecordUmem), umem)
        .set(inside(wq, PRM(wq, dbr_addr)), record)
        .set(inside(wq, kWqUmem), umem)
        .set(inside(wq, kWqUmemOffset), ring);
}

} // namespace

Request DevxTest::sq_request(uint32_t cqn, uint32_t tisn, uint32_t ring, uint32_t record) {
    constexpr Field kContext = PRM(create_sq_in, ctx), kWq = inside(kContext, PRM(sqc, wq));
    std::memset(page(record), 0, kPage);
    Request request = REQUEST(CREATE_SQ, create_sq)
                          .set(inside(kContext, PRM(sqc, cqn)), cqn)
                          .set(inside(kContext, PRM(sqc, tis_lst_sz)), 1)
                          .set(inside(kContext, PRM(sqc, tis_num_0)), tisn)
                          .set(inside(kWq, PRM(wq, uar_page)), uar->page_id);
    set_wq(request, kWq, pdn, umem->umem_id, ring * kPage, record * kPage, 6);
    return request;
}

Request DevxTest::rq_request(uint32_t cqn, uint32_t ring, uint32_t record) {
    constexpr Field kContext = PRM(create_rq_in, ctx);
    std::memset(page(record), 0, kPage);
    Request request = REQUEST(CREATE_RQ, create_rq)
                          .set(inside(kContext, PRM(rqc, cqn)), cqn)
                          .set(inside(kContext, PRM(rqc, vsd)), 1);
    set_wq(request, inside(kContext, PRM(rqc, wq)), pdn, umem->umem_id, ring * kPage,
           record * kPage, 4);
    return request;
}

Request DevxTest::tir_request(uint32_t rqn) {
    constexpr Field kContext = PRM(create_tir_in, ctx);
    return REQUEST(CREATE_TIR, create_tir)
        .set(inside(kContext, PRM(tirc, inline_rqn)), rqn)
        .set(inside(kContext, PRM(tirc, transport_domain)), tdn);
}

} // namespace test
