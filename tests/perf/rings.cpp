// SPDX-License-Identifier: BSD-3-Clause
// Preloaded before libmlx5, records which rings a program maps: a line "KIND ADDRESS BYTES" for
// each buffer, doorbell record and register, in the file that RAWQP_RINGS names. For touched.py.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/mlx5dv.h>

namespace {

void note(const char* kind, const void* start, size_t bytes) {
    const char* const name = getenv("RAWQP_RINGS");
    FILE* const file = name != nullptr ? fopen(name, "a") : nullptr;
    if (file == nullptr) return;
    if (bytes != 0) fprintf(file, "%s %p %zu\n", kind, start, bytes);
    fclose(file);
}

constexpr size_t kRecord = 2 * sizeof(uint32_t);

} // namespace

extern "C" int mlx5dv_init_obj(mlx5dv_obj* object, uint64_t types) {
    using Function = int(mlx5dv_obj*, uint64_t);
    static auto* const next =
        reinterpret_cast<Function*>(dlvsym(RTLD_NEXT, "mlx5dv_init_obj", "MLX5_1.2"));
    const int status = next(object, types);
    if (status != 0) return status;
    if ((types & MLX5DV_OBJ_CQ) != 0) {
        const mlx5dv_cq& cq = *object->cq.out;
        note("CQE", cq.buf, size_t{cq.cqe_cnt} * cq.cqe_size);
        note("doorbell-record", cq.dbrec, kRecord);
    }
    if ((types & MLX5DV_OBJ_RWQ) != 0) {
        const mlx5dv_rwq& wq = *object->rwq.out;
        note("WQE", wq.buf, size_t{wq.wqe_cnt} * wq.stride);
        note("doorbell-record", wq.dbrec, kRecord);
    }
    if ((types & MLX5DV_OBJ_QP) != 0) {
        const mlx5dv_qp& qp = *object->qp.out;
        note("WQE", qp.sq.buf, size_t{qp.sq.wqe_cnt} * qp.sq.stride);
        note("WQE", qp.rq.buf, size_t{qp.rq.wqe_cnt} * qp.rq.stride);
        note("doorbell-record", qp.dbrec, kRecord);
        note("doorbell-register", qp.bf.reg, qp.bf.size != 0 ? qp.bf.size : sizeof(uint64_t));
    }
    return 0;
}

namespace {

using Lookup = void*(void*, const char*);
void* our_own(void*, const char*) { return reinterpret_cast<void*>(mlx5dv_init_obj); }

} // namespace

/// Selects the lookup function that answers.
extern "C" [[gnu::visibility("hidden")]] Lookup* rawqp_lookup(void*, const char* name) {
    static void* const found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    static void* const next = found != nullptr ? found : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return strcmp(name, "mlx5dv_init_obj") == 0 ? our_own : reinterpret_cast<Lookup*>(next);
}

// A jump instead of a call, because the real dlsym depends on its caller.
asm(".globl dlsym\n"
    ".type dlsym, @function\n"
    "dlsym:\n"
    "push %rdi\n"
    "push %rsi\n"
    "sub $8, %rsp\n"
    "call rawqp_lookup\n"
    "add $8, %rsp\n"
    "pop %rsi\n"
    "pop %rdi\n"
    "jmp *%rax\n"
    ".size dlsym, . - dlsym\n");
