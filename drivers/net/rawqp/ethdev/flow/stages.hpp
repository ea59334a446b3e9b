// SPDX-License-Identifier: BSD-3-Clause
// The stages of groups above 0, see GroupStage. The device applies one rule of a table to a packet;
// so rules of lower priority than one that passes packets on are in another table, behind it.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/use_ref.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <deque>
#include <map>
#include <optional>

namespace rawqp {

/// A group has only its first stage until a rule passes packets on. The last stage goes when
/// nothing leads to it but what matches no rule, and no rule is in it. Outlives the uses of stages.
class GroupStages {
  public:
    struct Group {
        uint32_t number;
        bool egress;
        auto operator<=>(const Group&) const = default;
    };
    /// A stage behind the first one.
    class Stage final : public Used {
      public:
        Stage(GroupStages& all, Group group, uint8_t number, uint32_t after)
            : group(group), number(number), after(after), all_(all) {}

        const Group group;
        const uint8_t number;
        uint32_t after;   ///< has the rules of priorities after this one
        SteeringRule way; ///< for what matches no rule of the stage before; while the port runs

      private:
        void unused() override { all_.trim(group); }
        GroupStages& all_;
    };

    [[nodiscard]] bool empty() const { return groups_.empty(); }
    /// The stage of the group that has the rules of a priority.
    [[nodiscard]] uint8_t stage_of(const Group& group, uint32_t priority) const;
    /// Null: the group has no such stage, or it is the first one.
    [[nodiscard]] Stage* find(const Group& group, uint8_t number);
    /// Opens another stage behind those of the group; it goes again unless it is used.
    [[nodiscard]] Stage& open(const Group& group, uint32_t after);
    [[nodiscard]] static uint8_t number_of(const UseRef& use) { return use.as<Stage>().number; }

    /// In the order of their numbers.
    template <class Each> void for_each(Each each) {
        for (auto& [group, stages] : groups_)
            for (Stage& stage : stages)
                each(stage);
    }
    /// Takes the ways to all stages out of the device.
    void take_out() {
        for_each([](Stage& stage) { stage.way = {}; });
    }

  private:
    void trim(Group group);

    std::map<Group, std::deque<Stage>> groups_; ///< without their first stages
};

} // namespace rawqp
