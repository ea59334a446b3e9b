// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/launcher/runtime_dir.hpp"

#include "app/softhca/config.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace softhca::launcher {
namespace {

namespace fs = std::filesystem;

// Time between creating a folder and locking it, during which it must not be taken for a dead one.
constexpr time_t kBirthSeconds = 60;
constexpr int kAttempts = 100;

// A port has about 140 small files, half a megabyte on most file systems.
constexpr uint64_t kRoomBytes = 64 << 20;

/// Folder names start alike; the rest is the launcher's process number.
struct Place {
    std::string folder;
    std::string prefix;
};

/// All places where the folders of this user's runs may be. In memory, if possible: a disk takes
/// longer for these files than the rest of the start.
std::vector<Place> runtime_places() {
    const char* xdg = std::getenv("XDG_RUNTIME_DIR");
    if (xdg && *xdg == '/' && access(xdg, W_OK | X_OK) == 0) return {{xdg, "softhca-"}};
    // Cables of link:NAME are softhca-UID-NAME in /dev/shm.
    const std::string prefix = fmt::format("softhca-run-{}-", geteuid());
    return {{"/dev/shm", prefix}, {"/tmp", prefix}};
}

/// Containers often have a small /dev/shm, which programs need for themselves.
bool has_room(const Place& place) {
    struct statvfs there {};
    return access(place.folder.c_str(), W_OK | X_OK) == 0 &&
           statvfs(place.folder.c_str(), &there) == 0 &&
           uint64_t{there.f_bavail} * there.f_frsize >= kRoomBytes;
}

/// The first that has room, otherwise the last, whatever error it gives then.
Place place_for_new() {
    std::vector<Place> places = runtime_places();
    const auto roomy = std::find_if(places.begin(), places.end() - 1, has_room);
    return std::move(*roomy);
}

void remove_tree(const std::string& path) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
}

Fd lock_folder(const std::string& path) {
    Fd lock(open((path + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock && flock(lock.get(), LOCK_EX | LOCK_NB) < 0) lock.reset();
    return lock;
}

Fd open_alive(const std::string& folder) {
    const std::string path = folder + "/" + kAliveFile;
    if (mkfifo(path.c_str(), 0600) < 0) return {};
    return Fd(open(path.c_str(), O_RDWR | O_CLOEXEC)); // a writer that waits for no reader
}

/// The lock distinguishes live from dead launchers; process numbers would not across PID
/// namespaces. It is held meanwhile, so that a live one notices which has just made the folder and
/// comes too late to lock it.
void remove_if_stale(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) < 0 || time(nullptr) - status.st_mtime < kBirthSeconds)
        if (access((path + "/lock").c_str(), F_OK) < 0) return;
    if (const Fd lock = lock_folder(path)) remove_tree(path);
}

/// Whether somebody has taken the new folder for that of a dead launcher.
bool is_taken(const Fd& lock) {
    struct stat status {};
    return lock ? fstat(lock.get(), &status) == 0 && status.st_nlink == 0 : errno == EWOULDBLOCK;
}

} // namespace

std::vector<std::string> find_runtime_dirs() {
    std::vector<std::string> found;
    for (const Place& place : runtime_places()) {
        std::error_code ignored;
        for (const auto& entry : fs::directory_iterator(place.folder, ignored)) {
            struct stat status {};
            if (entry.path().filename().string().starts_with(place.prefix) &&
                lstat(entry.path().c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                status.st_uid == geteuid())
                found.push_back(entry.path());
        }
    }
    return found;
}

Result<RuntimeDir> RuntimeDir::create() {
    for (const std::string& path : find_runtime_dirs())
        remove_if_stale(path);

    const Place place = place_for_new();
    const std::string wanted = fmt::format("{}/{}{}", place.folder, place.prefix, getpid());
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        // A launcher in another PID namespace may have our number.
        const std::string path = attempt ? fmt::format("{}-{}", wanted, attempt) : wanted;
        if (mkdir(path.c_str(), 0700) < 0) {
            if (errno == EEXIST) continue;
            return fail(errno,
                        "cannot make the runtime folder {} ({}); XDG_RUNTIME_DIR can name "
                        "another place",
                        path, std::strerror(errno));
        }
        Fd lock = lock_folder(path);
        if (is_taken(lock)) continue;
        Fd alive = lock ? open_alive(path) : Fd();
        if (!alive) {
            const int error = errno;
            remove_tree(path);
            return fail(error, "cannot lock the runtime folder {} ({})", path,
                        std::strerror(error));
        }
        return RuntimeDir(path, std::move(lock), std::move(alive));
    }
    return fail(
        EEXIST,
        "cannot make the runtime folder {}: it and the others of its name exist; remove them",
        wanted);
}

RuntimeDir::RuntimeDir(RuntimeDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)),
      alive_(std::move(other.alive_)) {}

RuntimeDir::~RuntimeDir() {
    if (!path_.empty()) remove_tree(path_);
}

} // namespace softhca::launcher
