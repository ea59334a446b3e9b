// SPDX-License-Identifier: BSD-3-Clause
// Executes steering entries: hash table, entry, the next table, until the packet is somewhere.
#pragma once

#include "app/softhca/core/flow_path.hpp"
#include "app/softhca/core/icm.hpp"
#include "app/softhca/core/object_table.hpp"
#include "app/softhca/core/ste/format.hpp"

namespace softhca::core {
class FlowTables;
} // namespace softhca::core

namespace softhca::core::ste {

/// What it reads is the program's, and may be anything: a way that does not end drops the packet.
/// Used by the device thread with the device locked.
class Walker {
  public:
    /// All of it outlives the walker. `tables` know counters, reformats and each other.
    Walker(const Format& format, const Icm& icm, const ObjectTable<Tir>& tirs, FlowTables& tables);

    /// Where the entry at this address and those after it lead the packet, onto the path. `tag`: of
    /// rules before.
    template <class W>
    void walk(uint64_t address, const Packet& packet, uint32_t tag, FlowPath& path, W watch);

  private:
    template <class W>
    void finish(uint64_t address, const Packet& packet, uint32_t tag, FlowPath& path, W watch);
    [[nodiscard]] uint64_t place_of(const Next& next, const Packet& packet) const;
    [[nodiscard]] const Packet* change(const Entry& entry, const Packet& packet, FlowPath& path);
    [[nodiscard]] bool read_edits(const Entry& entry);

    const Format& format_;
    const Icm& icm_;
    const ObjectTable<Tir>& tirs_;
    FlowTables& tables_;
    HeaderEdits edits_; ///< of the present entry
    Reformat empty_l2_, empty_vlan_l2_;
};

} // namespace softhca::core::ste
