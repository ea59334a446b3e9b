// SPDX-License-Identifier: BSD-3-Clause
// rdma-core in user space: libibverbs, its providers, and whether they are from the same release.
#include "common/diagnosis/links.hpp"
#include "common/verbs/device_list.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <system_error>

namespace diagnosis {
namespace {

/// The file that a function was loaded from, links resolved; empty if unknown.
std::string file_of(const void* function) {
    Dl_info info{};
    if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
    const std::unique_ptr<char, decltype(&std::free)> path(realpath(info.dli_fname, nullptr),
                                                           std::free);
    return path ? path.get() : info.dli_fname;
}
template <class Function> std::string file_of(Function* function) {
    return file_of(reinterpret_cast<const void*>(function));
}

/// Release in the name of a library of rdma-core: "44.0" of libibverbs.so.1.14.44.0. Empty when the
/// name has none.
std::string release_of(const std::string& file) {
    const std::string name = files::base_name(file);
    const size_t version = name.find(".so.");
    if (version == name.npos) return {};
    const std::string numbers = name.substr(version + 4);
    const size_t second = numbers.find('.', numbers.find('.') + 1);
    return second == numbers.npos ? std::string() : numbers.substr(second + 1);
}

/// The interface between libibverbs and its providers, "34", as the library asks for it.
std::string private_interface(const std::string& library) {
    constexpr std::string_view kName = "IBVERBS_PRIVATE_";
    const std::string bytes = files::contents(library).value_or("");
    const size_t found = bytes.find(kName);
    if (found == bytes.npos) return {};
    const size_t start = found + kName.size();
    return bytes.substr(start, bytes.find_first_not_of("0123456789", start) - start);
}

/// Provider files next to libibverbs.
std::vector<std::string> providers_of(const std::string& library) {
    const std::string folder = library.substr(0, library.rfind('/'));
    std::vector<std::string> names;
    for (const std::string& name : files::entries(folder + "/libibverbs"))
        if (name.find("-rdmav") != name.npos) names.push_back(name);
    return names;
}

/// libibverbs' name for the provider of a device: mlx5 for mlx5_core.
std::string provider_name(const Case& subject) {
    std::string driver = subject.host.link_name(subject.of_device("device/driver"));
    if (driver.empty()) driver = subject.device;
    return driver.substr(0, driver.find('_'));
}

Verdict no_provider(const Case& subject) {
    const std::string name = provider_name(subject);
    const std::string library = file_of(subject.api->get_device_list);
    const std::string interface = private_interface(library);
    const std::string wanted = fmt::format("lib{}-rdmav{}.so", name, interface);
    const std::vector<std::string> present = providers_of(library);
    const auto of_name = std::ranges::find_if(present, [&](const std::string& file) {
        return file.starts_with(fmt::format("lib{}-", name));
    });
    const std::string packages =
        "install libibverbs1 and ibverbs-providers of one release: apt install --reinstall "
        "libibverbs1 ibverbs-providers";
    if (of_name != present.end() && *of_name != wanted)
        return Verdict::broken(fmt::format("{} wants {}, there is {}", library, wanted, *of_name),
                               "libibverbs and its provider are of different releases of rdma-core "
                               "or MLNX_OFED",
                               packages);
    if (of_name != present.end())
        return Verdict::broken(
            fmt::format("libibverbs lists: {}; {} is there",
                        fmt::join(subject.usable_devices(), ", "), wanted),
            fmt::format("libibverbs has a provider for RDMA device {}, which does not load or does "
                        "not know this device",
                        subject.device),
            "IBV_SHOW_WARNINGS=1 ibv_devices tells why; a newer NIC needs a newer rdma-core");
    return Verdict::broken(
        fmt::format("no {} beside {}", wanted, library),
        fmt::format("RDMA device {} is known to the kernel, but libibverbs cannot use it: its user "
                    "space provider is missing",
                    subject.device),
        "apt install ibverbs-providers");
}

} // namespace

std::vector<std::string> Case::usable_devices() const {
    return api ? verbs::DeviceList(*api).names() : std::vector<std::string>();
}

namespace links {

Verdict libibverbs(Case& subject) {
    if (!subject.api) {
        Result<verbs::Api> loaded = verbs::load_from(subject.libraries);
        if (!loaded)
            return Verdict::broken(fmt::format("dlopen(\"{}\")", subject.libraries.ibverbs),
                                   loaded.error().what,
                                   "apt install libibverbs1 ibverbs-providers; a library of one's "
                                   "own: LD_LIBRARY_PATH, ldconfig");
        subject.api = *loaded;
    }
    const std::string library = file_of(subject.api->get_device_list);
    const std::string of_mlx5 = file_of(subject.api->mlx5_is_supported);
    if (of_mlx5.empty())
        return Verdict::warning(library,
                                fmt::format("{} is missing, or older than rdma-core 44: datapath="
                                            "mlx5 is not possible",
                                            subject.libraries.mlx5),
                                "apt install ibverbs-providers");
    const std::string evidence = fmt::format("{}, {}", library, of_mlx5);
    if (release_of(library) != release_of(of_mlx5))
        return Verdict::broken(
            evidence,
            fmt::format("libibverbs is of rdma-core {}, libmlx5 of {}: parts of "
                        "different releases, or of MLNX_OFED, do not work together",
                        release_of(library), release_of(of_mlx5)),
            "apt install --reinstall libibverbs1 ibverbs-providers; remove the "
            "other installation from LD_LIBRARY_PATH and /etc/ld.so.conf.d");
    return Verdict::ok(evidence);
}

Verdict provider(Case& subject) {
    const verbs::DeviceList list(*subject.api);
    if (list.error() != 0)
        return Verdict::broken(
            fmt::format("ibv_get_device_list: {}", std::generic_category().message(list.error())),
            "libibverbs cannot list RDMA devices: the kernel module ib_uverbs is not loaded",
            "modprobe ib_uverbs");
    const std::vector<std::string> names = list.names();
    if (std::ranges::find(names, subject.device) == names.end()) return no_provider(subject);
    return Verdict::ok(fmt::format("libibverbs lists {}", fmt::join(names, ", ")));
}

} // namespace links
} // namespace diagnosis
