// SPDX-License-Identifier: BSD-3-Clause
// A DevX context as a user of the firmware, and the objects that it created.
#pragma once

#include "app/softhca/uverbs/context.hpp"
#include "app/softhca/uverbs/devx.hpp"
#include "app/softhca/uverbs/devx/port_firmware.hpp"

namespace softhca::uverbs::devx {

class User final : public DevxUser {
  public:
    User(std::shared_ptr<PortFirmware> port_firmware, uint16_t uid)
        : firmware(std::move(port_firmware)), uid_(uid) {}
    ~User() override;
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    void record(const prm::Ref& object) override;
    void describe_tir(core::Number tirn, const core::TirAttr& tir) override;
    void describe_rqt(core::Number rqt, const std::vector<core::Number>& rqns) override;
    void describe_cq(core::Number cqn, const prm::CqDescription& cq) override;
    void describe_sq(core::Number sqn, const prm::SqDescription& sq) override;
    void describe_rq(core::Number rqn, const prm::RqDescription& rq) override;
    void update_cq(core::Number cqn, const prm::CqDescription& cq, prm::CqPart part) override;
    void update_rq(core::Number rqn, const prm::RqDescription& rq, prm::RqPart part) override;
    [[nodiscard]] bool in_use(const prm::Ref& object) override;
    void forget(const prm::Ref& object) override;
    [[nodiscard]] core::Number
    new_uar_number(std::shared_ptr<core::SendRegisters> registers) override;
    [[nodiscard]] core::Number transport_domain() const override { return domain_; }
    [[nodiscard]] core::Number make_tis() override;

    /// Creates the transport domain. See PortFirmware::execute().
    [[nodiscard]] Errno prepare();

    /// See PortFirmware.
    [[nodiscard]] Errno execute(std::vector<uint8_t>& in, std::vector<uint8_t>& out) {
        return firmware->execute(in, out, uid_);
    }

    [[nodiscard]] uint16_t uid() const { return uid_; }

    const std::shared_ptr<PortFirmware> firmware;

  private:
    /// Calls change(what a query says of the object), if that is recorded.
    template <class Change> void change(const prm::Ref& object, Change change);
    /// What a query says of a recorded object.
    void describe(const prm::Ref& object, std::vector<uint8_t> context);

    uint16_t uid_;
    core::Number domain_ = 0;
};

/// The user of a DevX context; null for other contexts.
[[nodiscard]] inline User* user_of(const Context& context) {
    return static_cast<User*>(context.devx.get());
}

/// An object created by a program's command. The command that destroys it is kept from the start.
struct CommandObject final : DevxObject {
    CommandObject(User& owner, uint64_t object_id, std::vector<uint8_t> destroy)
        : user(owner), id(object_id), destroy_command(std::move(destroy)) {}
    Errno take_down(core::Device&) override;

    User& user;
    uint64_t id; ///< see object_id()
    std::vector<uint8_t> destroy_command;
};

/// Memory of the program that its commands refer to.
struct UmemObject final : Object {
    UmemObject(User& owner, core::Number umem) : user(owner), number(umem) {}
    Errno take_down(core::Device&) override;

    User& user;
    core::Number number;
};

} // namespace softhca::uverbs::devx
