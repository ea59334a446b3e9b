// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/small_file.hpp"

#include "common/fd.hpp"

#include <array>
#include <fcntl.h>
#include <unistd.h>

namespace softhca::uverbs {

std::string read_line(const std::string& path) {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 256> text{};
    const ssize_t length = file ? read(file.get(), text.data(), text.size()) : -1;
    if (length <= 0) return {};
    const std::string_view all(text.data(), static_cast<size_t>(length));
    return std::string(all.substr(0, all.find('\n')));
}

void write_line(const std::string& path, std::string_view line) {
    const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file) return;
    std::string text(line);
    text += '\n';
    // One write, then the truncation: a concurrent reader sees the old or the new line.
    if (pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
        (void)!ftruncate(file.get(), static_cast<off_t>(text.size()));
}

} // namespace softhca::uverbs
