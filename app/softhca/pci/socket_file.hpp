// SPDX-License-Identifier: BSD-3-Clause
// Socket files that do not outlive the process.
#pragma once

#include <string>

namespace softhca::pci {

/// The name of a socket that the process has created: removed with this object, and also by the
/// signals that end the process in the ordinary way (HUP, INT, TERM), unless these are ignored or
/// handled. At most kMost exist at a time; those beyond are not removed by signals.
class SocketFile {
  public:
    static constexpr size_t kMost = 4;
    /// `path`: valid for a socket address, so at most 107 bytes.
    explicit SocketFile(const std::string& path);
    ~SocketFile();
    SocketFile(const SocketFile&) = delete;
    SocketFile& operator=(const SocketFile&) = delete;

  private:
    std::string path_;
};

} // namespace softhca::pci
