// SPDX-License-Identifier: BSD-3-Clause
// Executes steering entries: hash table, entry, the next table, until the packet has a destination.
#pragma once

#include "app/softhca/core/flow_path.hpp"
#include "app/softhca/core/icm.hpp"
#include "app/softhca/core/object_table.hpp"
#include "app/softhca/core/ste/format.hpp"

namespace softhca::core {
class EditArguments;
class FlowTables;
class Meters;
} // namespace softhca::core

namespace softhca::core::ste {

/// What it reads belongs to the program and may be anything: a path that does not end drops the
/// packet. Used by the device thread with the device locked.
class Walker {
  public:
    /// What entries refer to; all of it outlives the walker.
    struct World {
        const Format& format;
        const Icm& icm;
        const Definers& definers;
        const EditArguments& arguments;
        const ObjectTable<Tir>& tirs;
        Meters& meters;
        FlowTables& tables; ///< know counters, reformats and each other
    };
    explicit Walker(const World& world) : world_(world) {}

    /// Where the entry at this address and those after it lead the packet, onto the path. `tag`:
    /// from earlier rules.
    template <class W>
    void walk(uint64_t address, const Packet& packet, uint32_t tag, FlowPath& path, W watch);

  private:
    template <class W>
    void finish(uint64_t address, const Packet& packet, uint32_t tag, FlowPath& path, W watch);
    [[nodiscard]] uint64_t place_of(const Next& next, const Packet& packet) const;
    template <class W>
    [[nodiscard]] const Packet* act(const Entry& entry, const Packet& packet, FlowPath& path,
                                    W watch);
    [[nodiscard]] bool add_steps(const Action& action, FlowPath& path);
    [[nodiscard]] bool add_edits(const Action& action, FlowPath& path);
    using Edit = std::array<std::byte, kEditBytes>;
    [[nodiscard]] bool fill_in(Edit& edit, Number arguments, uint32_t index) const;
    template <class W>
    [[nodiscard]] const Packet* meter(const Action& action, const Packet& packet, FlowPath& path,
                                      W watch);
    template <class W>
    [[nodiscard]] const Packet* take_steps(const Packet& packet, FlowPath& path, W watch);

    World world_;
    std::vector<HeaderStep> steps_; ///< of the present entry
};

} // namespace softhca::core::ste
