// SPDX-License-Identifier: BSD-3-Clause
#include "common/files.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdio>
#include <dirent.h>
#include <memory>
#include <unistd.h>

namespace files {
namespace {

struct CloseDir {
    void operator()(DIR* dir) const { closedir(dir); }
};
struct CloseFile {
    void operator()(FILE* file) const { fclose(file); }
};

} // namespace

std::vector<std::string> entries(const std::string& path) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, CloseDir> dir(opendir(path.c_str()));
    if (!dir) return names;
    while (const dirent* entry = readdir(dir.get()))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        const bool numbers = std::isdigit(static_cast<unsigned char>(a[0])) &&
                             std::isdigit(static_cast<unsigned char>(b[0]));
        return numbers && a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    return names;
}

std::optional<std::string> contents(const std::string& path) {
    const std::unique_ptr<FILE, CloseFile> file(fopen(path.c_str(), "re"));
    if (!file) return std::nullopt;
    std::string text;
    std::array<char, 4096> piece;
    while (const size_t size = fread(piece.data(), 1, piece.size(), file.get()))
        text.append(piece.data(), size);
    if (ferror(file.get()) != 0) return std::nullopt;
    return text;
}

std::string first_line(const std::string& path) {
    const std::string text = contents(path).value_or("");
    std::string line = text.substr(0, text.find('\n'));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())))
        line.pop_back();
    return line;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::string link_target(const std::string& path) {
    std::array<char, PATH_MAX> target;
    const ssize_t length = readlink(path.c_str(), target.data(), target.size());
    return length > 0 ? std::string(target.data(), static_cast<size_t>(length)) : std::string();
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

} // namespace files
