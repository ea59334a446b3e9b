// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/devx/user.hpp"

#include "app/softhca/prm/queues.hpp"
#include "app/softhca/uverbs/commands.hpp"
#include "app/softhca/uverbs/devx/rules.hpp"

#include <cerrno>

namespace softhca::uverbs {
namespace devx {
namespace {

constexpr size_t kAnswerBytes = 16;

std::vector<uint8_t> command(uint16_t opcode, size_t bytes) {
    std::vector<uint8_t> in(bytes);
    set(in, {0, 16}, opcode);
    return in;
}

/// Runs a command that only destroys. EBUSY: something uses the object.
Errno destroy_by(User& user, std::vector<uint8_t> in) {
    std::vector<uint8_t> out(kAnswerBytes);
    const Errno error = user.execute(in, out);
    return error && out[0] == static_cast<uint8_t>(prm::FwStatus::resource_busy) ? EBUSY : error;
}

} // namespace

User::~User() {
    std::vector<uint8_t> in = command(MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN,
                                      PRM_BYTES(dealloc_transport_domain_in)),
                         out(kAnswerBytes);
    set(in, PRM(dealloc_transport_domain_in, transport_domain), domain_);
    (void)execute(in, out);
    in = command(MLX5_CMD_OP_DESTROY_UCTX, PRM_BYTES(destroy_uctx_in));
    set(in, PRM(destroy_uctx_in, uid), uid_);
    (void)firmware->execute(in, out, 0);
}

Errno User::prepare() {
    std::vector<uint8_t> in = command(MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN,
                                      PRM_BYTES(alloc_transport_domain_in)),
                         out(PRM_BYTES(alloc_transport_domain_out));
    if (const Errno error = execute(in, out)) return error;
    domain_ =
        static_cast<core::Number>(get(out, PRM(alloc_transport_domain_out, transport_domain)));
    return 0;
}

core::Number User::make_tis() {
    constexpr prm::Field kContext = PRM(create_tis_in, ctx), kDomain = PRM(tisc, transport_domain);
    std::vector<uint8_t> in = command(MLX5_CMD_OP_CREATE_TIS, PRM_BYTES(create_tis_in)),
                         out(PRM_BYTES(create_tis_out));
    set(in, {kContext.offset + kDomain.offset, kDomain.width}, domain_);
    if (execute(in, out)) return 0;
    return static_cast<core::Number>(get(out, PRM(create_tis_out, tisn)));
}

void User::record(const prm::Ref& object) {
    firmware->with_firmware([&](prm::Firmware& prm) {
        if (prm.objects.look_up(object.kind, object.number)) return; // created by a command
        prm.objects.act_for(uid_);
        prm.objects.add(object.kind, object.number, {});
        prm.objects.act_for(0);
    });
}

template <class Change> void User::change(const prm::Ref& object, Change change) {
    firmware->with_firmware([&](prm::Firmware& prm) {
        if (prm::Object* const known = prm.objects.look_up(object.kind, object.number))
            change(known->context);
    });
}

void User::describe(const prm::Ref& object, std::vector<uint8_t> context) {
    change(object, [&](std::vector<uint8_t>& now) { now = std::move(context); });
}

void User::describe_tir(core::Number tirn, const core::TirAttr& tir) {
    describe({prm::Kind::tir, tirn}, prm::tir_context(tir));
}

void User::describe_rqt(core::Number rqt, const std::vector<core::Number>& rqns) {
    describe({prm::Kind::rqt, rqt}, prm::rqt_context(rqns));
}

void User::describe_cq(core::Number cqn, const prm::CqDescription& cq) {
    describe({prm::Kind::cq, cqn}, prm::cq_context(cq, PortFirmware::eq_of(cq.vector)));
}

void User::describe_sq(core::Number sqn, const prm::SqDescription& sq) {
    describe({prm::Kind::sq, sqn}, prm::sq_context(sq));
}

void User::describe_rq(core::Number rqn, const prm::RqDescription& rq) {
    describe({prm::Kind::rq, rqn}, prm::rq_context(rq));
}

void User::update_cq(core::Number cqn, const prm::CqDescription& cq, prm::CqPart part) {
    change({prm::Kind::cq, cqn}, [&](std::vector<uint8_t>& now) { prm::update(now, cq, part); });
}

void User::update_rq(core::Number rqn, const prm::RqDescription& rq, prm::RqPart part) {
    change({prm::Kind::rq, rqn}, [&](std::vector<uint8_t>& now) { prm::update(now, rq, part); });
}

bool User::in_use(const prm::Ref& object) {
    return firmware->with_firmware([&](prm::Firmware& prm) {
        const prm::Object* const found = prm.objects.look_up(object.kind, object.number);
        return found && found->users != 0;
    });
}

void User::forget(const prm::Ref& object) {
    firmware->with_firmware([&](prm::Firmware& prm) {
        prm.objects.remove(object.kind, object.number);
        if (object.kind == prm::Kind::uar) prm.send_registers.erase(object.number);
    });
}

core::Number User::new_uar_number(std::shared_ptr<core::SendRegisters> registers) {
    constexpr core::Number kFirst = 1, kLast = (1u << prm::log_limit(prm::Kind::uar)) - 1;
    return firmware->with_firmware([&](prm::Firmware& prm) {
        const core::Number number = prm.objects.new_number(prm::Kind::uar, kFirst, kLast);
        if (number != 0) prm.send_registers[number] = std::move(registers);
        return number;
    });
}

Errno CommandObject::take_down(core::Device&) {
    const Errno error = destroy_by(user, destroy_command);
    if (!error) user.firmware->events.forget(id);
    return error;
}

Errno UmemObject::take_down(core::Device&) {
    std::vector<uint8_t> in = command(MLX5_CMD_OP_DESTROY_UMEM, PRM_BYTES(destroy_umem_in));
    set(in, PRM(destroy_umem_in, umem_id), number);
    return destroy_by(user, std::move(in));
}

} // namespace devx

Errno open_devx(Context& context) {
    if (!context.port.config.devx.value_or(true)) return EOPNOTSUPP;
    const auto firmware = PortFirmware::of(context.port);
    std::vector<uint8_t> in(PRM_BYTES(create_uctx_in)), out(PRM_BYTES(create_uctx_out));
    devx::set(in, {0, 16}, MLX5_CMD_OP_CREATE_UCTX);
    const prm::Field caps{PRM(create_uctx_in, uctx).offset + PRM(uctx, cap).offset, 32};
    devx::set(in, caps, may_use_raw_packets() == 0 ? prm::kRawTransmit : 0);
    if (const Errno error = firmware->execute(in, out, 0)) return error;
    const auto uid = static_cast<uint16_t>(devx::get(out, PRM(create_uctx_out, uid)));
    auto user = std::make_unique<devx::User>(firmware, uid);
    if (const Errno error = user->prepare()) return error;
    context.devx = std::move(user);
    context.objects.set_numbers(context.devx.get());
    return 0;
}

} // namespace softhca::uverbs
